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
from tests.validation.serving_front import errors, rows

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
    found = [
        row for row in rows() if not row.fit and row.model == "Qwen/Qwen3-32B" and row.tp == 2 and row.prompt == 1024
    ]
    if not found:
        pytest.skip(ABSENT)
    front = load_site("vllm-server").front
    assert front is not None
    first, each = np.median(abs(errors(found[:6], front)), axis=0)
    assert first < 0.25 and each < 0.08


def test_formats_have_other_names() -> None:
    assert Setting(dtype="fp8", kv_dtype="half") == Setting(dtype="fp8_e4m3fn", kv_dtype="fp16")
