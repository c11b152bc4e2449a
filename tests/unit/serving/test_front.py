"""The serving engine around steps: what it adds, and the closed loops of others that it was not fitted to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accelsim.cluster.step.costs import Setting
from accelsim.errors import SpecError
from accelsim.serving.asked import Question, served
from accelsim.spec.yaml.chips import load_site
from tests.validation.measured import ABSENT
from tests.validation.serving_front import seen
from tests.validation.serving_loads import Compared, errors, lines, loads, meets, opened, ranked, reliability, steady
from tests.validation.serving_loops import QWEN, rows
from tests.validation.serving_most import most

ALONE = Question("llama?layers=1", "h100-sxm", "constant:0.001/s", "fixed:8,4", requests=3)


def test_an_idle_service_takes_longer_by_what_the_site_says() -> None:
    front = load_site("vllm-server").front
    assert front is not None
    without, with_it = (served(replace(ALONE, setting=Setting(site=site))).service for site in (None, "vllm-server"))
    step_s = front.step + front.sequence
    for before, after in zip(without.sequences, with_it.sequences, strict=True):
        assert after.ttft_s - before.ttft_s == pytest.approx(front.request + 8 * front.token + step_s)
        assert after.tpot_s is not None and before.tpot_s is not None
        assert after.tpot_s - before.tpot_s == pytest.approx(step_s)


def test_an_unknown_site_is_named() -> None:
    with pytest.raises(SpecError, match="vllm-server"):
        served(replace(ALONE, setting=Setting(site="vllm-sever")))


def test_measured_loops_take_about_as_long() -> None:
    found = [row for row in rows() if not seen(row) and row.model == QWEN and row.tp == 2 and row.prompt == 922]
    if not found:
        pytest.skip(ABSENT)
    short = sorted((row for row in found if row.engine == "vllm"), key=lambda row: row.clients)
    compared = [steady(row) for row in short[:3]]
    assert np.median(abs(errors(compared, "ttft_s"))) < 0.25 and np.median(abs(errors(compared, "tpot_s"))) < 0.08
    assert all(each.held("tpot_s") for each in compared) and np.mean([each.held("ttft_s") for each in compared]) > 0.7
    assert ranked(compared, "tpot_s").all()
    said, kept = meets(compared).T
    assert len(said) == 3 * 29 and np.mean((said - kept) ** 2) < 0.05 and abs(said.mean() - kept.mean()) < 0.05


def test_a_measured_open_loop_takes_about_as_long() -> None:
    found = [load for load in loads() if load.name == "18-llama-3-1-8b-tp1-codegen-1"]
    if not found:
        pytest.skip(ABSENT)
    compared = opened(found[0], span_s=20)
    assert abs(compared.error("ttft_s")) < 0.3 and abs(compared.error("e2e_s")) < 0.12


def test_formats_have_other_names() -> None:
    assert Setting(dtype="fp8", kv_dtype="half") == Setting(dtype="fp8_e4m3fn", kv_dtype="fp16")


def test_a_table_of_errors_counts_rows_and_pairs() -> None:
    def made(measured: float, predicted: float) -> Compared:
        return Compared("vllm, x, fp8, H100", {"ttft_s": measured}, {"ttft_s": (predicted, 0.9 * predicted, 1.2)}, 0.5)

    found = [made(1.0, 1.1), made(1.1, 1.0), made(1.3, 1.0), made(2.0, 1.8)]
    assert [*lines(found, "all")] == ["| all | ttft_s | 4 | 10.0% | 19.2% | -9.5% | 50% |"]
    assert sorted(ranked(found, "ttft_s").tolist()) == [False, True, True, True]


def test_odds_of_limits_are_put_beside_what_was_kept() -> None:
    found = [Compared("", {"ttft_s": at}, {"ttft_s": (1.0, 0.79, 1.27)}) for at in (0.5, 1.0)]
    classes = [*reliability(found)]
    assert sum(count for count, _, _ in classes) == 2 * 19
    assert [kept for _, _, kept in classes] == pytest.approx([0.05, 0.5, 1.0, 1.0], abs=0.01)
    assert [said for _, said, _ in classes] == pytest.approx([0.0, 0.06, 0.8, 1.0], abs=0.01)


def test_rows_of_most_throughput_are_those_of_one_service() -> None:
    found = most()
    if not found:
        pytest.skip(ABSENT)
    assert len(found) == 7 and found == sorted(found)
    assert all(row.prompt <= 5000 and row.output <= 4096 and 2000 < row.tokens_per_s < 30_000 for row in found)
