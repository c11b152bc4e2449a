"""Joules of the memories whose commands were followed: by command and by the time of their ranks, not by the byte.

The bytes stay in the ledger, so that traffic is counted alike under every memory model, and cost nothing besides. Where
a memory states no currents, its commands are counted and its bytes are charged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from accelsim.machine.run import Run
from accelsim.program.actions import ACT, COMMANDS, IO, RD, READ, REF, REFPB, WR, WRITE, ActionName
from accelsim.time import FS

if TYPE_CHECKING:
    from accelsim.machine.dram_stats import DramStats


STANDBY = ("open", "closed")
"""Static actions of a memory, before its name: ranks with an open row, ranks without."""


class Standby(NamedTuple):
    """Time that the ranks of a memory spent in one state, all ranks added up, and what that cost."""

    action: ActionName
    fs: int
    energy_J: float


def followed(run: Run) -> dict[str, DramStats]:
    """Return the memories whose energy is charged by command."""
    return {name: stats for name, stats in run.dram.items() if stats.device.energy is not None}


def command_prices(run: Run) -> dict[tuple[str, str], float]:
    """Return (memory, action) -> joules per count, which replace those of ``energy.price_list``."""
    prices: dict[tuple[str, str], float] = {}
    for name, stats in run.dram.items():
        table = stats.device.energy
        if table is None:
            prices |= {(name, action): 0.0 for action in (*COMMANDS, *IO)}
            continue
        own = 0.0 if stats.shared else 1.0
        prices |= {
            (name, ACT): table.act_J,
            (name, RD): table.read_J,
            (name, WR): table.write_J,
            (name, REF): own * table.refresh_J,
            (name, REFPB): own * table.refresh_bank_J,
            (name, IO[0]): table.io_read_J,
            (name, IO[1]): table.io_write_J,
            (name, READ): 0.0,
            (name, WRITE): 0.0,
        }
    return prices


def standby(run: Run) -> Iterator[Standby]:
    """Standby of each memory that is charged by command, over the whole run, unless a server pays for it."""
    for name, stats in followed(run).items():
        if stats.shared:
            continue
        table, geometry, clock_fs = stats.device.energy, stats.device.geometry, stats.device.clock_fs
        assert table is not None
        whole = stats.served.elapsed * geometry.ranks * geometry.channels
        clocks = (stats.served.open_clocks, whole - stats.served.open_clocks)
        for state, count, power in zip(STANDBY, clocks, (table.open_W, table.closed_W), strict=True):
            if count:
                yield Standby(ActionName(state, name), count * clock_fs, count * clock_fs * FS * power)
