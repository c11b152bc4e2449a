"""The SRAM model: monotone, close to CACTI, the committed coefficients, honest about where it stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.spec.yaml.load import load_chip
from accelsim.sram.model import FIGURES, coefficients, residuals, sram, wire_J_per_bit_m
from accelsim.sram.terms import CACTI, CELLS, QUANTITIES, TERMS, read_points
from tests.validation.least_squares import nnls, robust
from tests.validation.sram_fit import fit, text

TABLE = CACTI
CACTI = read_points(TABLE)
BOUNDS = {"read_J": 0.08, "write_J": 0.08, "access_s": 0.10, "area_m2": 0.10, "leakage_W": 0.10, "cycle_s": 0.30}
capacities = st.integers(256, 2**28)
words = st.sampled_from([8, 16, 32, 64, 100, 128, 256, 1024])
nodes = st.sampled_from([22, 25, 28, 32, 40, 45])
cells = st.sampled_from(CELLS)


def test_the_table_has_all_points() -> None:
    assert len(CACTI) == 204
    assert {point.node_nm for point in CACTI} == {22, 32, 45}
    assert {point.cell for point in CACTI} == set(CELLS)


def test_medians_are_within_their_bounds() -> None:
    found = residuals(CACTI)
    assert len(found) == 3 * 2 * len(QUANTITIES)
    for each in found:
        assert each.quantile(0.5) < BOUNDS[each.quantity], each
    assert sum(len(each.errors) for each in found) == 204 * len(QUANTITIES)


def test_few_coefficients() -> None:
    for node, by_cell in coefficients().items():
        for cell, quantities in by_cell.items():
            runs = sum((point.node_nm, point.cell) == (node, cell) for point in CACTI)
            for name, terms in quantities.items():
                groups = QUANTITIES[name].groups if cell == "itrs-lop" else ()
                assert len(groups or terms) <= runs / 4
                assert min(terms.values()) >= 0 < max(terms.values())


def test_a_refit_gives_the_committed_coefficients() -> None:
    again = fit(CACTI)
    for node, by_cell in coefficients().items():
        for cell, quantities in by_cell.items():
            for name, terms in quantities.items():
                assert again[node][cell][name] == pytest.approx(terms, rel=1e-4), (node, cell, name)
    assert "nodes:" in text(again, "here")


@settings(max_examples=60)
@given(capacities, st.floats(1.001, 8), words, nodes, cells, st.sampled_from([1, 2, 4, 8]), st.integers(1, 3))
def test_more_capacity_costs_more_of_everything(
    capacity: int, factor: float, word: int, node: int, cell: str, banks: int, ports: int
) -> None:
    setup = {"word_bits": word, "node_nm": node, "cell": cell, "banks": banks, "ports": ports}
    small, large = sram(max(capacity, 2048), **setup), sram(max(capacity, 2048) * factor, **setup)
    for name in FIGURES:
        assert getattr(large, name) > getattr(small, name) > 0


@settings(max_examples=60)
@given(capacities, words, st.integers(1, 8), nodes, cells, st.sampled_from([1, 4, 16]))
def test_wider_words_never_cost_less(capacity: int, word: int, factor: int, node: int, cell: str, banks: int) -> None:
    setup = {"node_nm": node, "cell": cell, "banks": banks}
    size = max(capacity, banks * 1024)
    narrow, wide = sram(size, word, **setup), sram(size, word * factor, **setup)
    assert wide.read_J >= narrow.read_J and wide.write_J >= narrow.write_J


@given(st.sampled_from([2, 3, 4]), words)
def test_ports_follow_the_rule(ports: int, word: int) -> None:
    one, many = sram(2**20, word), sram(2**20, word, ports=ports)
    side = 1 + 0.42 * (ports - 1)
    assert many.area_m2 == pytest.approx(one.area_m2 * side**2)
    assert many.read_J == pytest.approx(one.read_J * side, rel=1e-9, abs=0)
    assert many.leakage_W == pytest.approx(one.leakage_W * (4 + 2 * ports) / 6)
    assert many.status in ("rule of thumb", "extrapolated")


def test_banks_are_small_memories_and_a_wire() -> None:
    bank, four = sram(2**18), sram(2**20, banks=4)
    side_m = (4 * bank.area_m2) ** 0.5
    assert four.area_m2 == pytest.approx(4 * bank.area_m2)
    assert four.leakage_W == pytest.approx(4 * bank.leakage_W)
    assert four.cycle_s == bank.cycle_s
    assert four.read_J - bank.read_J == pytest.approx(64 * wire_J_per_bit_m(45) * side_m / 2, rel=1e-9, abs=0)
    assert four.access_s > bank.access_s
    assert wire_J_per_bit_m(40) == pytest.approx(240e-12, rel=1e-9, abs=0) and wire_J_per_bit_m(10) == pytest.approx(
        115e-12, rel=1e-9, abs=0
    )


def test_between_nodes() -> None:
    for name in FIGURES:
        values = [getattr(sram(2**16, node_nm=node, cell="itrs-hp"), name) for node in (22, 28, 32)]
        assert values[0] < values[1] < values[2] or values[0] > values[1] > values[2]
    assert sram(2**16, node_nm=28, cell="itrs-hp").status == "interpolated"


@pytest.mark.parametrize(
    ("setup", "inside", "status", "note"),
    [
        ({}, True, "fitted", ""),
        ({"cell": "itrs-hp", "word_bits": 128}, True, "fitted", ""),
        ({"cell": "itrs-hp", "word_bits": 512}, False, "extrapolated", "words of 32 to 256 bits"),
        ({"word_bits": 128}, False, "extrapolated", "at 64 bits"),
        ({"banks": 4}, True, "rule of thumb", "H-tree"),
        ({"ports": 2}, True, "rule of thumb", "rule of thumb for the cell"),
        ({"node_nm": 28}, True, "interpolated", "leakage is doubtful"),
        ({"node_nm": 22}, True, "fitted", "leakage is doubtful"),
        ({"capacity_B": 2**27}, False, "extrapolated", "1 KiB to 64 MiB"),
        ({"capacity_B": 2**27, "banks": 2}, True, "rule of thumb", "H-tree"),
    ],
)
def test_it_says_where_it_stands(setup: dict[str, object], inside: bool, status: str, note: str) -> None:
    found = sram(**({"capacity_B": 2**20} | setup))  # type: ignore[arg-type]
    assert (found.inside, found.status) == (inside, status)
    assert note in found.note and bool(note) == bool(found.note)


def test_low_power_cells_leak_more_than_hp_only_where_we_warn() -> None:
    leaks = {(node, cell): sram(2**20, node_nm=node, cell=cell).leakage_W for node in (22, 32, 45) for cell in CELLS}
    assert leaks[22, "itrs-lop"] > leaks[22, "itrs-hp"]
    assert leaks[45, "itrs-lop"] < leaks[45, "itrs-hp"] / 10


def test_all_problems_at_once() -> None:
    with pytest.raises(UsageError) as error:
        sram(0, 0, 0, 0, 7, "itrs-lopp")
    assert [problem.where for problem in error.value.problems] == [
        "capacity_B", "word_bits", "ports", "banks", "node_nm", "cell",
    ]  # fmt: skip
    assert error.value.problems[-1].nearest == "itrs-lop"
    with pytest.raises(UsageError, match="do not hold a word"):
        sram(1024, 64, banks=1024)


def test_a_table_without_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("node_nm,cell\n45,itrs-hp\n")
    with pytest.raises(UsageError, match="size_bytes"):
        read_points(path)


@pytest.mark.parametrize(("chip", "node"), [("edu-4x4", 45), ("tpu-v1", 28)])
def test_energy_tables_are_within_the_residual(chip: str, node: int) -> None:
    rows = load_chip(chip).energy.sram
    made = [sram(int(row.capacity), node_nm=node, cell="itrs-lop") for row in rows]
    worst = max(
        each.quantile(1.0)
        for each in residuals(CACTI)
        if each.cell == "itrs-lop" and each.quantity in ("read_J", "write_J")
    )
    for row, ours in zip(rows, made, strict=True):
        assert ours.read_J / 8 == pytest.approx(row.read, rel=worst, abs=0)
        assert ours.write_J / 8 == pytest.approx(row.write, rel=worst, abs=0)
    errors = [abs(ours.read_J / 8 / row.read - 1) for row, ours in zip(rows, made, strict=True)]
    assert np.median(errors) < 0.08


def test_nnls_finds_the_known_answer() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        matrix = rng.uniform(0, 1, (12, 4))
        x = rng.uniform(0.5, 1, 4) * (rng.uniform(size=4) < 0.6)
        assert nnls(matrix, matrix @ x) == pytest.approx(x, abs=1e-8)
        y = nnls(matrix, rng.normal(size=12))
        assert y.min() >= 0
    one, target = np.ones((3, 1)), np.array([1.0, 1.0, 9.0])
    assert robust(one, target)[0] == pytest.approx(1.0, abs=0.1), "one leap does not bend the fit"


@given(st.sampled_from(sorted(TERMS)), st.floats(1e-4, 100), st.floats(1.01, 4), st.floats(0.1, 16))
def test_no_term_ever_falls(name: str, c: float, factor: float, w: float) -> None:
    value = TERMS[name].value
    assert value(np.array([c * factor]), np.array([w]))[0] >= value(np.array([c]), np.array([w]))[0] > 0
    assert value(np.array([c]), np.array([w * factor]))[0] >= value(np.array([c]), np.array([w]))[0]
