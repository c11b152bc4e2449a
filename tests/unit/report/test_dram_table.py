"""What a run says of its DRAM has the energies that it is charged, and shares of these."""

from __future__ import annotations

import re

import pytest

import accelsim
from accelsim.account.energy import by_component, energy_table
from accelsim.report.dram_table import COLUMNS, dram_sentences
from accelsim.report.text import MISSING, percent, si


def cells(run: accelsim.Run, memory: str) -> dict[str, str]:
    return {column.title: column.cell((memory, run.dram[memory])) for column in COLUMNS}


@pytest.mark.parametrize("chip", ["edu-mixed", "edu-4x4"])
def test_a_bit_and_what_idles_are_of_the_energy_that_is_charged(chip: str) -> None:
    """With I/O, where a memory states it: HBM2 does, DDR3 does not."""
    run = accelsim.run("cnn", chip, values="off", memory_model="pattern")
    (name, stats), = run.dram.items()  # fmt: skip
    rows = energy_table(run)
    standby_J = sum(row.energy_J for row in rows if row.action in (f"open.{name}", f"closed.{name}"))
    charged_J = by_component(rows)[name] + standby_J
    assert stats.energy is not None and (stats.energy.io_J > 0) == (chip == "edu-mixed")
    shown = cells(run, name)
    assert shown["energy"] == si(charged_J, "J")
    assert shown["per bit"] == si(charged_J / (8 * stats.moved_B), "J")
    assert shown["idle"] == percent(standby_J * (1 - stats.bus_utilisation) / charged_J)
    (told,) = dram_sentences(run)
    assert f"a bit cost {shown['per bit']}, and {shown['idle']} of the energy is idling" in told


def test_a_memory_whose_standby_is_not_charged_is_not_said_to_idle_nothing() -> None:
    run = accelsim.run("cnn", "tpu-v1", values="off", memory_model="pattern")
    assert run.dram["pcie_memory"].shared and not run.dram["ddr3"].shared
    assert (cells(run, "pcie_memory")["idle"], cells(run, "ddr3")["idle"] == MISSING) == (MISSING, False)
    told = {re.match(r"\w+", text)[0]: text for text in dram_sentences(run)}  # type: ignore[index]
    assert "without standby and refresh" in told["pcie_memory"] and "idling" not in told["pcie_memory"]
    assert "idling" in told["ddr3"]
