"""The numbers of the energy tables, made again from their sources."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.spec.energy import EnergyTable
from accelsim.spec.scaling import POLYNOMIALS, interpolate_log, multiply_energy, relative_energy, scale_energy
from accelsim.spec.yaml import where
from accelsim.spec.yaml.marks import read

# CACTI, itrs-lop, 64-bit words, one port, one bank: size -> (read, write) nJ per 8 bytes at 45, 32, 22 nm.
CACTI = {
    2**10: ((0.000787104, 0.00144059), (0.000374613, 0.000681581), (0.000235129, 0.000440698)),
    2**12: ((0.00234195, 0.00234608), (0.0011515, 0.00108583), (0.000739841, 0.000698557)),
    2**14: ((0.00603378, 0.00441967), (0.00252203, 0.0019595), (0.00164953, 0.00127911)),
    2**16: ((0.013069, 0.00806272), (0.00533236, 0.00377613), (0.00352093, 0.00249224)),
    2**18: ((0.0203059, 0.0152996), (0.0103048, 0.00728165), (0.00698381, 0.00498079)),
    2**20: ((0.0417608, 0.0297391), (0.0183893, 0.0153315), (0.0128036, 0.0107798)),
    2**22: ((0.071825, 0.0619158), (0.0343833, 0.0312562), (0.0242787, 0.0222136)),
    2**24: ((0.13432, 0.124257), (0.0673188, 0.0612579), (0.0477409, 0.0437271)),
    2**26: ((0.26101, 0.250947), (0.130192, 0.124131), (0.0929056, 0.0888918)),
}

ADD = {"int8": 0.03, "int16": 0.05, "int32": 0.1, "fp16": 0.4, "fp32": 0.9}
"""Horowitz, ISSCC 2014, pJ."""
BF16_MULTIPLY, BF16_ADD = 1.1 * 0.21 / 0.34, 0.4 * 0.11 / 0.16


def table(name: str) -> EnergyTable:
    path = where.find(f"energy/{name}")
    assert path is not None
    return EnergyTable.model_validate(read(path, EnergyTable).value)


def test_45_nm_is_horowitz() -> None:
    """The rows that rest on the source alone; test_arithmetic_energy.py has the derived ones."""
    energy = table("horowitz-45nm")
    macs = {
        "int8": 0.2 + ADD["int32"],
        "int8xint16": multiply_energy(8, 16, 0.2, 3.1) + ADD["int32"],
        "int16": multiply_energy(16, 16, 0.2, 3.1) + ADD["int32"],
        "int32": 3.1 + ADD["int32"],
        "fp16": 1.1 + ADD["fp32"],
        "bf16": BF16_MULTIPLY + ADD["fp32"],
        "fp32": 3.7 + ADD["fp32"],
    }
    for rows, stated in (energy.mac, macs), (energy.vector, {**ADD, "bf16": BF16_ADD}):
        found = {name: rows[name] for name in stated}
        assert found == pytest.approx({name: pJ * 1e-12 for name, pJ in stated.items()}, rel=5e-4, abs=0)


def test_28_nm_is_scaled_from_45_nm() -> None:
    old, new = table("horowitz-45nm"), table("scaled-28nm")
    for name in ("mac", "vector"):
        scaled = {key: scale_energy(J, 45, 0.9, 28, 0.9) for key, J in getattr(old, name).items()}
        assert getattr(new, name) == pytest.approx(scaled, rel=1e-3)
    assert new.register == pytest.approx(scale_energy(old.register, 45, 0.9, 28, 0.9), rel=1e-3, abs=0)


def test_sram_is_cacti() -> None:
    for name, pick in ("horowitz-45nm", lambda row: row[0]), ("scaled-28nm", _at_28):
        points = table(name).sram
        assert [point.capacity for point in points] == list(CACTI)
        for point in points:
            read_nJ, write_nJ = pick(CACTI[point.capacity])
            assert point.read == pytest.approx(read_nJ * 1e-9 / 8, rel=5e-4)
            assert point.write == pytest.approx(write_nJ * 1e-9 / 8, rel=5e-4)


def _at_28(row: tuple[tuple[float, float], ...]) -> tuple[float, float]:
    _, at_32, at_22 = row
    read_nJ, write_nJ = (interpolate_log(28, (22, at_22[i]), (32, at_32[i])) for i in (0, 1))
    return read_nJ, write_nJ


def test_published_factors() -> None:
    """Factors from 45 nm at 0.8 V, computed from the polynomials by another tool."""
    for node, factor in {130: 3.0681, 90: 1.8973, 65: 1.2407, 32: 0.6593, 20: 0.2211, 7: 0.0943}.items():
        assert scale_energy(1.0, 45, 0.8, node, 0.8) == pytest.approx(factor, abs=1e-4)


@given(st.floats(7, 130), st.floats(7, 130), st.floats(0.7, 1.0))
def test_a_smaller_node_never_costs_more(one: float, other: float, vdd: float) -> None:
    assert relative_energy(min(one, other), vdd) <= relative_energy(max(one, other), vdd) * (1 + 1e-12)


def test_28_nm_lies_between_its_neighbours() -> None:
    assert relative_energy(20, 0.9) < relative_energy(22, 0.9) < relative_energy(28, 0.9) < relative_energy(32, 0.9)


@pytest.mark.parametrize("node", [5, 180])
def test_no_extrapolation(node: int) -> None:
    with pytest.raises(ValueError, match="expected 7 to 130 nm"):
        relative_energy(node, 0.9)


def test_multiplier_goes_through_its_points_and_grows() -> None:
    assert multiply_energy(8, 8, 0.2, 3.1) == 0.2
    assert multiply_energy(32, 32, 0.2, 3.1) == pytest.approx(3.1, rel=1e-9, abs=0)
    sizes = ((1, 1), (2, 2), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32), (32, 32))
    for int8_J, int32_J in (0.2, 3.1), (0.07, 1.48):
        energies = [0.0, *(multiply_energy(a, b, int8_J, int32_J) for a, b in sizes)]
        assert all(low < high for low, high in pairwise(energies))
    assert multiply_energy(4, 4, 0.2, 3.1) == pytest.approx(0.05, rel=1e-9, abs=0)
    assert sorted(POLYNOMIALS, reverse=True) == list(POLYNOMIALS)
