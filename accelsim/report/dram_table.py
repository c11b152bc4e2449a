"""DRAM statistics of a run: one row per memory, and a sentence each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from accelsim.dram.energy import Energy
from accelsim.machine.dram_stats import DramStats
from accelsim.machine.run import Run
from accelsim.report.answer import column
from accelsim.report.text import MISSING, percent, si

Named = tuple[str, DramStats]


def _of_bursts(key: str) -> Callable[[Named], str]:
    return lambda row: percent(row[1].served.counts[key] / row[1].bursts) if row[1].bursts else MISSING


def _of_energy(form: Callable[[Energy], str], charged: bool = False) -> Callable[[Named], str]:
    """Return a cell about energy, empty where it is not known or, if ``charged``, standby is not charged."""
    return lambda row: MISSING if row[1].energy is None or (charged and row[1].shared) else form(row[1].energy)


def _overfetch(row: Named) -> str:
    stats = row[1]
    return percent(stats.overfetch_B / stats.requested_B) if stats.requested_B else MISSING


def _whole_J(joules: Energy) -> float:
    return joules.die_J + joules.io_J


def _per_bit(joules: Energy) -> str:
    return si(_whole_J(joules) / joules.bits if joules.bits else 0.0, "J")


def _idle(joules: Energy) -> str:
    whole_J = _whole_J(joules)
    return percent(joules.idle_J / whole_J if whole_J else 0.0)


COLUMNS = (
    column("memory", lambda row: row[0], 0, right=False, least=8),
    column("DRAM", lambda row: row[1].device.name, 6, right=False, least=10),
    column("bursts", lambda row: si(row[1].bursts), 3),
    column("row hits", _of_bursts("hits"), 0),
    column("misses", _of_bursts("misses"), 5),
    column("conflicts", _of_bursts("conflicts"), 4),
    column("bus use", lambda row: percent(row[1].bus_utilisation), 0),
    column("overfetch", _overfetch, 7),
    column("energy", _of_energy(lambda joules: si(_whole_J(joules), "J")), 1),
    column("per bit", _of_energy(_per_bit), 1),
    column("idle", _of_energy(_idle, charged=True), 2),
)
"""Columns about a memory whose commands were followed: its name and statistics. 'row hits', 'misses' (closed bank) and
'conflicts' (another row open) are shares of the bursts; 'idle': share of the energy that standby took while no data
moved, of a memory that is charged for it."""
NUMBERS = tuple(at for at, each in enumerate(COLUMNS) if each.look and each.look.right)
"""Columns of numbers."""


def dram_rows(run: Run) -> list[list[str]]:
    """Return the cells of every memory whose commands were followed, in the order of ``COLUMNS``."""
    return [[each.cell(row) for each in COLUMNS] for row in run.dram.items()]


def dram_sentences(run: Run) -> Iterator[str]:
    """Yield a sentence per memory that moved anything."""
    for name, stats in run.dram.items():
        if not stats.bursts or stats.hit_rate is None:
            continue
        text = f"{name}: {percent(stats.hit_rate)} of {si(stats.bursts)} bursts found their row open"
        text += f", data were on the bus for {percent(stats.bus_utilisation)} of the run"
        joules = stats.energy
        if joules is not None:
            rest = f"and {_idle(joules)} of the energy is idling"
            rest = "without standby and refresh, which the host needs anyway" if stats.shared else rest
            text += f", a bit cost {_per_bit(joules)}, {rest}"
        if stats.wraps:
            most = si(stats.device.geometry.capacity_B, "B")
            text += f"; the program's tensors take {si(stats.extent_B, 'B')} of addresses, which wrap round at {most}"
        yield text + "."
