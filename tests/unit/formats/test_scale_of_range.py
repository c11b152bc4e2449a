"""Scales and zero points: those of ONNX Runtime, and the laws they keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.formats import integer, table
from accelsim.formats.ranges.methods import dynamic_quantise, scale_zero_point
from accelsim.workload.graph import Array

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics" / "int8_ops_ort.npz"
INTEGERS = ["int8", "uint8", "int16", "uint16", "int4", "uint4"]
ends = st.floats(-1e6, 1e6, width=32).filter(lambda x: x == 0 or abs(x) > 1e-20)


@pytest.fixture(scope="module")
def golden() -> dict[str, Array]:
    return dict(np.load(GOLDEN))


@pytest.mark.parametrize("case", ["normal", "pos", "neg", "zeros", "wide", "const", "ties"])
def test_dynamic_quantise_is_dynamicquantizelinear(golden: dict[str, Array], case: str) -> None:
    codes, scale, zero_point = dynamic_quantise(golden[f"dql_{case}_x"])
    assert (scale, zero_point) == (golden[f"dql_{case}_scale"], golden[f"dql_{case}_zp"])
    assert scale.dtype == np.float32
    assert np.count_nonzero(codes != golden[f"dql_{case}_y"]) == 0
    assert codes.dtype == np.uint8


def test_dynamic_quantise_of_nothing() -> None:
    codes, scale, zero_point = dynamic_quantise(np.zeros((0, 2)))
    assert (codes.shape, scale, zero_point) == ((0, 2), 1, 0)


@given(ends, ends, st.sampled_from(INTEGERS), st.booleans())
def test_scales_of_onnxruntime(a: float, b: float, dtype: str, symmetric: bool) -> None:
    utils = pytest.importorskip("onnxruntime.quantization.quant_utils")
    low, high = sorted((np.float32(a), np.float32(b)))
    first, last = integer.code_range(dtype, narrow=symmetric)
    want = utils.compute_scale_zp(low, high, np.array(first), np.array(last), symmetric)
    scale, zero_point = scale_zero_point(low, high, dtype, symmetric)
    assert (zero_point, scale) == (int(want[0]), want[1])


@given(ends, ends, st.sampled_from(INTEGERS), st.booleans())
def test_zero_is_exact_and_the_ends_are_reached(a: float, b: float, dtype: str, symmetric: bool) -> None:
    low, high = sorted((a, b))
    scale, zero_point = scale_zero_point(low, high, dtype, symmetric)
    first, last = integer.code_range(dtype)
    assert first <= zero_point <= last
    ends = np.array([low, 0, high], np.float32)
    codes = integer.quantise(ends, scale, dtype, zero_point)
    back = integer.dequantise(codes, scale, zero_point)
    assert back[1] == 0
    np.testing.assert_allclose(back, ends, rtol=1e-5, atol=float(scale) * 0.5001 * (1 + (dtype[0] == "u")))


@given(st.floats(2.0**-100, 2.0**100, width=32), st.sampled_from(["int8", "int16", "int4"]))
def test_symmetric_scale_is_that_of_absmax(peak: float, dtype: str) -> None:
    want = integer.absmax_scale(np.array([peak, -peak / 2]), dtype)
    assert scale_zero_point(-peak / 2, peak, dtype) == (want, 0)
    assert scale_zero_point(-peak, 0, dtype) == (want, 0)


@pytest.mark.parametrize("dtype", [name for name, row in table.FORMATS.items() if row.kind == "float"])
def test_floats_use_their_largest_value(dtype: str) -> None:
    scale, zero_point = scale_zero_point(-3.0, 1.0, dtype)
    top = table.get(dtype).max
    want = 3.0 / top if 3.0 / top >= np.finfo(np.float32).tiny else 1.0
    assert (scale, zero_point) == (np.float32(want), 0)


@pytest.mark.parametrize("symmetric", [True, False])
def test_degenerate_ranges(symmetric: bool) -> None:
    for low, high in ((0.0, 0.0), (-1e-42, 1e-42)):
        for dtype in ("int8", "uint8", "fp8_e5m2"):
            assert scale_zero_point(low, high, dtype, symmetric) == (1, 0)
    assert scale_zero_point(2.0, 4.0, "uint8", False) == (np.float32(4 / 255), 0)
    assert scale_zero_point(-4.0, -2.0, "uint8", False) == (np.float32(4 / 255), 255)
    assert scale_zero_point(-1.0, 1.0, "uint8") == (np.float32(2 / 255), 128)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1.0, -1.0, "int8"), "low <= high"),
        ((0.0, float("inf"), "int8"), "finite"),
        ((float("nan"), 1.0, "int8"), "finite"),
        ((0.0, 1e300, "int8"), "finite"),
        ((0.0, 1.0, "int1"), "expected mean_abs"),
        ((0.0, 1.0, "mxfp8_e4m3"), "an integer, float or binary format"),
        ((0.0, 1.0, "imt8"), "did you mean 'int8'"),
    ],
)
def test_what_has_no_scale(arguments: tuple[float, float, str], text: str) -> None:
    with np.errstate(over="ignore"), pytest.raises(UsageError, match=text):
        scale_zero_point(*arguments)
