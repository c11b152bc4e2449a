"""Steps that are alike are computed together, and old ones are summed up: figures stay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as drawing
from hypothesis import strategies as st

from accelsim.serving import steps as module
from accelsim.serving.blocks import Pool
from accelsim.serving.clock import Call, Clock
from accelsim.serving.measures import itl_s, latencies, percentile
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.base import Batch, Scheduler
from accelsim.serving.schedulers.registry import SCHEDULERS
from accelsim.serving.service import ROUTERS, Service, simulate
from accelsim.serving.steps import COLUMNS, binned

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40), st.integers(0, 99)), min_size=1, max_size=12)


def cost(batch: Batch) -> tuple[float, float]:
    return 0.5 + 0.01 * batch.tokens + 1e-4 * batch.context, 1.0 + batch.tokens


def served(name: str, asked: list[tuple[int, int, int]], blocks: int, most: int, clients: int = 0) -> Service:
    kind, settings = SCHEDULERS[name], {"most": most}
    pools = [Pool(blocks * (4 if kind.PAGE == 1 else 1), min(4, kind.PAGE)) for _ in range(2)]
    made = [kind(pool, **settings) for pool in pools]
    requests = sorted(Request(float(at), prompt, output) for prompt, output, at in asked)
    return simulate(requests, made, cost, ROUTERS["least-loaded"](), clients)


@pytest.mark.parametrize("name", SCHEDULERS)
@drawing(max_examples=30, deadline=None)
@given(LENGTHS, st.integers(18, 40), st.integers(1, 5), st.integers(0, 3))
def test_steps_that_are_alike_are_those_one_by_one(
    name: str, asked: list[tuple[int, int, int]], blocks: int, most: int, clients: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        together = served(name, asked, blocks, most, clients)
        patch.setattr(Scheduler, "alike", lambda *_: 0)
        patch.setattr(SCHEDULERS["vllm-v0"], "alike", lambda *_: 0)
        one_by_one = served(name, asked, blocks, most, clients)
    for one, other in zip(together.steps, one_by_one.steps, strict=True):
        for each in fields(one):
            assert getattr(one, each.name) == getattr(other, each.name), each.name
    for column in together.done.NAMES:
        assert together.done[column].tolist() == one_by_one.done[column].tolist()


def test_a_clock_is_asked_less_often_than_steps_end(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, at = list[float](), Clock.at

    def counted(self: Clock, time_s: float, call: Call, urgent: bool = False) -> None:
        calls.append(time_s)
        at(self, time_s, call, urgent)

    monkeypatch.setattr(Clock, "at", counted)
    service = served("vllm", [(8, 1000, 0)], 600, 4)
    assert len(service.steps[0]) == 1000 and len(calls) < 10


@pytest.fixture(name="folded")
def _folded(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, Service]]:
    """A service, and the same one with steps of which few are kept."""
    asked = [(1 + 7 * at % 23, 30 + 11 * at % 37, 5 * at) for at in range(60)]
    whole = served("vllm", asked, 60, 6)
    monkeypatch.setattr(module, "KEPT", 64)
    monkeypatch.setattr(module, "GROUP", 8)
    yield whole, served("vllm", asked, 60, 6)


def test_old_steps_are_summed_up(folded: tuple[Service, Service]) -> None:
    whole, short = folded
    for one, other in zip(whole.steps, short.steps, strict=True):
        assert len(other) == len(one) > 8 * len(other.column("end_s")) / 4
        assert len(other.end_s) <= 64 and other.older
        assert other.by_decoding == one.by_decoding
        assert other.of_prompts == pytest.approx(one.of_prompts)
        for name in ("seconds", "joules"):
            assert other.column(name).sum() == pytest.approx(one.column(name).sum())
        assert other.column("held").max() == one.column("held").max()
        averages = [np.average(each.column("decoding"), weights=each.column("seconds")) for each in (one, other)]
        assert averages[1] == pytest.approx(averages[0])
        assert {*COLUMNS} - {"prompts"} == {*other.older[0]}
    assert short.span_s == whole.span_s and short.busy == pytest.approx(whole.busy)


def test_times_between_tokens_are_counted_in_narrow_bins(folded: tuple[Service, Service]) -> None:
    whole, short = folded
    assert len(itl_s(short)) == len(itl_s(whole))
    one, other = (latencies(each)["itl"] for each in folded)
    assert other["mean"].value == pytest.approx(one["mean"].value)
    for name in ("p50", "p90", "p99"):
        assert other[name].value == pytest.approx(one[name].value, rel=2**-12)


def test_bins_keep_counts_and_means() -> None:
    values, counts = binned(np.array([1.0, 3.0, 1.0001, 0.0]), np.array([1, 5, 3, 2]))
    assert values.tolist() == pytest.approx([0.0, (1.0 + 3 * 1.0001) / 4, 3.0])
    assert counts.tolist() == [2, 4, 5]


@drawing(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 9), st.integers(1, 5)), min_size=1, max_size=20), st.floats(0.01, 0.99))
def test_percentiles_of_counted_values_are_those_of_all(pairs: list[tuple[float, int]], share: float) -> None:
    values, counts = (np.array(each) for each in zip(*sorted(pairs), strict=True))
    every = np.repeat(values, counts)
    assert percentile(values, share, counts) == percentile(every, share)
    assert percentile(every, share).value == np.quantile(every, share)
