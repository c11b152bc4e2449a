"""Limits of a service of items: bounds against simulations, sentences against the services that would refute them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelsim.errors import UsageError
from accelsim.report.service_study import CORES, answer, sentences
from accelsim.serving.items.asked import Question, read
from accelsim.serving.items.limits import Limits, by_cores, core_s, limits

MLP = "mlp?hidden=64"
QUESTION = Question(MLP, "t4", before="2ms", after="top5", cores=4)


@pytest.fixture(scope="module", name="found")
def _found() -> Limits:
    return limits(QUESTION, 0.25, 8, "xeon-8375c")


def test_a_service_at_its_limit_gives_what_its_slowest_part_could(found: Limits) -> None:
    for each in found.found:
        assert each.per_s <= 1.02 * each.bounds.rate
        assert each.per_s == pytest.approx(each.bounds.rate, rel=0.05), each.variant


def test_the_cores_from_which_the_cpu_no_longer_limits_are_the_kink(found: Limits) -> None:
    """With a core less the CPU limits in a simulation of its own, with one more it does not."""
    each = found.found[1]
    cores = found.cores_for(each)
    assert cores > QUESTION.cores and each.bounds.limit == "CPU"
    for count, limited in ((int(cores), True), (int(cores) + 1, False)):
        own = read(replace(QUESTION, cores=count, scheduler="dynamic:max=8"))
        assert (own.bounds.limit == "CPU") is limited


def test_sentences_say_what_was_simulated(found: Limits) -> None:
    plain, batched, *_ = found.found
    told = sentences(found)
    assert told[0].startswith("The CPU limits the service one by one") and plain.bounds.limit == "CPU"
    gain = batched.per_s / plain.per_s
    assert gain < 1.01 and told[1].startswith("Batches of 8: nothing"), "cores are the limit, with batches or without"
    fast = limits(Question(MLP, "t4", cores=64, before="10us"), 0.25, 8, "xeon-8375c")
    one, many, *_ = fast.found
    assert many.per_s > 2 * one.per_s and "times as many" in sentences(fast)[1]


def test_the_cpu_alone_adds_its_own_work_to_that_around_the_chip(found: Limits) -> None:
    assert found.cpu_s == pytest.approx(found.host_s + core_s(QUESTION, "xeon-8375c"))
    lines = dict(by_cores(found, CORES))
    assert lines["CPU alone"][CORES.index(4)] == pytest.approx(found.alone_per_s)
    assert all(rates == sorted(rates) for rates in lines.values())
    assert [row["service"] for row in answer(found).rows] == [each.variant.text for each in found.found]


def test_what_is_no_processor_and_no_share_is_refused() -> None:
    with pytest.raises(UsageError, match="no processor"):
        core_s(QUESTION, "t4")
    with pytest.raises(UsageError, match="above 0"):
        limits(QUESTION, 0.0, 8, "xeon-8375c")
