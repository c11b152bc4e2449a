"""Joules: count times price, static power times time, and groupings that all add up to the same total."""

from __future__ import annotations

from math import isclose

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account import categories, energy
from accelsim.engines.registry import ENGINES
from accelsim.machine.run import LedgerRow
from accelsim.program.actions import READ, TRANSFER, ActionName, mac
from accelsim.spec.energy import SramPoint, sram_J_per_B
from tests.helpers.synthetic_run import CHIP, altered, make_chip, make_run

PJ_INT8 = 0.2e-12


def points(*rows: tuple[str, str]) -> list[SramPoint]:
    return [SramPoint.model_validate({"capacity": c, "read": r, "write": "9 pJ/B"}) for c, r in rows]


@settings(max_examples=25)
@given(layers=st.integers(1, 9), tiles=st.integers(1, 4), rows=st.integers(1, 400), batch=st.integers(1, 64))
def test_every_grouping_adds_up_to_the_total(layers: int, tiles: int, rows: int, batch: int) -> None:
    run = make_run(layers, tiles, rows, batch)
    table = energy.energy_table(run)
    total = energy.total_J(table)
    assert total > 0
    for group in (
        energy.by_component(table),
        energy.by_op(table),
        categories.by_category(run.chip, table),
        categories.by_op_and_category(run.chip, table),
    ):
        assert isclose(sum(group.values()), total, rel_tol=1e-12)


def test_static_energy_is_power_times_time_to_the_femtosecond() -> None:
    run = make_run()
    rows = [row for row in energy.energy_table(run) if row.action == "idle.chip"]
    assert sum(row.count for row in rows) == run.time_fs
    assert isclose(sum(row.energy_J for row in rows), 28 * run.seconds, rel_tol=1e-12)
    memory = [row for row in energy.energy_table(run) if row.action == "idle.weight_memory"]
    assert isclose(sum(row.energy_J for row in memory), 1 * run.seconds, rel_tol=1e-12)


def test_time_after_the_last_step_is_charged_to_no_step() -> None:
    run = make_run()
    longer = altered(run, time_fs=run.time_fs + 10**9)
    outside = [row for row in energy.energy_table(longer) if row.op == energy.OUTSIDE]
    assert {(row.action, row.count) for row in outside} == {("idle.chip", 10**9), ("idle.weight_memory", 10**9)}


def test_host_idles_only_while_it_works() -> None:
    run = make_run()
    (row,) = [row for row in energy.energy_table(run) if row.action == "idle.host"]
    assert row.count == 40_000 * 10**6
    assert isclose(row.energy_J, 41 * 40e-6, rel_tol=1e-12)
    assert row.op == len(run.program.steps) - 1


def test_a_cpu_that_is_its_own_host_draws_its_idle_power_once() -> None:
    run = make_run(kind="cpu")
    assert not [row for row in energy.energy_table(run) if row.action == "idle.host"]


def test_macs_cost_what_the_spec_says_and_padding_nothing() -> None:
    run = make_run(layers=1, tiles=1, rows=10, batch=4)
    prices = {(row.action, row.count): row.energy_J for row in energy.energy_table(run) if row.component == "matrix"}
    assert prices[("mac.int8", 10 * 65536)] == pytest.approx(10 * 65536 * PJ_INT8)
    assert prices[("mac.padding", 1000)] == 0.0


def test_cores_share_the_prices_of_the_unit() -> None:
    run = make_run()
    one = altered(run, ledger=[LedgerRow("matrix", mac("int8"), 0, "w", 7)])
    two = altered(run, ledger=[LedgerRow("core1.matrix", mac("int8"), 0, "w", 7)])
    a, b = (energy.energy_table(r)[0] for r in (one, two))
    assert a.energy_J == b.energy_J > 0
    assert categories.categorised(run.chip)(b) == "MAC"


@pytest.mark.parametrize(
    "row",
    [
        LedgerRow("matrix", mac("fp64"), 0, "", 1),
        LedgerRow("unified", ActionName("refresh"), 0, "", 1),
        LedgerRow("no_such_buffer", READ, 0, "", 1),
        LedgerRow("weight_memory.link", TRANSFER, 0, "", 1),
    ],
)
def test_nothing_is_silently_free(row: LedgerRow) -> None:
    run = make_run()
    with pytest.raises(energy.UnpricedAction, match=f"{row.action}.*{row.component}"):
        energy.energy_table(altered(run, ledger=[*run.ledger, row]))


def test_every_category_is_one_of_the_list() -> None:
    run = make_run(layers=4)
    found = categories.by_category(run.chip, energy.energy_table(run))
    assert list(found) == [name for name in categories.CATEGORIES if name in found]
    ours = {unit.type for unit in run.chip.engines.values()}
    of_types = {name: {entry.name for entry in kind.categories} for name, kind in ENGINES.items()}
    others = set().union(*(names for name, names in of_types.items() if name not in ours))
    assert set(found) == set(categories.CATEGORIES) - (others - set().union(*(of_types[name] for name in ours)))


def test_sram_energy_between_points_is_linear_in_log_capacity() -> None:
    table = points(("8 KiB", "1 pJ/B"), ("32 KiB", "3 pJ/B"), ("128 KiB", "9 pJ/B"))
    assert sram_J_per_B(table, 8 * 1024) == pytest.approx(1e-12, rel=1e-9, abs=0)
    assert sram_J_per_B(table, 16 * 1024) == pytest.approx(2e-12, rel=1e-9, abs=0)
    assert sram_J_per_B(table, 64 * 1024) == pytest.approx(6e-12, rel=1e-9, abs=0)
    assert sram_J_per_B(table, 1024) == pytest.approx(1e-12, rel=1e-9, abs=0)
    assert sram_J_per_B(table, 512 * 1024) == pytest.approx(27e-12, rel=1e-9, abs=0), "power law: times 3 per factor 4"
    assert sram_J_per_B(table, 512 * 1024, write=True) == pytest.approx(9e-12, rel=1e-9, abs=0), "flat stays flat"


@given(st.lists(st.integers(10, 36), min_size=2, max_size=6))
def test_a_larger_sram_never_costs_less_per_byte(exponents: list[int]) -> None:
    table = points(("4 KiB", "1 pJ/B"), ("64 KiB", "2.5 pJ/B"), ("4 MiB", "20 pJ/B"))
    costs = [sram_J_per_B(table, 2.0**e) for e in sorted(exponents)]
    assert costs == sorted(costs)


def test_prices_cover_everything_that_the_spec_has() -> None:
    prices = energy.price_list(make_chip())
    for buffer in CHIP["cores"]["core"]["memories"]:
        assert prices[buffer, "read"] > 0
    assert prices["pcie_memory.link", "transfer"] == pytest.approx(32e-12, rel=1e-9, abs=0)
    assert ("weight_memory.link", "transfer") not in prices
    assert prices["host.own_memory", "read"] == pytest.approx(150e-12, rel=1e-9, abs=0)
