"""Laws of the memory models, on random graphs, chips and mappings: they change when things happen, never what."""

from __future__ import annotations

from functools import cache
from math import fsum

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.account.categories import by_category
from accelsim.account.energy import by_component, by_op, energy_table, total_J
from accelsim.machine.check import check
from accelsim.machine.memory_models import MODELS
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.spec.dram import Dram
from accelsim.spec.yaml.parts import load_dram
from tests.helpers.law_cases import Case, cases, changed

QUICK = settings(max_examples=15)
PRESETS = ("ddr3-1600", "ddr4-3200", "hbm2-2000", "lpddr4-2400")
FOLLOWED = [name for name, level in MODELS.items() if level.dram is not None]


@cache
def preset(name: str) -> Dram:
    return load_dram(name)


def run(case: Case, model: str, dram: str = "", values: str = "off") -> Run:
    """The program of a case on its chip, each memory with this DRAM."""
    chip = case.program.chip
    for name in chip.memories if dram else ():
        chip = changed(chip, f"memories.{name}.memory", dram=preset(dram))
    case.program.chip = chip
    found = simulate(case.program, None if values == "off" else case.feeds, values, memory_model=model)
    check(found, thorough=True)
    return found


@pytest.mark.parametrize("model", FOLLOWED)
@QUICK
@given(cases(), st.sampled_from(PRESETS))
def test_a_model_changes_times_and_nothing_else(model: str, case: Case, dram: str) -> None:
    """All laws hold; bytes, MACs and accesses are those of any other run; the same run gives the same result."""
    plain, found = run(case, "bandwidth"), run(case, model, dram)
    assert [piece[:4] for piece in plain.slices] == [piece[:4] for piece in found.slices]
    extra = found.ledger[len(plain.ledger) :]
    assert found.ledger[: len(plain.ledger)] == plain.ledger
    assert all(row.component in found.chip.memories and row.action not in ("read", "write") for row in extra)
    again = run(case, model, dram)
    assert again.slices == found.slices and again.ledger == found.ledger


@pytest.mark.parametrize("model", FOLLOWED)
@QUICK
@given(cases(), st.sampled_from(PRESETS))
def test_commands_times_their_energy_is_the_energy(model: str, case: Case, dram: str) -> None:
    found = run(case, model, dram)
    rows = energy_table(found)
    for parts in (by_component(rows), by_op(rows), by_category(found.chip, rows)):
        assert fsum(parts.values()) == pytest.approx(total_J(rows), rel=1e-12, abs=0)
    for name, stats in found.dram.items():
        joules = stats.energy
        assert joules is not None
        mine = [row for row in rows if row.component == name or row.action.endswith((f"open.{name}", f"closed.{name}"))]
        assert fsum(row.energy_J for row in mine) == pytest.approx(joules.die_J + joules.io_J, rel=1e-9, abs=0)
        assert all(not row.energy_J for row in mine if row.action in ("read", "write"))


@QUICK
@given(cases())
def test_without_memory_nothing_is_slower(case: Case) -> None:
    """'ideal' is what is left of any run when memories take no time."""
    assert run(case, "ideal").time_fs <= run(case, "bandwidth").time_fs


@settings(QUICK, max_examples=8)
@given(cases(pinned=False), st.sampled_from(FOLLOWED), st.sampled_from(PRESETS))
def test_values_do_not_depend_on_the_memory(case: Case, model: str, dram: str) -> None:
    """Wrong waits would show: the exact policy computes with what is in the buffers at each instant."""
    plain = run(case, "bandwidth", values="exact")
    for other in (run(case, model, dram, "exact"), run(case, "ideal", values="exact")):
        assert {name: value.tobytes() for name, value in other.outputs.items()} == {
            name: value.tobytes() for name, value in plain.outputs.items()
        }
