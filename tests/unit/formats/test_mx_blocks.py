"""MX blocks: golden blocks, exact scales, and what one outlier does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accelsim.errors import UsageError
from accelsim.formats import codec, mx
from accelsim.formats.table import FORMATS, bytes_of, get
from accelsim.types import Array

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics" / "mx_blocks.npz"
BLOCK_FORMATS = [row.name for row in FORMATS.values() if row.kind == "block"]
FLOAT_BLOCKS = [name for name in BLOCK_FORMATS if name != "mxint8"]

blocks = hnp.arrays(np.float32, (3, 64), elements=st.floats(-(2.0**120), 2.0**120, width=32))


@pytest.mark.parametrize("name", FLOAT_BLOCKS)
def test_golden(name: str) -> None:
    file, element = np.load(GOLDEN), get(name).element
    np.testing.assert_array_equal(mx.scale_exponents(file["x"], name)[:, 0], file[f"scale_exp_{element}"])
    values = mx.cast(file["x"], name)
    assert np.count_nonzero(values != file[f"dq_{element}"]) == 0
    x = file["x"].astype(np.float64)
    ratio = 10 * np.log10(np.sum(x**2) / np.sum((values - x) ** 2))
    assert ratio == pytest.approx(float(file[f"{element}_sqnr"]), abs=1e-3)


@pytest.mark.parametrize("name", BLOCK_FORMATS)
@given(x=blocks)
def test_laws(name: str, x: Array) -> None:
    row, packed = get(name), mx.encode(x, name)
    values = packed.decode()
    np.testing.assert_array_equal(mx.cast(values, name), values)
    assert packed.scales.shape == (3, 2)
    assert packed.size_B == x.size * bytes_of(name)
    peaks = np.abs(x).reshape(3, 2, 32).max(2)
    exponents = packed.scales.astype(int) - 127
    normal = peaks >= 2.0 ** (mx.LOWEST + row.emax)
    mantissas = np.ldexp(peaks.astype(np.float64), -exponents - row.emax)[normal]
    assert np.all((mantissas >= 1) & (mantissas < 2))
    steps = np.repeat(np.ldexp(row.epsilon, exponents + row.emax), 32, -1).reshape(x.shape)
    inside = np.abs(x) <= np.ldexp(row.max, np.repeat(exponents, 32, -1).reshape(x.shape))
    assert np.all(np.abs(values.astype(np.float64) - x)[inside] <= (steps / 2)[inside])


def test_the_lowest_code_of_int8_is_unused() -> None:
    """It would be -2, in the binade above, and a second rounding would take another scale."""
    x = np.full((1, 32), -1.995, np.float32)
    x[0, 0] = 1.259
    values = mx.cast(x, "mxint8")
    assert np.all(values[0, 1:] == -127 / 64)
    np.testing.assert_array_equal(mx.cast(values, "mxint8"), values)


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_any_axis(name: str) -> None:
    x = np.random.default_rng(1).standard_normal((4, 64, 3)).astype(np.float32)
    want = np.moveaxis(mx.cast(np.moveaxis(x, 1, -1), name), -1, 1)
    np.testing.assert_array_equal(mx.cast(x, name, axis=1), want)
    np.testing.assert_array_equal(mx.cast(x, name, axis=-2), want)
    assert mx.encode(x, name, axis=1).scales.shape == (4, 2, 3)


def test_an_outlier_costs_its_block_only() -> None:
    x = np.full((1, 64), 0.7, np.float32)
    x[0, 0] = 600
    values = mx.cast(x, "mxfp4")
    assert np.all(values[0, 1:32] == 0)
    assert np.all(values[0, 32:] == 0.75)
    assert values[0, 0] == 512


def test_zeros_and_what_is_not_finite() -> None:
    x = np.zeros((1, 96), np.float32)
    x[0, 40], x[0, 70], x[0, 71] = np.nan, np.inf, 3
    for name in BLOCK_FORMATS:
        packed = mx.encode(x, name)
        assert packed.scales.tolist() == [[0, 255, 255]]
        values = packed.decode()
        assert np.all(values[0, :32] == 0)
        assert np.isnan(values[0, 32:]).all()


def test_rounding_is_that_of_the_element() -> None:
    x = np.array([[6.9, *[0.0] * 31]], np.float32)
    assert mx.cast(x, "mxfp4", rounding="rz")[0, 0] == 6
    assert mx.cast(x * 0.9, "mxint8", rounding="rz")[0, 0] == np.floor(6.21 * 16) / 16
    up = mx.cast(np.full((64, 32), 4.9, np.float32), "mxfp4", rounding="stochastic", seed=4)
    assert set(np.unique(up)) == {4, 6}
    assert np.array_equal(codec.cast([4.9], "fp4", "rz"), [4])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mx.cast(np.zeros((2, 48)), "mxfp4"), "blocks of 32 do not fill the 48 values along axis 1"),
        (lambda: mx.cast(np.zeros((2, 32)), "fp4"), "no format of blocks"),
        (lambda: mx.cast(np.zeros((2, 32)), "mxfp4", axis=2), "no axis 2"),
        (lambda: mx.cast(np.float32(1), "mxfp4"), "no axis -1"),
        (lambda: mx.cast(np.zeros((2, 32)), "mxfp4", rounding="up"), "no rounding"),
    ],
)
def test_errors(call: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call()
