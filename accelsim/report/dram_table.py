"""DRAM statistics of a run: one row per memory, and a sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from accelsim.dram.energy import Energy
from accelsim.machine.dram_stats import DramStats
from accelsim.machine.run import Run
from accelsim.report.table import Column, table
from accelsim.report.text import MISSING, percent, si

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = (
    Column("memory", 0, right=False, least=8),
    Column("DRAM", 6, right=False, least=10),
    Column("bursts", 3),
    Column("row hits", 0),
    Column("misses", 5),
    Column("conflicts", 4),
    Column("bus use", 0),
    Column("overfetch", 7),
    Column("energy", 1),
    Column("per bit", 1),
    Column("idle", 2),
)
"""'row hits', 'misses' (closed bank) and 'conflicts' (another row open) are shares of the bursts; 'idle': share of the
energy that standby took while no data moved, of a memory that is charged for it."""

NUMBERS = tuple(index for index, column in enumerate(COLUMNS) if column.right)


def dram_rows(run: Run) -> list[tuple[str, ...]]:
    """The cells of every memory whose commands were followed, in the order of ``COLUMNS``."""
    return [_cells(name, stats) for name, stats in run.dram.items()]


def _cells(name: str, stats: DramStats) -> tuple[str, ...]:
    counts, bursts, joules = stats.served.counts, stats.bursts, stats.energy
    shares = [percent(counts[key] / bursts) if bursts else MISSING for key in ("hits", "misses", "conflicts")]
    energy = [MISSING] * 3
    if joules is not None:
        idle = MISSING if stats.shared else percent(_idle(joules))
        energy = [si(_whole_J(joules), "J"), _per_bit(joules), idle]
    over = percent(stats.overfetch_B / stats.requested_B) if stats.requested_B else MISSING
    return name, stats.device.name, si(bursts), *shares, percent(stats.bus_utilisation), over, *energy


def _whole_J(joules: Energy) -> float:
    return joules.die_J + joules.io_J


def _per_bit(joules: Energy) -> str:
    return si(_whole_J(joules) / joules.bits if joules.bits else 0.0, "J")


def _idle(joules: Energy) -> float:
    whole_J = _whole_J(joules)
    return joules.idle_J / whole_J if whole_J else 0.0


def dram_table(run: Run, width: int = 80) -> Table:
    """The rows as a table."""
    return table(COLUMNS, dram_rows(run), width)


def dram_sentences(run: Run) -> Iterator[str]:
    """One sentence per memory that moved anything."""
    for name, stats in run.dram.items():
        if not stats.bursts or stats.hit_rate is None:
            continue
        text = f"{name}: {percent(stats.hit_rate)} of {si(stats.bursts)} bursts found their row open"
        text += f", data were on the bus for {percent(stats.bus_utilisation)} of the run"
        joules = stats.energy
        if joules is not None:
            text += f", a bit cost {_per_bit(joules)}, "
            text += (
                "without standby and refresh, which the host needs anyway"
                if stats.shared
                else (f"and {percent(_idle(joules))} of the energy is idling")
            )
        if stats.wraps:
            most = si(stats.device.geometry.capacity_B, "B")
            text += f"; the program's tensors take {si(stats.extent_B, 'B')} of addresses, which wrap round at {most}"
        yield text + "."
