"""The same run under another energy table: as if it had been run with it, at no cost, and refused where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

import accelsim
from accelsim.account.energy import energy_table
from accelsim.account.latency import summary
from accelsim.errors import SpecError, UsageError
from accelsim.machine.run import Run
from accelsim.spec.yaml.parts import load_energy, load_memory, part_file

TABLES = ("horowitz-45nm", "jouppi-7nm", "energy/scaled-28nm")


@pytest.fixture(scope="module")
def run() -> Run:
    return accelsim.run("cnn", on="tpu-v1", values="off")


@pytest.mark.parametrize("table", TABLES)
def test_equals_a_fresh_run_to_the_last_bit(run: Run, table: str) -> None:
    fresh, other = accelsim.run("cnn", on="tpu-v1", values="off", energy=table), run.with_energy(table)
    assert energy_table(other) == energy_table(fresh)
    assert summary(other) | {"run": fresh.asked} == summary(fresh)
    assert other.asked == {}, "nobody asked for this run"
    assert other.chip == fresh.chip == other.program.chip
    assert (other.time_fs, other.slices, other.ledger) == (run.time_fs, run.slices, run.ledger)


def test_a_name_a_file_and_a_table_are_the_same(run: Run) -> None:
    file = part_file("jouppi-7nm", "energy")
    first = run.with_energy("jouppi-7nm")
    for table in (file, str(file), load_energy(file)):
        assert run.with_energy(table).chip == first.chip
        assert accelsim.run("cnn", on="tpu-v1", values="off", energy=table).chip == first.chip
        assert accelsim.run("cnn", on=run.chip, values="off", energy=table).chip == first.chip


def test_single_values_go_on_top_of_the_table() -> None:
    run = accelsim.run("cnn", on="tpu-v1", values="off", energy="jouppi-7nm", set=["energy.mac.int8=1 pJ"])
    assert run.chip.energy.mac["int8"] == 1e-12
    assert run.chip.energy.node == "7 nm"


def test_the_old_run_is_as_it_was(run: Run) -> None:
    before = summary(run)
    run.with_energy("jouppi-7nm")
    assert summary(run) == before


def test_nothing_is_simulated_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices change, and what is counted is the same object."""
    monkeypatch.setattr("accelsim.machine.simulation.Simulation.run", None)
    monkeypatch.setattr("accelsim.compiler.passes.compile", None)
    other = run.with_energy(load_energy("horowitz-45nm"))
    assert other.ledger is run.ledger
    assert other.program.commands is run.program.commands


def test_another_memory_changes_joules_and_not_the_time(run: Run) -> None:
    other = run.with_energy(memories={"ddr3": "hbm2"})
    old, new, device = (run.chip.memories["ddr3"].memory, other.chip.memories["ddr3"].memory, load_memory("hbm2"))
    assert (new.read_energy, new.static_power, new.energy_status) == (
        device.read_energy, device.static_power, device.energy_status,
    )  # fmt: skip
    assert (new.bandwidth, new.latency, new.capacity) == (old.bandwidth, old.latency, old.capacity)
    assert other.time_fs == run.time_fs
    read = [row for row in energy_table(other) if (row.component, row.action) == ("ddr3", "read")]
    assert read and all(row.energy_J == row.count * device.read_energy for row in read)


def test_a_table_without_the_format_is_refused(run: Run) -> None:
    table = load_energy("horowitz-45nm")
    without = {name: J for name, J in table.mac.items() if name != "int8"}
    with pytest.raises(UsageError, match="no energy of multiply-accumulates in int8"):
        run.with_energy(table.model_copy(update={"mac": without}))
    unused = {name: J for name, J in table.mac.items() if name != "fp64"}
    assert run.with_energy(table.model_copy(update={"mac": unused})).chip.energy.mac == unused


def test_what_does_not_exist_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="did you mean 'horowitz-45nm'"):
        run.with_energy("horowitz-45")
    with pytest.raises(UsageError, match=r"no memory 'ddr4'.*did you mean 'ddr3'"):
        run.with_energy(memories={"ddr4": "hbm2"})
    broken = tmp_path / "mine.yaml"
    broken.write_text(part_file("jouppi-7nm", "energy").read_text(encoding="utf-8") + "status: {}\n", encoding="utf-8")
    with pytest.raises(SpecError, match="status: key given twice"):
        run.with_energy(broken)
