"""Rounding to every format: golden conversions, exhaustive codes, and laws for every format and rounding."""

from __future__ import annotations

from fractions import Fraction
from math import nan
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accelsim.errors import UsageError
from accelsim.formats import codec
from accelsim.formats.table import FORMATS, get
from accelsim.types import Array

GOLDEN = Path(__file__).parents[2] / "golden" / "numerics"
CONFIGURED = ["fp8_e5m2b20", "fp24_e7m16", "fp5_e2m2fn", "fp10_e4m5b3fnuz", "fp8_e4m3b-100", "fp7_e1m5fn"]
SINGLE = [row.name for row in FORMATS.values() if row.kind != "block"] + CONFIGURED
FLOATS = [name for name in SINGLE if get(name).kind == "float" and name != "fp64"]
SHORT = [name for name in SINGLE if get(name).bits <= 16]
GOLDEN_CASTS = sorted(path.stem.removeprefix("cast_") for path in GOLDEN.glob("cast_*.npz"))

anything = hnp.arrays(np.float32, st.integers(1, 60), elements=st.floats(width=32))
finite = hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(-(2.0**127), 2.0**127))


def near(name: str) -> st.SearchStrategy[Array]:
    """Values where the format is dense: around its representables and its limits."""
    row = get(name)
    elements = st.floats(-1.25, 1.25).map(lambda share: share * min(row.max, 1e38)) | st.floats(-4, 4).map(
        lambda steps: steps * row.min_normal
    )
    return hnp.arrays(np.float64, st.integers(1, 60), elements=elements)


@pytest.mark.parametrize("name", [name for name in GOLDEN_CASTS if name != "tf32"])
def test_golden_values_of_all_codes(name: str) -> None:
    want = np.load(GOLDEN / f"cast_{name}.npz")["decoded_all_f32_bits"]
    if not want.size:
        dtype = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}[name]
        with np.errstate(invalid="ignore"):
            values = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
        np.testing.assert_array_equal(codec.decode(np.arange(1 << 16), name), values)
        return
    assert np.count_nonzero(codec.decode(np.arange(get(name).codes), name).view(np.uint32) != want) == 0


@pytest.mark.parametrize("name", SHORT)
def test_codes_survive_the_round_trip(name: str) -> None:
    codes = np.arange(get(name).codes)
    values = codec.decode(codes, name)
    known = ~np.isnan(values)
    for rounding in codec.ROUNDINGS:
        np.testing.assert_array_equal(codec.encode(values, name, rounding)[known], codes[known])
    again = codec.decode(codec.encode(values, name), name)
    np.testing.assert_array_equal(np.isnan(again), ~known)


@pytest.mark.parametrize("name", FLOATS)
@given(data=st.data())
@settings(max_examples=30)
def test_rounding_is_exact_rational_arithmetic(name: str, data: st.DataObject) -> None:
    """Every float64 and its neighbours in the format, compared as fractions: no double rounding."""
    row, x = get(name), data.draw(near(name))
    rounded = {r: codec.cast(x, name, r, "saturate", seed=3).astype(np.float64) for r in codec.ROUNDINGS}
    for i, value in enumerate(np.clip(x, row.min, row.max)):
        unit = max(2.0 ** (np.frexp(value)[1] - 1 - row.mantissa), row.min_subnormal)
        steps = Fraction(float(value)) / Fraction(unit)
        low = steps.numerator // steps.denominator
        rest, sign = steps - low, 1 if value > 0 else -1
        toward = low if value > 0 or rest == 0 else low + 1
        half = Fraction(1, 2)
        even = low + (rest > half or (rest == half and low % 2))
        away = low + (rest > half or (rest == half and sign > 0))
        want = {"rne": even, "rna": away, "rz": toward}
        for rounding, count in want.items():
            assert Fraction(float(rounded[rounding][i])) == count * Fraction(unit), (rounding, value)
        chance = Fraction(float(rounded["stochastic"][i])) / Fraction(unit)
        assert chance in (low, low + (rest > 0))


@pytest.mark.parametrize("name", SINGLE)
@given(x=anything, rounding=st.sampled_from(list(codec.ROUNDINGS)), data=st.data())
@settings(max_examples=25)
def test_laws_of_cast(name: str, x: Array, rounding: str, data: st.DataObject) -> None:
    row = get(name)
    overflow = data.draw(st.sampled_from(row.overflows))
    values = codec.cast(x, name, rounding, overflow, 7)
    assert values.dtype == row.container
    decoded = codec.decode(codec.encode(x, name, rounding, overflow, 7), name)
    np.testing.assert_array_equal(decoded, values)
    if values.dtype.kind == "f":
        known = ~np.isnan(values)
        np.testing.assert_array_equal(np.signbit(decoded)[known], np.signbit(values)[known])
    np.testing.assert_array_equal(codec.cast(values, name, rounding, overflow, 9), values)
    if rounding != "stochastic":
        order = np.sort(x[~np.isnan(x)])
        rounded = codec.cast(order, name, rounding, row.overflows[-1] if row.has_inf else None)
        known = rounded[~np.isnan(rounded)] if rounded.dtype.kind == "f" else rounded
        assert np.all(known[1:] >= known[:-1])


@pytest.mark.parametrize("name", FLOATS)
@given(x=finite)
@settings(max_examples=25)
def test_truncation_never_grows(name: str, x: Array) -> None:
    row = get(name)
    values = codec.cast(x, name, "rz").astype(np.float64)
    known = ~np.isnan(values)
    assert np.all(np.abs(values[known]) <= np.abs(x[known]))
    assert known.all() or row.overflow == "nan"


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3fn", "fp4_e2m1fn", "int8", "e8m0"])
@pytest.mark.parametrize("share", [0.25, 0.9])
def test_stochastic_rounding_is_unbiased(name: str, share: float) -> None:
    """Between 1 and its neighbour; the mean of 40,000 is within five standard errors, seeds repeat, others differ."""
    above = 1 + get(name).epsilon
    x = np.full(40_000, 1 + share * (above - 1))
    for given_x in (x, x.astype(np.float32)):
        values = codec.cast(given_x, name, "stochastic", seed=1).astype(np.float64)
        assert set(np.unique(values)) == {1.0, above}
        error = (values.mean() - float(given_x[0])) / (above - 1)
        assert abs(error) < 5 * np.sqrt(share * (1 - share) / x.size)
    np.testing.assert_array_equal(values, codec.cast(given_x, name, "stochastic", seed=1))
    assert np.any(values != codec.cast(given_x, name, "stochastic", seed=2))


def test_stochastic_rounding_of_subnormals_is_unbiased() -> None:
    x = np.full(40_000, 2.0**-9 * 1.3)
    values = codec.cast(x, "fp8_e4m3fn", "stochastic") / 2.0**-9
    assert set(np.unique(values)) == {1.0, 2.0}
    assert abs(values.mean() - 1.3) < 5 * np.sqrt(0.21 / x.size)


@pytest.mark.parametrize(
    ("name", "overflow", "want"),
    [
        ("fp16", "inf", [np.inf, np.inf, -np.inf]), ("fp16", "nan", [nan, nan, nan]),
        ("fp16", "saturate", [65504, 65504, -65504]), ("fp8_e4m3fn", "nan", [nan, nan, nan]),
        ("fp8_e4m3fn", None, [448, 448, -448]), ("fp8_e5m2", None, [np.inf, np.inf, -np.inf]),
        ("fp8_e5m2", "saturate", [57344, 57344, -57344]), ("fp8_e4m3fnuz", None, [nan, nan, nan]),
        ("fp8_e4m3fnuz", "saturate", [240, 240, -240]), ("fp4", None, [6, 6, -6]), ("tf32", None, [np.inf, np.inf, -np.inf]),
        ("int4", None, [7, 7, -8]), ("uint16", None, [65535, 65535, 0]), ("int64", None, [2**63 - 1, 2**63 - 1, -(2**63)]),
        ("e8m0", None, [nan, nan, nan]), ("e8m0", "saturate", [2.0**127, 2.0**127, nan]),
    ],
)  # fmt: skip
def test_overflow(name: str, overflow: str | None, want: list[float]) -> None:
    x = np.array([1e300, np.inf, -np.inf])
    np.testing.assert_array_equal(codec.cast(x, name, overflow=overflow), np.array(want, get(name).container))


def test_truncation_keeps_infinity_but_makes_none() -> None:
    np.testing.assert_array_equal(codec.cast([1e30, np.inf], "fp16", "rz"), [65504, np.inf])


def test_special_values() -> None:
    x = np.array([0.0, -0.0, nan, -nan, -1e-30], np.float32)
    assert codec.encode(x, "fp8_e4m3fn").tolist() == [0, 0x80, 0x7F, 0xFF, 0x80]
    assert codec.encode(x, "fp8_e4m3fnuz").tolist() == [0, 0, 0x80, 0x80, 0]
    assert codec.encode(x, "fp4").tolist() == [0, 8, 8, 0, 8]
    assert codec.encode(x, "bf16").tolist() == [0, 0x8000, 0x7FC0, 0xFFC0, 0x8DA2]
    assert codec.encode(x, "int4").tolist() == [0, 0, 0, 0, 0]
    assert codec.encode(x, "int1").tolist() == [1, 1, 0, 0, 0]
    assert codec.encode([-8, -1, 7, 99], "int4").tolist() == [8, 15, 7, 7]


def test_double_rounding_is_avoided() -> None:
    """1 + half a step + a little: float32 drops the little, and the tie then falls to 1."""
    for name, digits in (("bf16", 7), ("fp16", 10), ("fp8_e4m3fn", 3), ("fp32", 23)):
        x = 1 + 2.0 ** -(digits + 1) + 2.0**-50
        assert codec.cast(x, name) == 1 + 2.0**-digits
        assert codec.cast(x, name, "rz") == 1


@pytest.mark.parametrize("field", [0, 1, 2, 126, 127, 128, 200, 253, 254, 255, 256, 300])
def test_scales_round_as_ml_dtypes(field: int) -> None:
    """Every 64th mantissa of exponents of both signs, and all around the ties."""
    rest = np.unique(np.concatenate([np.arange(0, 1 << 23, 64), 0x400000 + np.arange(-99, 99), np.arange(99)]))
    x = ((np.uint32(field) << 23) + rest.astype(np.uint32)).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        want = x.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    np.testing.assert_array_equal(codec.encode(x, "e8m0"), want)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(codec.encode(x.astype(np.float64), "e8m0"), want)


def test_shapes_and_kinds_of_input() -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7
    for name in SINGLE:
        want = codec.cast(x, name)
        assert want.shape == x.shape
        np.testing.assert_array_equal(codec.cast(x.transpose(2, 0, 1), name), want.transpose(2, 0, 1))
        assert codec.cast(x[0, 0, 1], name).shape == ()
        assert codec.encode(x[:0], name).shape == (0, 3, 4)
    np.testing.assert_array_equal(codec.cast(np.array([300, -300]), "int8"), np.array([127, -128], np.int8))
    assert codec.cast(np.int64(2**53 + 1), "int64") == 2**53 + 1
    assert codec.cast(np.float16(0.1), "bf16") == codec.cast(float(np.float16(0.1)), "bf16")


def test_blocks_do_not_show() -> None:
    """Long arrays are rounded in pieces; the result is that of each value alone."""
    x = np.random.default_rng(0).standard_normal(40_000).astype(np.float32)
    for name in ("fp16", "fp4", "e8m0"):
        np.testing.assert_array_equal(codec.cast(x, name)[::997], [codec.cast(v, name) for v in x[::997]])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: codec.cast([1.0], "fp17"), "not a number format"),
        (lambda: codec.cast([1.0], "fp16", "rnd"), "no rounding 'rnd'"),
        (lambda: codec.cast([1.0], "fp8", overflow="inf"), "saturate or nan"),
        (lambda: codec.cast([1.0], "fp8", "up", "inf"), "(?s)no rounding.*cannot overflow"),
        (lambda: codec.cast([1.0], "mxfp4"), "blocks"),
        (lambda: codec.cast([1j], "fp16"), "complex"),
        (lambda: codec.decode([256], "fp8"), "below 256"),
        (lambda: codec.decode([-1], "fp8"), "below 256"),
        (lambda: codec.decode([1.0], "fp8"), "float64"),
    ],
)
def test_errors(call: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        call()
