"""What the check ``serving`` reads of profiles, and what it says; the checks where nothing was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.validate import collectives, serving
from accelsim.validate.measured import ABSENT, folder
from accelsim.validate.serving import Compared, _said, between, fewest, profile

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
    assert "(nothing claimed)" in _said(Compared("x", 1.0, 1.1, None))


@pytest.mark.parametrize("check", [serving.serving, collectives.collectives])
def test_nothing_is_compared_where_nothing_was_measured(
    check: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (serving, collectives):
        monkeypatch.setattr(module, "folder", lambda: None)
    found = check()  # type: ignore[operator]
    assert found.rows == 0 and found.details == [ABSENT]


def test_layers_are_as_far_off_as_is_claimed() -> None:
    data = folder()
    if data is None:
        pytest.skip(ABSENT)
    for cluster in serving.MACHINES:
        assert all(
            each.claimed is None or abs(each.error) <= each.claimed for each in serving.llama(data, cluster)
        )
