"""A value described bit by bit, and the picture of its neighbours."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.formats import codec
from accelsim.formats.describe import describe, neighbour
from accelsim.formats.table import FORMATS, get
from accelsim.report.formats import draw, values_around

SINGLE = [row.name for row in FORMATS.values() if row.kind != "block"]


def test_a_normal_value() -> None:
    what = describe(0.3, "fp8_e4m3fn")
    assert (what.rounded, what.code, what.bits, what.kind) == (0.3125, 0x2A, "0 0101 010", "normal")
    assert (what.below, what.above) == (0.28125, 0.34375)
    assert what.absolute_error == pytest.approx(0.0125)
    assert what.relative_error == pytest.approx(1 / 24)
    assert [field.meaning for field in what.fields] == ["+", "5 - bias 7 = -2: factor 2^-2", "1 + 2/8 = 1.25"]
    assert not what.saturated


@pytest.mark.parametrize(
    ("value", "name", "kind", "bits", "below", "above"),
    [
        (2**-9, "fp8", "subnormal", "0 0000 001", 0, 2**-8), (-0.0, "fp8", "zero", "1 0000 000", -(2**-9), 2**-9),
        (1e9, "fp16", "infinity", "0 11111 0000000000", 65504, None),
        (-math.inf, "fp8_e5m2", "infinity", "1 11111 00", None, -57344), (math.nan, "fp8", "NaN", "0 1111 111", None, None),
        (math.nan, "fp8_e4m3fnuz", "NaN", "1 0000 000", None, None), (500, "fp8", "normal", "0 1111 110", 416, None),
        (3, "e8m0", "power of two", "10000001", 2, 8), (-3.2, "int4", "integer", "1101", -4, -2),
        (-9, "int4", "integer", "1000", None, -7), (-0.1, "int1", "sign", "0", None, 1),
        (0, "e8m0", "NaN", "11111111", None, None), (1, "tf32", "normal", "0 01111111 0000000000", 1 - 2**-11, 1 + 2**-10),
        (1, "fp64", "normal", f"0 0{'1' * 10} {'0' * 52}", 1 - 2**-53, 1 + 2**-52),
    ],
)  # fmt: skip
def test_kinds(value: float, name: str, kind: str, bits: str, below: float | None, above: float | None) -> None:
    what = describe(value, name)
    assert (what.kind, what.bits, what.below, what.above) == (kind, bits, below, above)


def test_saturation_is_said() -> None:
    assert describe(1000, "fp8").saturated
    assert describe(math.inf, "fp4").saturated
    assert not describe(448, "fp8").saturated
    assert not describe(-1000, "fp16").saturated
    assert describe(math.inf, "fp4").absolute_error is None
    assert describe(0, "fp4").relative_error is None


@pytest.mark.parametrize("name", SINGLE)
@given(value=st.floats(-1e30, 1e30) | st.floats(-300, 300))
@settings(max_examples=30)
def test_neighbours_enclose_and_are_values(name: str, value: float) -> None:
    what, row = describe(value, name, "rne", get(name).overflows[-1]), get(name)
    if math.isnan(what.rounded):
        return
    assert int("".join(field.bits for field in what.fields), 2) == what.code >> (row.stored and row.stored - row.bits)
    for other, step in ((what.below, 1), (what.above, -1)):
        if other is not None:
            assert neighbour(other, row, step) == what.rounded
            assert not math.isfinite(other) or codec.cast(other, name).item() == other
    limits = [v for v in (what.below, what.above) if v is not None]
    assert all((v < what.rounded) == (v == what.below) for v in limits)
    assert row.min <= what.rounded <= row.max


@pytest.mark.parametrize("name", [name for name in SINGLE if get(name).bits <= 8])
def test_neighbours_are_those_of_the_sorted_values(name: str) -> None:
    row = get(name)
    values = codec.decode(np.arange(row.codes), name).astype(float)
    order = np.unique(values[np.isfinite(values)])
    for low, high in pairwise(order.tolist()):
        assert neighbour(low, row, 1) == high
        assert neighbour(high, row, -1) == low


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("value", [0.3, -700.0, math.inf, math.nan, 0.0])
def test_every_format_can_be_drawn(name: str, value: float, tmp_path: Path) -> None:
    what = describe(value, name)
    figure = draw(what).figure()
    top, zoom = figure.axes
    assert top.get_title(loc="left").startswith(get(name).name)
    if not math.isnan(what.rounded) and (name, value) != ("int64", math.inf):
        shown = zoom.get_xticks()
        np.testing.assert_array_equal(shown, values_around(what.rounded, get(name)))
        assert what.rounded in shown or math.isinf(what.rounded)
        assert len(shown) > 1
    if name == "fp8_e4m3fn":
        for copy in ("a.png", "b.png"):
            draw(what).save(tmp_path / copy)
        assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_blocks_have_no_single_values() -> None:
    with pytest.raises(UsageError, match="its elements: fp4_e2m1fn"):
        describe(1.0, "mxfp4")
