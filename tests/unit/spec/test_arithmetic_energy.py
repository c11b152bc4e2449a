"""The model of arithmetic energy: through what is stated, rising with the width, and what the tables hold."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.formats import table
from accelsim.spec.arithmetic import Stated, add_energy, mac_energy, product_energy, sum_format
from accelsim.spec.energy import EnergyTable
from accelsim.spec.names import operand_formats
from accelsim.spec.scaling import scale_energy
from accelsim.spec.yaml import where
from accelsim.spec.yaml.marks import read
from accelsim.spec.yaml.parts import load_arithmetic

NODES = {name: load_arithmetic(name).stated for name in where.names("arithmetic")}
TABLES = ("horowitz-45nm", "scaled-28nm", "jouppi-7nm")
BY_HAND = {  # pJ at 45 nm: the model of accelsim.spec.arithmetic, with pen and paper
    "mac": {"fp32": 4.6, "fp16": 2, "bf16": 1.579, "int32": 3.2, "int16": 0.88, "int8xint16": 0.4933, "int8": 0.3,
            "uint8": 0.3, "int4xint8": 0.2, "int4": 0.15, "int2": 0.1125, "int1": 0.009375},
    "vector": {"fp32": 0.9, "bf16": 0.275, "int32": 0.1, "int16": 0.05, "int8": 0.03, "int4": 0.015, "int1": 0.00375},
}  # fmt: skip
CHIP_FORMATS = {
    *("fp64", "fp32", "tf32", "fp16", "bf16", "fp8_e4m3fn", "fp8_e5m2", "fp8_e3m4", "fp6_e2m3fn", "fp6_e3m2fn"),
    *("fp4_e2m1fn", "int16", "int8xint16", "int8", "int4xint8", "int4xint16", "int4", "int2", "int1"),
}
RISING = (
    ("int1", "int2", "int4", "int4xint8", "int8", "int8xint16", "int16", "int32"),
    ("int4", "int4xint8", "int4xint16", "int8xint16"),
    ("fp4_e2m1fn", "fp6_e3m2fn", "fp8_e5m2", "fp8_e5m2xfp8_e4m3fn", "fp8_e4m3fn", "fp8_e3m4", "bf16"),
    ("fp6_e2m3fn", "fp8_e4m3fn", "bf16", "fp16", "tf32", "fp32", "fp64"),
)


def shipped(name: str) -> EnergyTable:
    path = where.find(f"energy/{name}")
    assert path is not None
    return EnergyTable.model_validate(read(path, EnergyTable).value)


def test_rows_follow_from_what_is_stated() -> None:
    energy, scaled = shipped("horowitz-45nm"), shipped("scaled-28nm")
    for column, rows in BY_HAND.items():
        made = getattr(energy, column)
        assert {name: made[name] for name in rows} == pytest.approx(
            {name: pJ * 1e-12 for name, pJ in rows.items()}, rel=1e-9, abs=0
        )
        factor = scale_energy(1.0, 45, 0.9, 28, 0.9)
        assert getattr(scaled, column) == pytest.approx({name: J * factor for name, J in made.items()}, rel=1e-3)


@pytest.mark.parametrize("name", TABLES)
def test_table_has_what_a_chip_may_name(name: str) -> None:
    energy = shipped(name)
    assert set(energy.mac) >= CHIP_FORMATS
    assert {row for row in energy.mac if len(operand_formats(row) or ()) == 1} == set(energy.vector)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("formats", RISING, ids=lambda row: row[0])
def test_tables_rise_with_the_width(name: str, formats: tuple[str, ...]) -> None:
    energy = shipped(name)
    single = [fmt for fmt in formats if len(operand_formats(fmt) or ()) == 1]
    for rows, names in (energy.mac, formats), (energy.vector, single):
        values = [rows[fmt] for fmt in names]
        assert all(low < high for low, high in pairwise(values))


@pytest.mark.parametrize("name", NODES)
def test_stated_operations_come_out_as_stated(name: str) -> None:
    stated = NODES[name]
    bare = Stated(*({row: column[row] for row in ("int8", "int32", "fp16", "fp32")}
                    for column in (stated.multiply, stated.add)))  # fmt: skip
    for row in bare.multiply:
        assert product_energy(row, stated) == pytest.approx(stated.multiply[row], rel=1e-9, abs=0)
        assert add_energy(row, stated) == pytest.approx(stated.add[row], rel=1e-9, abs=0)
    # Neither node was fitted on bf16.
    assert product_energy("bf16", bare) == pytest.approx(stated.multiply["bf16"], rel=0.06, abs=0)
    assert add_energy("bf16", bare) == pytest.approx(stated.add["bf16"], rel=0.10, abs=0)


@pytest.mark.parametrize("name", NODES)
def test_the_fit_itself_goes_through_its_points(name: str) -> None:
    """An unnamed format of the same shape must cost what the stated one costs."""
    stated = NODES[name]
    for shape, row in (("fp16_e5m10", "fp16"), ("fp32_e8m23", "fp32")):
        assert product_energy(shape, stated) == pytest.approx(stated.multiply[row], rel=1e-9, abs=0)
        assert add_energy(shape, stated) == pytest.approx(stated.add[row], rel=1e-9, abs=0)


@given(st.sampled_from(sorted(NODES)), st.integers(2, 7), st.integers(1, 20))
def test_floats_rise_in_exponent_and_mantissa(node: str, exponent: int, mantissa: int) -> None:
    def name(e: int, m: int) -> str:
        return f"fp{1 + e + m}_e{e}m{m}"

    for model in product_energy, add_energy, mac_energy:
        here = model(name(exponent, mantissa), NODES[node])
        assert 0 < here < model(name(exponent + 1, mantissa), NODES[node])
        assert here < model(name(exponent, mantissa + 1), NODES[node])


INTEGERS = sorted(row.name for row in table.FORMATS.values() if row.kind in ("int", "binary"))


@given(st.sampled_from(sorted(NODES)), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS))
def test_integer_pairs_are_symmetric_and_lie_between(node: str, one: str, other: str) -> None:
    stated = NODES[node]
    pair = product_energy(f"{one}x{other}", stated)
    assert pair == product_energy(f"{other}x{one}", stated) > 0
    low, high = sorted((product_energy(one, stated), product_energy(other, stated)))
    assert low * (1 - 1e-9) <= pair <= high * (1 + 1e-9)


@pytest.mark.parametrize("name", NODES)
def test_binary_is_xnor_and_population_count(name: str) -> None:
    """Of a word of 32: 32 XNOR gates, 32 full adders to count, one addition to the sum."""
    stated = NODES[name]
    word = 32 * stated.multiply["int8"] / 64 + 2 * stated.add["int32"]
    assert 32 * mac_energy("int1", stated) == pytest.approx(word, rel=1e-9, abs=0)
    assert mac_energy("int1xint8", stated) == pytest.approx(
        stated.multiply["int8"] / 8 + stated.add["int32"], rel=1e-9, abs=0
    )


def test_sums() -> None:
    assert [sum_format(name) for name in ("int8", "int1", "int4xint8", "fp4_e2m1fn", "tf32", "fp64")] == [
        "int32", "int32", "int32", "fp32", "fp32", "fp64",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["int8xfp16", "mxfp4", "e8m0", "fp8", "word"])
def test_no_energy_of_what_is_not_arithmetic(name: str) -> None:
    for model in mac_energy, product_energy, add_energy:
        with pytest.raises(UsageError, match=f"no energy of '{name}'"):
            model(name, NODES["horowitz-45nm"])
    with pytest.raises(UsageError, match="no energy of 'int4xint8'"):
        add_energy("int4xint8", NODES["horowitz-45nm"])
