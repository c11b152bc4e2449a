"""Convolutions in closed form: what few channels cost, kernels of a format's own, transforms of large filters."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import accelsim
from accelsim.cluster.step.asked import Asked, ready
from accelsim.engines.simt.convolutions import IMPLICIT, WINOGRAD_2X2, algorithm_seconds, forms
from accelsim.engines.simt.products import ChipRates
from accelsim.kernels.calibrate import calibrate
from accelsim.kernels.predict import Kernels, Prediction
from accelsim.kernels.table import one, several


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


OWN = {"fp16": "{channels: 64}", "fp32": "{fft: 3000}"}


def predicted(dtype: str, block: str | None, *overrides: str, **sizes: int) -> Prediction:
    """A convolution on a chip whose format has kernels of its own, or not."""
    cells = {"B": 8, "C_in": 128, "C_out": 128, "kernel": 3, "H_W": 28, "stride": 1, "padding": 1} | sizes
    sets = [] if block is None else [f"sm.formats.{dtype}.convolution={block}"]
    chip = accelsim.load_chip("a100-80-sxm", [*sets, *overrides])
    return Kernels(one("conv2d", dtype, {name: str(value) for name, value in cells.items()}), chip).predicted(chip)


def times(dtype: str, block: str | None, *overrides: str, **sizes: int) -> float:
    return float(predicted(dtype, block, *overrides, **sizes).seconds[0])


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_kernels_of_a_format_s_own_cut_no_loop_and_know_no_winograd(dtype: str) -> None:
    deep = {"C_in": 1024, "C_out": 16, "B": 2, "H_W": 7}
    assert predicted(dtype, None, **deep).times.splits[0] > 1
    assert predicted(dtype, OWN[dtype], **deep).times.splits[0] == 1
    large = {"B": 64, "C_in": 256, "C_out": 256}
    assert "Winograd" in predicted("fp32", None, **large).times.regime[0]
    assert predicted(dtype, OWN[dtype], **large).times.regime[0] == "implicit GEMM"


def test_gradients_of_filters_cut_their_loop_and_fill_no_images_up() -> None:
    row = {"n": 8, "c": 64, "k": 64, "h": 56, "w": 56, "p": 56, "q": 56, "filter_h": 3, "filter_w": 3, "out_h": 56,
           "out_w": 56, "stride_w": 1}  # fmt: skip
    cells = {name: str(value) for name, value in row.items()} | {"direction": "bwd_params"}
    ampere, hopper = (accelsim.load_chip(name) for name in ("a100-80-sxm", "h100-sxm"))
    old, new = (Kernels(one("conv", "fp16", cells), chip).predicted(chip) for chip in (ampere, hopper))
    assert new.times.splits[0] > 1 and new.seconds[0] < old.seconds[0]
    step_ms = {name: ready(Asked("resnet50", name, "", 8)).step().time_s * 1e3 for name in ("a100-80-sxm", "h100-sxm")}
    assert step_ms["h100-sxm"] < step_ms["a100-80-sxm"]


def test_each_constant_of_theirs_takes_time() -> None:
    none = {"sustained": 1.0, "tile": 1.0, "strided": 0.0, "pointwise": 1.0, "channels": 8}

    def taken(name: str = "channels", value: float = 8, **sizes: int) -> float:
        return times("fp16", json.dumps(none | {name: value}), **sizes)

    whole, small = {"B": 64, "C_in": 256, "C_out": 256}, {"B": 1, "H_W": 7, "C_in": 1024}
    assert taken("sustained", 0.5, **whole) == pytest.approx(2 * taken(**whole), rel=0.1)
    assert taken("tile", 65536, **small) > 2 * taken(**small)
    assert taken("strided", 1, stride=2, **small) > 1.5 * taken(stride=2, **small)
    assert taken("strided", 1, **small) == taken(**small)
    assert taken("channels", 64, C_in=16) == pytest.approx(taken(C_in=64), rel=0.2)


@pytest.mark.parametrize(("dtype", "gradients"), [("fp32", False), ("fp32", True), ("fp16", False)])
def test_an_algorithm_takes_its_products_its_transforms_and_its_kernels(dtype: str, gradients: bool) -> None:
    """Only Winograd's products of one kernel are slower for their transforms; gradients by implicit GEMM take longer."""
    spec = accelsim.load_chip("a100-80-sxm").engines["sm"]
    ways = spec.convolution.model_copy(update={"fused": 0.5, "transforms": 3.0, "filters": 5.0, "backward": 1.5})
    spec = spec.model_copy(update={"convolution": ways, "launch": 1.0, "dispatch": 0.0, "reduction": 7.0})
    sizes = {"n": 8, "c": 128, "h": 28, "w": 28, "k": 128, "r": 3, "s": 3, "p": 28, "q": 28, "stride": 1,
             "backward": gradients}  # fmt: skip
    found = forms(spec, dtype, {name: np.array([float(size)]) for name, size in sizes.items()})
    clock_Hz = 1e3 / (spec.lanes * spec.multiprocessors)
    taken = algorithm_seconds(
        spec, ChipRates(clock_Hz, 1, Fraction(1), 1e3), found, [np.array([21.0])] * len(found.algorithms)
    )
    assert len(found.algorithms) > 1
    for each, seconds in zip(found.algorithms, taken[:, 0].tolist(), strict=True):
        own = 20 * (2 if each.name == WINOGRAD_2X2 else 1) + each.kernels * 7
        own *= 1.5 if gradients and each.name == IMPLICIT else 1
        own += (3 * each.elements[0] + 5 * each.filters_B[0]) / 1e3
        expected = 1 + float(ways.call) + own if each.fits[0] else np.inf
        assert seconds == pytest.approx(expected, rel=1e-12, abs=0), each.name


def gradient_s(channels: int, taps: int, stride: int, direction: str) -> float:
    """Seconds of a gradient of 8 images of 56 x 56 and 64 results on a P100, in FP32."""
    side = 56 // stride
    cells = {"w": 56, "h": 56, "c": channels, "n": 8, "k": 64, "filter_w": taps, "filter_h": taps, "pad_w": taps // 2,
             "pad_h": taps // 2, "stride_w": stride, "stride_h": stride, "out_w": side, "out_h": side}  # fmt: skip
    row = {**{name: str(value) for name, value in cells.items()}, "direction": direction}
    chip = accelsim.load_chip("p100-pcie", ["calibration=null"])
    return float(Kernels(several("conv", "fp32", [row]), chip).predicted(chip).seconds[0])


def test_gradients_of_inputs_of_few_channels_are_columns_added_up() -> None:
    """Products of one column would leave tiles empty: what eight channels take would be the least of all."""
    assert gradient_s(1, 7, 2, "bwd_inputs") < 0.5 * gradient_s(8, 7, 2, "bwd_inputs")


def test_gradients_of_inputs_read_by_steps_multiply_zeros() -> None:
    """A filter of one place, read by steps of 2, has a quarter of the multiplications and over half of the time."""
    whole, steps = (gradient_s(512, 1, stride, "bwd_inputs") for stride in (1, 2))
    assert 0.3 * whole < steps < whole


def test_filters_of_one_place_are_plain_products_unless_they_move_or_reach_beyond_the_image() -> None:
    plain, slow = (f"{{sustained: 0.5, pointwise: {share}}}" for share in (1.0, 0.25))
    point = {"kernel": 1, "C_in": 1024, "C_out": 1024, "B": 64}
    assert times("fp32", plain, padding=0, **point) == times("fp32", slow, padding=0, **point)
    for sizes in ({"padding": 1}, {"padding": 0, "stride": 2}):
        assert times("fp32", slow, **point, **sizes) > 3 * times("fp32", plain, **point, **sizes)


def test_large_filters_of_many_images_and_channels_are_transformed() -> None:
    many = {"B": 73, "C_in": 512, "C_out": 1024, "kernel": 7, "H_W": 56}
    found, without = predicted("fp32", OWN["fp32"], **many), predicted("fp32", "{}", **many)
    assert found.times.regime[0] == "FFT" and without.times.regime[0] == "implicit GEMM"
    assert found.seconds[0] < 0.3 * without.seconds[0]
    assert found.times.bound[0] < found.seconds[0] and found.times.bound[0] < without.times.bound[0]
    for sizes in ({"B": 1}, {"kernel": 3}, {"stride": 2}):
        assert predicted("fp32", OWN["fp32"], **many | sizes).times.regime[0] == "implicit GEMM"


def test_fewer_images_take_no_longer_than_those_that_are_enough_for_a_transform() -> None:
    sizes = {"C_in": 512, "C_out": 1024, "kernel": 7, "H_W": 56}
    times = [float(predicted("fp32", OWN["fp32"], B=images, **sizes).seconds[0]) for images in range(1, 12)]
    assert times == sorted(times) and times[5] == times[2]


def test_a_calibration_turns_the_constants_of_such_kernels() -> None:
    block = "sm.formats.fp16.convolution={channels: 64, sustained: 0.6, tile: 9000}"
    rows = [
        {"B": str(n), "C_in": str(c), "C_out": str(k), "kernel": "3", "H_W": "28", "stride": "1", "padding": "1"}
        for n in (1, 16, 128) for c in (64, 512) for k in (64, 256, 1024)
    ]  # fmt: skip
    truth = accelsim.load_chip("a100-80-sxm", [block])
    table = several("conv2d", "fp16", rows)
    table = replace(table, measured=Kernels(table, truth).predicted(truth).seconds)
    chip = accelsim.load_chip("a100-80-sxm", ["sm.formats.fp16.convolution={channels: 64}"])
    found = calibrate(table, chip, "itself", "2026-11")
    assert found.values["sm.formats.fp16.convolution.sustained"] == pytest.approx(0.6, rel=0.05)
    assert found.values["sm.formats.fp16.convolution.tile"] == pytest.approx(9000, rel=0.05)
    assert float(np.abs(found.left_out / table.measured - 1).mean()) < 0.02
