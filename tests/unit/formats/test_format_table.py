"""The table of formats: published limits, derived properties, names."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.formats import codec, table
from accelsim.formats.table import ALIASES, FORMATS, Format, get

THEIRS = {name.replace("fp", "float"): name for name in FORMATS if "_e" in name and name.startswith("fp")}
ML_DTYPES = {theirs: name for theirs, name in THEIRS.items() if hasattr(ml_dtypes, theirs)}
FLOATS = [row for row in FORMATS.values() if row.kind == "float"]


@pytest.mark.parametrize("theirs", [*ML_DTYPES, "bfloat16", "float16", "float32", "float64"])
def test_limits_are_those_of_ml_dtypes(theirs: str) -> None:
    row, info = get(theirs), ml_dtypes.finfo(getattr(ml_dtypes, theirs, theirs))
    assert (row.bits, row.exponent, row.mantissa) == (info.bits, info.nexp, info.nmant)
    ours = [row.max, row.min, row.min_normal, row.min_subnormal, row.epsilon]
    assert ours == [
        float(info.max), float(info.min), float(info.smallest_normal), float(info.smallest_subnormal), float(info.eps)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "largest", "normal", "subnormal"),
    [
        ("fp16", 65504, 2**-14, 2**-24), ("bf16", 3.3895313892515355e38, 2**-126, 2**-133),
        ("fp8_e4m3fn", 448, 2**-6, 2**-9), ("fp8_e5m2", 57344, 2**-14, 2**-16), ("fp8_e4m3fnuz", 240, 2**-7, 2**-10),
        ("fp8_e5m2fnuz", 57344, 2**-15, 2**-17), ("fp8_e4m3", 240, 2**-6, 2**-9), ("fp8_e3m4", 15.5, 0.25, 2**-6),
        ("fp6_e2m3fn", 7.5, 1, 0.125), ("fp6_e3m2fn", 28, 0.25, 0.0625), ("fp4_e2m1fn", 6, 1, 0.5),
        ("mxfp4", 6, 1, 0.5), ("mxint8", 127 / 64, 1 / 64, 1 / 64), ("e8m0", 2.0**127, 2.0**-127, 2.0**-127),
        ("tf32", (2 - 2**-10) * 2.0**127, 2.0**-126, 2.0**-136), ("fp8_e5m2b20", 1792, 2**-19, 2**-21),
    ],
)  # fmt: skip
def test_published_limits(name: str, largest: float, normal: float, subnormal: float) -> None:
    row = get(name)
    assert (row.max, row.min_normal, row.min_subnormal) == (largest, normal, subnormal)


@pytest.mark.parametrize("row", [row for row in FLOATS if row.bits <= 16], ids=lambda row: row.name)
def test_properties_are_those_of_the_codes(row: Format) -> None:
    values = codec.decode(np.arange(row.codes), row.name).astype(np.float64)
    positive = np.sort(values[np.isfinite(values) & (values > 0)])
    assert (positive[0], positive[-1]) == (row.min_subnormal, row.max)
    assert positive[positive > 1][0] - 1 == row.epsilon or row.name.startswith("fp4")
    assert np.isinf(values).any() == row.has_inf
    assert np.isnan(values).any() == row.has_nan
    zeros = np.signbit(values[values == 0]).tolist()
    assert zeros == ([False, True] if row.has_negative_zero else [False])
    assert row.max_code == np.flatnonzero(values == row.max)[0]
    assert 2.0**row.emax <= row.max < 2.0 ** (row.emax + 1)


@pytest.mark.parametrize(
    ("name", "size"),
    [("int4", 0.5), ("tf32", 4), ("int1", 0.125), ("int2", 0.25), ("fp6", 0.75), ("mxfp8_e4m3", 33 / 32),
     ("mxfp4", 17 / 32), ("bf16", 2), ("fp64", 8), ("uint16", 2), ("fp24_e7m16", 3)],
)  # fmt: skip
def test_bytes_of(name: str, size: float) -> None:
    assert table.bytes_of(name) == size


@pytest.mark.parametrize("row", FORMATS.values(), ids=lambda row: row.name)
def test_every_row_is_explained(row: Format) -> None:
    assert row.title
    assert row.used
    assert row.source
    assert row.overflow in row.overflows
    assert np.dtype(row.code_type).itemsize * 8 >= (row.stored or get(row.element or row.name).bits)
    if row.name != "int64":
        limits = np.array([row.min, row.max])
        np.testing.assert_array_equal(limits.astype(row.container).astype(float), limits)


def test_aliases_name_rows() -> None:
    assert set(ALIASES.values()) <= set(FORMATS)
    assert not set(ALIASES) & set(FORMATS)
    assert get("fp8").name == "fp8_e4m3fn"
    assert get("binary").name == "int1"
    assert get("cfp8_e3m4").name == "fp8_e3m4"


@pytest.mark.parametrize(
    ("name", "said"),
    [("fp8_e4m3f", "fp8_e4m3fn"), ("itn8", "int8"), ("fp9_e4m3", "bits = 1"), ("fp8_e5m2b300", "float32"), ("fp25_e1m23", "bits = 1 \\+ E"),
     ("fp34_e9m24", "E <= 8")],
)  # fmt: skip
def test_unknown_names(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        get(name)


def test_configured_encodings() -> None:
    assert get("fp8_e4m3b7").max == get("fp8_e4m3").max
    assert get("fp8_e4m3b7fn").max == get("fp8_e4m3fn").max
    assert get("fp8_e4m3b8fnuz").max == get("fp8_e4m3fnuz").max
    assert get("fp5_e2m2fn").encoding == "finite"
    assert get("fp8_e4m3b-3").bias == -3
