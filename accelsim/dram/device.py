"""One DRAM as the models see it: geometry, constraints in clocks, controller, energy per command.

A device is made from a spec (``accelsim.spec.dram_device``); it is frozen, and everything in it is in clocks, bytes and
joules. A *channel* here is a data bus with banks of its own, so a pseudo-channel of HBM counts as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from accelsim.time import FS


class Command(IntEnum):
    """DRAM commands, the index of the constraint tables. REF refreshes a rank, REFPB one bank of it."""

    ACT = 0
    PRE = 1
    RD = 2
    WR = 3
    REF = 4
    REFPB = 5


class Level(IntEnum):
    """Level that two commands must share for a constraint to hold.

    SIBLING: same channel, different rank. RANK, GROUP, BANK: same rank, same bank group, same bank.
    """

    SIBLING = 0
    RANK = 1
    GROUP = 2
    BANK = 3


@dataclass(frozen=True)
class Geometry:
    """Organisation of a memory. ``columns``: bursts of ``access_B`` bytes in a row of a rank, not device
    columns."""

    channels: int
    ranks: int
    groups: int  # bank groups of a rank
    banks: int  # banks of a group
    rows: int
    columns: int
    access_B: int

    @property
    def banks_per_rank(self) -> int:
        """Banks of a rank, all groups together."""
        return self.groups * self.banks

    @property
    def row_B(self) -> int:
        """Bytes of one row of one channel."""
        return self.columns * self.access_B

    @property
    def capacity_B(self) -> int:
        """Bytes of the whole memory."""
        return self.channels * self.ranks * self.banks_per_rank * self.rows * self.row_B


class Choice(NamedTuple):
    """A scheduler or a row policy: what it does, and the module with functions of its own, if any."""

    text: str
    module: str = ""


SCHEDULERS = {
    "bursts": Choice(
        "the request whose data can come first, with all its commands; rows are opened behind the data of others"
    ),
    "commands": Choice(
        "the command that can go first, of the oldest request: ACT, PRE, RD and WR in the order of time",
        "accelsim.dram.schedule_commands",
    ),
    "queues": Choice(
        "a command of the bank whose turn it is; each has a queue of ``depth`` requests, reads beside writes",
        "accelsim.dram.schedule_queues",
    ),
}
"""Schedulers of the bank model, by name."""

PAGE_POLICIES = {
    "open": Choice("a row stays open until another is wanted"),
    "closed": Choice("every access closes it"),
    "capped": Choice("closed after ``cap`` accesses while another row of the bank is wanted"),
    "timeout": Choice("closed after ``timeout`` clocks without access"),
}
"""Rules for closing a row, by name."""


@dataclass(frozen=True)
class Controller:
    """The memory controller.

    ``mapping``: text of ``accelsim.dram.mapping``. ``page_policy``: a row of ``PAGE_POLICIES``. ``window``: requests
    of one direction that are reordered; 1 is in order. Writes are drained from ``high`` of the window down to ``low``.
    ``refresh``: 'all_bank' (every rank at the same time), 'staggered' (whole ranks, one after the other), 'per_bank'
    (one bank at a time), 'none'. ``refresh_waits``: a refresh that is due waits until the rows that were opened for a
    request have served it; otherwise they are closed unused. ``shared``: channels that share one queue (two
    pseudo-channels, say).
    ``act_clocks``: clocks that an ACT holds the command bus, PRE, RD and WR one each; 0: no command waits for it. The
    channels of a queue have one bus, or one for rows and one for columns where the standard has two.
    ``handover``: clocks from an access to the request that takes its place in the window, 0 or 1. ``scheduler``: what
    is chosen next, a row of ``SCHEDULERS``. ``depth``: requests that the queue of a bank holds, for 'queues' only.
    ``edge``: with a command bus and 'commands', every how many clocks an ACT, RD or WR begins, counted from clock 1, a
    PRE at any; RD and WR take so many, and a PRE is timed from the last of them.
    """

    mapping: str
    page_policy: str = "open"
    cap: int = 4
    timeout: int = 100
    window: int = 32
    high: float = 0.8
    low: float = 0.2
    refresh: str = "all_bank"
    refresh_waits: bool = True
    shared: int = 1
    act_clocks: int = 0
    handover: int = 1
    scheduler: str = "bursts"
    depth: int = 8
    edge: int = 1


@dataclass(frozen=True)
class CommandEnergy:
    """Joules of one command on one rank of one channel, and watts of such a rank.

    ``act``: an activation with its precharge. ``open_W``: standby while any bank of the rank is open, ``closed_W``
    while all are closed. ``io_read_J``, ``io_write_J``: I/O and termination of one burst, kept apart from the die.
    """

    act_J: float
    read_J: float
    write_J: float
    refresh_J: float
    refresh_bank_J: float
    open_W: float
    closed_W: float
    io_read_J: float = 0.0
    io_write_J: float = 0.0


@dataclass(frozen=True)
class Device:
    """One DRAM with its controller.

    ``latency[level][preceding][following]``: clocks between two commands, 0 where there is no constraint.
    ``windows``: (n, clocks) pairs, no more than n activations of a rank in so many clocks (tFAW, t32AW).
    ``timing``: the parameters by name (tRCD, CL, ...) in clocks, from which the tables were made. ``burst``: clocks of
    one burst on the data bus. ``clock_fs``: tCK.
    """

    name: str
    standard: str
    geometry: Geometry
    controller: Controller
    clock_fs: int
    burst: int
    timing: dict[str, int]
    latency: tuple[tuple[tuple[int, ...], ...], ...]
    windows: tuple[tuple[int, int], ...] = ()
    energy: CommandEnergy | None = None
    note: str = ""

    @property
    def peak_Bps(self) -> float:
        """Peak bandwidth of all channels together, B/s."""
        return self.geometry.channels * self.geometry.access_B / (self.burst * self.clock_fs * FS)

    @property
    def unloaded_read(self) -> int:
        """Clocks from the arrival of a read at a closed bank to its last data: tRCD + CL + burst.

        An ACT that holds the command bus for several clocks counts from the last of them.
        """
        t = self.timing
        return max(0, self.controller.act_clocks - 1) + t["tRCDRD"] + t["CL"] + self.burst

    @property
    def refreshes(self) -> tuple[int, int]:
        """(Clocks between two refreshes of a bank, 0 without; clocks that it takes)."""
        kind, t = self.controller.refresh, self.timing
        if kind == "none":
            return 0, 0
        if kind != "per_bank":
            return t["tREFI"], self.latency[Level.RANK][Command.REF][Command.ACT]
        banks = self.geometry.banks_per_rank
        each = t.get("tREFIpb") or max(1, t["tREFI"] // banks)
        return each * banks, self.latency[Level.BANK][Command.REFPB][Command.ACT]
