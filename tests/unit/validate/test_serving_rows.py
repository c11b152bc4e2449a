"""What the check ``serving`` reads of profiles, and what it says; the checks where nothing was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.validation import collectives, serving
from tests.validation.measured import ABSENT, folder
from tests.validation.serving import Compared, _said, between, fewest, jump, profile

HEADER = "op,device,dtype,M,K,N,model,tp,time_us,source\n"


def test_a_profile_is_the_median_by_tokens(tmp_path: Path) -> None:
    lines = [
        "mlp_up_proj,x,fp16,64,8192,7168,Llama-2-70b-hf,8,10,a", "mlp_up_proj,x,fp16,64,8192,7168,Llama-2-70b-hf,8,30,a",
        "mlp_up_proj,x,fp16,128,8192,7168,Llama-2-70b-hf,8,40,a", "mlp_up_proj,x,fp16,1,8192,7168,Llama-2-70b-hf,4,9,a",
        "attn_pre_proj,x,fp16,128,8192,1280,Meta-Llama-3-70B,8,7,a", "attn_pre_proj,y,fp16,9,8192,1280,Llama-2-70b-hf,8,7,a",
    ]  # fmt: skip
    (tmp_path / serving.PRODUCTS).write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    found = profile(tmp_path, "x")
    assert found["mlp_up_proj"] == pytest.approx({64: 20e-6, 128: 40e-6}) and fewest(found) == 128
    assert between(found["mlp_up_proj"], 96) == pytest.approx(30e-6)


def test_a_row_says_what_is_claimed() -> None:
    assert "+10.0% (claimed: 8%)" in _said(Compared("x", 1.0, 1.1, 0.08))
    assert "(nothing claimed: noise)" in _said(Compared("x", 1.0, 1.1, None, "noise"))


def test_measured_times_that_fall_with_size_bound_every_error_from_below() -> None:
    """Against the best of many times that do not fall with size, found by trying levels of the pair that falls."""
    times = {10: 40e-6, 20: 60e-6, 40: 30e-6, 80: 70e-6}
    levels = np.linspace(30e-6, 60e-6, 30_001)
    tried = np.maximum(np.maximum(levels / 60e-6, 60e-6 / levels), np.maximum(levels / 30e-6, 30e-6 / levels))
    assert jump(times, 20) == pytest.approx(tried.min() - 1, abs=1e-4)
    assert jump(times, 80) == 0.0 and jump({1: 1.0, 2: 2.0}, 2) == 0.0
    assert jump(times, 10) == pytest.approx((40 / 30) ** 0.5 - 1)


@pytest.mark.parametrize("check", [serving.serving, collectives.collectives])
def test_nothing_is_compared_where_nothing_was_measured(check: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (serving, collectives):
        monkeypatch.setattr(module, "folder", lambda: None)
    found = check()  # type: ignore[operator]
    assert found.rows == 0 and found.details == [ABSENT]


def test_layers_are_as_far_off_as_is_claimed() -> None:
    data = folder()
    if data is None:
        pytest.skip(ABSENT)
    for cluster in serving.MACHINES:
        assert all(each.claimed is None or abs(each.error) <= each.claimed for each in serving.llama(data, cluster))
