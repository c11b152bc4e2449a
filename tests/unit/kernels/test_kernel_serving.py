"""Kernels of serving stacks: rows of tables, what each column changes, constants by format and library, intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from accelsim.engines.simt.serving_attention import COLUMNS, pairs
from accelsim.engines.simt.serving_experts import busy
from accelsim.errors import UsageError
from accelsim.fit.validation import residuals
from accelsim.kernels.calibrate import calibrate
from accelsim.kernels.explain import ends
from accelsim.kernels.predict import Kernels
from accelsim.kernels.table import one, several
from accelsim.kernels.whole import uncalibrated
from accelsim.spec.serving import served
from accelsim.spec.yaml.load import load_chip

DECODE = {"kv": "4096", "heads": "32", "kv_heads": "8", "head_dim": "128", "batch": "64"}
PREFILL = {"tokens": "4096", "heads": "32", "kv_heads": "8", "head_dim": "128"}
EXPERTS = {"tokens": "64", "hidden": "4096", "inter": "1536", "topk": "8", "experts": "128"}
LAYER = {"M": "64", "K": "4096", "N": "4096"}


def us(chip: str, op: str, dtype: str, cells: Mapping[str, str], *overrides: str) -> float:
    """Microseconds of a kernel."""
    loaded = load_chip(chip, list(overrides))
    return float(Kernels(one(op, dtype, cells), loaded).predicted(loaded).seconds[0]) * 1e6


def test_a_window_is_what_a_query_sees() -> None:
    rows = {name: np.array([1.0]) for name in COLUMNS} | {
        "tokens": np.array([5.0]), "kv": np.array([8.0]), "window": np.array([6.0])
    }  # fmt: skip
    seen = [min(3 + query + 1, 6) for query in range(5)]
    assert pairs(rows)[0] == sum(seen)
    assert pairs(rows | {"window": np.array([0.0])})[0] == sum(3 + query + 1 for query in range(5))
    assert pairs(rows | {"causal": np.array([0.0]), "window": np.array([0.0])})[0] == 40


@pytest.mark.parametrize(("op", "cells"), [("serving_prefill", PREFILL), ("serving_decode", DECODE)])
def test_windows_and_a_write_to_the_cache_change_attention(op: str, cells: Mapping[str, str]) -> None:
    whole = us("h100-sxm", op, "bf16", cells)
    assert us("h100-sxm", op, "bf16", {**cells, "window": "128"}) < whole / 2
    assert us("h100-sxm", op, "bf16", {**cells, "window": "8192"}) == whole
    assert us("h100-sxm", op, "bf16", {**cells, "cache_write": "0"}) < whole


def test_the_quantiser_is_a_kernel_that_static_scales_do_without() -> None:
    dynamic, static = (us("h100-sxm", "serving_linear", "fp8", {**LAYER, "scales": scales}) for scales in ("dynamic", "static"))  # fmt: skip
    assert 1.5 < dynamic - static < 10
    many = {"M": "8192", "K": "128", "N": "128"}
    rows = us("h100-sxm", "serving_linear", "fp8", many) - us("h100-sxm", "serving_linear", "fp8", {**many, "scales": "static"})  # fmt: skip
    assert 5 < rows * 1e3 / 8192 < 9, "nanoseconds for a row"
    assert us("h100-sxm", "serving_linear", "bf16", {**LAYER, "scales": "static"}) == us("h100-sxm", "serving_linear", "bf16", LAYER)  # fmt: skip


def test_flash_attention_2_does_not_cut_keys_of_windows() -> None:
    long = {**DECODE, "batch": "1", "kv_heads": "1", "kv": "16384"}
    assert us("l40s", "serving_decode", "bf16", {**long, "window": "16384"}) > 3 * us("l40s", "serving_decode", "bf16", long)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "weight_B", "activation_B", "arithmetic", "quantises"),
    [
        ("bf16", 2, 2, "bf16", False), ("fp8_e4m3fn", 1, 1, "fp8_e4m3fn", True), ("nvfp4", 0.5625, 0.5625, "fp4_e2m1fn", True),
        ("mxfp4", 0.53125, 0.53125, "fp4_e2m1fn", True), ("int4xfp16", 0.515625, 2, "fp16", False),
        ("int8xbf16", 1, 2, "bf16", False), ("mxfp4xbf16", 0.53125, 2, "bf16", False), ("int8", 1, 1, "int8", True),
    ],
)  # fmt: skip
def test_formats_have_bytes_and_an_arithmetic(
    name: str, weight_B: float, activation_B: float, arithmetic: str, quantises: bool
) -> None:
    assert served(name) == (weight_B, activation_B, arithmetic, quantises)


def test_narrow_formats_need_a_chip_that_multiplies_them() -> None:
    assert us("b200-sxm", "serving_linear", "nvfp4", LAYER) > 0
    assert us("a100-80-sxm", "serving_linear", "int4xbf16", {"M": "1", "K": "16384", "N": "16384"}) > 0
    with pytest.raises(UsageError, match="does not multiply nvfp4"):
        us("h100-sxm", "serving_linear", "nvfp4", LAYER)
    with pytest.raises(UsageError, match="does not multiply fp8_e4m3fn"):
        us("a100-80-sxm", "moe", "fp8", EXPERTS)


def test_experts_that_have_a_token() -> None:
    columns = {"tokens": 1.0, "topk": 8.0, "experts": 128.0, "ep": 1.0, "skew": 0.0}

    def found(**changed: float) -> tuple[float, float]:
        active, rows = busy({name: np.array([value]) for name, value in {**columns, **changed}.items()})
        return float(active[0]), float(rows[0])

    assert found() == pytest.approx((8, 8))
    assert found(tokens=64.0) == pytest.approx((128 * (1 - (1 - 8 / 128) ** 64), 512))
    assert found(tokens=4.0, skew=-1.0) == (32, 32)
    active, rows = found(tokens=64.0, skew=1.2)
    assert active < found(tokens=64.0)[0]
    assert rows == pytest.approx(512)
    assert found(tokens=64.0, ep=16.0)[1] > 512 / 16, "the fullest of sixteen"
    assert found(tokens=64.0, ep=16.0, skew=-1.0) == (8, 32)


def test_a_mixture_of_experts_reads_those_that_have_a_token() -> None:
    few, many = (us("h100-sxm", "moe", "bf16", {**EXPERTS, "tokens": tokens}) for tokens in ("1", "64"))
    assert many > 3 * few
    assert us("h100-sxm", "moe", "bf16", {**EXPERTS, "gated": "0"}) < many
    assert us("h100-sxm", "moe", "bf16", {**EXPERTS, "library": "triton"}) == many, "the usual library"


def test_constants_are_those_of_the_library_and_of_the_chip_that_was_measured() -> None:
    triton, cutlass = (us("h100-sxm", "moe", "fp8_block", {**EXPERTS, "library": name}) for name in ("triton", "cutlass"))  # fmt: skip
    assert triton != cutlass
    for chip, op, dtype, cells, own in (
        ("h100-sxm", "serving_linear", "bf16", LAYER, True),
        ("h100-sxm", "serving_linear", "fp16", LAYER, True),
        ("h100-sxm", "serving_linear", "int4xbf16", LAYER, False),
        ("h100-pcie", "serving_linear", "bf16", LAYER, False),
        ("h100-sxm", "serving_decode", "bf16", {**DECODE, "kv_dtype": "fp8"}, True),
    ):
        loaded = load_chip(chip)
        kernels = Kernels(one(op, dtype, cells), loaded)
        made = kernels.predicted(loaded)
        found = ends(kernels, made)
        assert bool(found.calibrated[0]) is own, (chip, dtype)
        factor = float(found.high[0] / made.seconds[0])
        assert (1 < factor < 1.6) if own else factor == pytest.approx(uncalibrated("layer"))


@pytest.mark.parametrize(
    ("op", "cells", "what"),
    [
        ("serving_decode", {**DECODE, "tokens": "2"}, "tokens is 2"),
        ("serving_decode", {**DECODE, "kv_dtype": "fp7"}, "kv_dtype is 'fp7'"),
        ("serving_decode", {**DECODE, "library": "tritn"}, "library is 'tritn'"),
        ("serving_prefill", {**PREFILL, "kv": "100"}, "100 keys of 4096 new tokens"),
        ("serving_prefill", {**PREFILL, "window": "-1"}, "window is -1"),
        ("serving_linear", {**LAYER, "scales": "statc"}, "scales is 'statc'"),
        ("moe", {**EXPERTS, "topk": "129"}, "topk is 129 of 128 experts"),
        ("moe", {**EXPERTS, "ep": "3"}, "128 experts on 3 devices"),
        ("moe", {**EXPERTS, "skew": "even"}, "skew is 'even'"),
    ],
)
def test_what_is_wrong_is_said(op: str, cells: Mapping[str, str], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        one(op, "bf16", cells)


def test_serving_kernels_are_calibrated_from_the_constants_of_another_chip() -> None:
    """Rows of a chip that takes two and a half times as long as the model of another."""
    sizes = [{"M": str(m), "K": str(k), "N": "4096"} for m in (1, 16, 256, 2048) for k in (256, 2048, 8192, 16384)]
    table = several("serving_linear", "bf16", sizes)
    plain, known = load_chip("a10g"), load_chip("a10g", ["sm.serving=serving/vllm-a100-80-sxm"])
    table = replace(table, measured=2.5 * Kernels(table, plain).predicted(plain).seconds)
    with pytest.raises(UsageError, match="has no constants of serving_linear"):
        calibrate(table, plain, "a test", "2026-11")
    found = calibrate(table, known, "a test", "2026-11")
    assert found.chip.calibration is not None and found.chip.calibration.kinds == ["layer"]
    assert all(name.startswith("sm.serving.layers.bf16.") for name in found.values)
    before = Kernels(table, known).predicted(known).seconds
    assert residuals(found.fitted.seconds, table.measured).mean < residuals(before, table.measured).mean / 2


def test_plain_attention_has_windows_and_narrow_keys_too() -> None:
    whole = us("h100-sxm", "attention", "bf16", {**DECODE, "tokens": "1"})
    assert us("h100-sxm", "attention", "bf16", {**DECODE, "tokens": "1", "window": "128"}) < whole / 3
    assert us("h100-sxm", "attention", "bf16", {**DECODE, "tokens": "1", "kv_dtype": "fp8"}) < whole / 1.5
    assert us("h100-sxm", "attention", "bf16", {**PREFILL, "window": "256"}) < us("h100-sxm", "attention", "bf16", PREFILL) / 3  # fmt: skip
    with pytest.raises(UsageError, match="window is 256 in a backward pass"):
        one("attention", "bf16", {**PREFILL, "window": "256", "direction": "bwd"})
