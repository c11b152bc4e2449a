"""Convolutions in closed form: what few channels cost on Tensor Cores, and on lanes not."""

from __future__ import annotations

import pytest

import accelsim
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import several


def seconds(dtype: str, channels: int, results: int = 64, direction: str = "fwd") -> float:
    cells = {
        "w": 224, "h": 224, "c": channels, "n": 16, "k": results, "filter_w": 3, "filter_h": 3, "pad_w": 1,
        "pad_h": 1, "stride_w": 1, "stride_h": 1, "out_w": 224, "out_h": 224,
    }  # fmt: skip
    row = {**{name: str(value) for name, value in cells.items()}, "direction": direction}
    chip = accelsim.load_chip("v100-sxm2-16")
    return float(Kernels(several("conv", dtype, [row]), chip).predicted(chip).seconds[0])


def test_fewer_channels_than_a_tensor_core_takes_cost_more_than_eight() -> None:
    assert seconds("fp16", 3) == pytest.approx(seconds("fp16", 1), rel=0.02)
    assert seconds("fp16", 3) > 1.5 * seconds("fp16", 8)
    assert seconds("fp16", 3) > seconds("fp32", 3)  # which cuDNN is measured to be


def test_lanes_take_channels_one_by_one() -> None:
    times = [seconds("fp32", channels) for channels in (1, 3, 8)]
    assert times == sorted(times) and times[0] < 0.7 * times[2]


def test_gradients_of_filters_pay_for_few_channels_too() -> None:
    assert seconds("fp16", 3, direction="bwd_params") > seconds("fp16", 8, direction="bwd_params")
