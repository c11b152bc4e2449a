"""What the inner loop of the bank model works on: a few flat sequences of integers, and the names of their entries.

Lists where Python runs the loop, int64 arrays where numba does. Rules stay; records of banks, bank groups, ranks,
queues and slots change. A *direction* is 0 for reads and 1 for writes; *flat* banks, groups and ranks are numbered
through all channels. An entry that says '[2]' has one value for each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from accelsim.dram.device import Command, Device, Level
from accelsim.dram.standards import STANDARDS

Ints = Any
"""A list of int, or an int64 array."""
NEVER = -(1 << 60)
READ, WRITE = 0, 1
FRONT = 1
"""Clocks from the acceptance of a request to its first command."""

# Rules of a device. Sizes: ranks of a channel, groups of a rank, banks of a group, banks of a rank, queues per
# direction, banks that one queue serves, entries of the record of a queue.
RANKS, GROUPS, BANKS, PER_RANK, CONTROLLERS, REACH, QUEUE = range(7)
# Controller: requests in a window, watermarks of writes, policies (0: not), refresh and its clocks (0: never).
WINDOW, HIGH, LOW, CLOSED, CAP, TIMEOUT, PER_BANK, WAITS, EVERY, RFC, INJECTION, OUTSTANDING = range(7, 19)
# Clocks: PRE to ACT, ACT to ACT of a bank, ACT to PRE, ACT to ACT of a rank and of a group.
RP, RC, RAS, RRD_S, RRD_L = range(19, 24)
# By direction: ACT to RD or WR, RD or WR to the end of its data, to PRE, to the next of the row. [2]
RCD, DATA, TO_PRE, STEP = range(24, 32, 2)
# RD, WR to RD, WR of a rank, of a group, of another rank: entry 2 x before + after. [4]
CAS_RANK, CAS_GROUP, CAS_OTHER = range(32, 44, 4)
# REFPB to ACT of another bank and back, REFPB to REFPB, ACT to ACT of another rank (0: their supplies are their own).
REF_ACT, ACT_REF, REF_REF, RRD_OTHER = range(44, 48)
# Where the records of command buses begin (0: there are none), clocks of an ACT on its bus, from the record of the bus
# for rows to that for columns (0: one bus); clocks from an access to the next request in its slot; whether commands are
# scheduled, requests that the queue of a bank holds (0: it has none); every how many clocks an ACT, RD or WR may begin
# (on the bus); activations that are remembered, windows of activations, and for each how many in how many clocks.
BUS, ACT_CLOCKS, COLUMNS, HANDOVER, BY_COMMAND, DEPTH, EDGE, RING, WINDOWS, FIRST_WINDOW = range(48, 58)

# Record of a bank: open row (-1: closed), earliest ACT and PRE, last RD or WR, accesses since the row was opened,
# direction of the request that it was opened for and that still waits (-1: none; where commands are scheduled),
# requests in its queue and a clock before which none of them can have a command (where it has one); where the records
# of its rank, its group and its bus begin; earliest RD and WR, oldest and youngest waiting slot, oldest one of the open
# row (-1: none), place in the list of active banks. [2]
OPEN_ROW, NEXT_ACT, NEXT_PRE, LAST_USE, USES, OWNER, QUEUED, RESTS, MY_RANK, MY_GROUP, MY_BUS = range(11)
NEXT_CAS, HEAD, TAIL, HIT, PLACE = range(11, 21, 2)
BANK = 21
# Record of a group: earliest ACT, earliest RD and WR. [2]
GROUP_ACT, GROUP_CAS, GROUP = 0, 1, 3
# Record of a rank: earliest ACT, activations, next refresh, bank of its turn, open banks, since when, clocks with an
# open bank until all were closed last, when that was; the last two REFPB, last ACT; earliest RD and WR. [2]
(
    RANK_ACT,
    ACTS,
    NEXT_REF,
    REF_BANK,
    OPEN_BANKS,
    OPENED,
    OPEN_CLOCKS,
    CLOSED_AT,
    REF_AT,
    REF_BEFORE,
    LAST_ACT,
) = range(11)
RANK_CAS, RANK = 11, 13
# Record of a queue: requests in it, banks that have some, whether writes are drained (in the one of reads); where
# commands are scheduled, requests whose rows are open for them, and (in the one of reads) the last clock of a command,
# or one before which nothing more is served. Where banks have queues: writes that are still to be drained, requests in
# the queues, next clock to look at, bank whose turn it was, last clock of the bus for rows (in the one of reads), slots
# in use, eldest and youngest in the window. Then the banks that have some, then free slots.
WAITING, ACTIVES, DRAINING, STARTED, CLOCK, TURN, TAKEN, ELDEST, YOUNGEST, ROW_BUS, ACTIVE = range(11)
# Record of a slot: row, clock from which commands for it may be issued, request, neighbours in the list of its bank,
# whether another row was closed for it.
ROW, SINCE, REQUEST, NEXT, BEFORE, MET, SLOT = range(7)
# Record of a bus: for the last so many clocks those that are taken, and the latest of them.
BUS_CLOCKS = 256
BUS_RECORD = BUS_CLOCKS + 1
# The whole: clock of the injection, requests injected in it, next request, requests in flight, last clock of data, that
# of the burst that was done first, rows of the log, clock before which no request may come; then what ``served.COUNTS``
# counts.
NOW, INJECTED, COMING, IN_FLIGHT, END, FIRST, LOGGED, HELD = range(8)
N_ACT, N_PRE, N_RD, N_WR, N_REF, N_REFPB, N_HIT, N_MISS, N_CONFLICT = range(8, 17)
TOTALS = 17


class State(NamedTuple):
    """All that changes, record behind record; ``ring`` the last activations of each rank, then the command buses."""

    bank: Ints
    group: Ints
    rank: Ints
    ring: Ints
    queue: Ints
    slot: Ints
    at: Ints


class Requests(NamedTuple):
    """Bursts in order: queue of reads, flat bank, row, direction; first and one past the last of a stretch of equals.

    ``follow``: the next request of the same row and direction, the number of requests when there is none. ``slot_of``:
    the slot of a request that waits (work space). ``arrived``, ``done``: results, one entry each, or none in all where
    they are not wanted. ``log``: rows of (clock, command, flat bank, row), empty where it is not wanted.
    """

    queue: Ints
    bank: Ints
    row: Ints
    write: Ints
    first: Ints
    past: Ints
    follow: Ints
    slot_of: Ints
    arrived: Ints
    done: Ints
    log: Ints


def _between(device: Device, *levels: Level) -> list[int]:
    """RD, WR to RD, WR, the longest of some levels: [2 * before + after]."""
    kinds = (Command.RD, Command.WR)
    return [max(device.latency[x][b][a] for x in levels) for b in kinds for a in kinds]


def rules(device: Device, injection: int, outstanding: int) -> list[int]:
    """The constants of a device, from its tables."""
    g, c = device.geometry, device.controller
    bank, rank, group = (device.latency[level] for level in (Level.BANK, Level.RANK, Level.GROUP))
    act, pre, rd, wr = Command.ACT, Command.PRE, Command.RD, Command.WR
    reach, per_bank = c.shared * g.ranks * g.banks_per_rank, c.refresh == "per_bank"
    every = device.timing["tREFI"]
    if per_bank:
        every = device.timing.get("tREFIpb") or max(1, every // g.banks_per_rank)
    near = _between(device, Level.RANK, Level.GROUP, Level.BANK)
    windows = device.windows or ()
    depth = c.depth if c.scheduler == "queues" else 0
    places = c.window * (2 if c.scheduler == "commands" else 1) + reach * depth
    ring = max([n for n, _ in windows], default=1)
    edge = c.edge if c.scheduler == "commands" and c.act_clocks else 1
    two = device.standard in STANDARDS and STANDARDS[device.standard].row_bus
    return [
        g.ranks, g.groups, g.banks, g.banks_per_rank, g.channels // c.shared, reach, ACTIVE + reach + places,
        c.window, max(1, ceil(round(c.high * c.window, 6))), int(c.low * c.window), int(c.page_policy == "closed"),
        c.cap if c.page_policy == "capped" else 0, c.timeout if c.page_policy == "timeout" else 0,
        int(per_bank), int(c.refresh_waits), 0 if c.refresh == "none" else every,
        bank[Command.REFPB][act] if per_bank else rank[Command.REF][act], injection, outstanding,
        bank[pre][act], bank[act][act], bank[act][pre], rank[act][act], max(rank[act][act], group[act][act]),
        bank[act][rd], bank[act][wr],
        device.timing["CL"] + device.burst, device.timing["CWL"] + device.burst,
        bank[rd][pre] + edge - 1, bank[wr][pre] + edge - 1, near[0], near[3],
        *_between(device, Level.RANK), *_between(device, Level.GROUP, Level.BANK), *_between(device, Level.SIBLING),
        rank[Command.REFPB][act], rank[act][Command.REFPB], rank[Command.REFPB][Command.REFPB],
        device.latency[Level.SIBLING][act][act],
        ring * g.channels * g.ranks if c.act_clocks else 0, c.act_clocks, BUS_RECORD if two else 0, c.handover,
        int(c.scheduler == "commands"), depth, edge,
        ring, len(windows), *[each for pair in windows for each in pair],
    ]  # fmt: skip


def fresh(device: Device, p: Sequence[int]) -> State:
    """Everything closed, nothing waiting; refreshes of the ranks one after the other where the controller does so."""
    g = device.geometry
    ranks = g.channels * g.ranks
    buses = p[CONTROLLERS] * (p[COLUMNS] + BUS_RECORD) if p[BUS] else 0
    places = p[QUEUE] - ACTIVE - p[REACH]
    slots = 2 * p[CONTROLLERS] * places
    banks: list[int] = []
    for k in range(ranks * g.banks_per_rank):
        bus = k // (g.ranks * g.banks_per_rank) % p[CONTROLLERS] * (p[COLUMNS] + BUS_RECORD)
        records = RANK * (k // g.banks_per_rank), GROUP * (k // g.banks), p[BUS] + bus
        banks += [-1, NEVER, NEVER, NEVER, 0, -1, 0, 0, *records, *[NEVER] * 2, *[-1] * 8]
    queues = []
    for k in range(2 * p[CONTROLLERS]):
        queues += [0] * ELDEST + [-1, -1, NEVER] + [0] * p[REACH] + list(range(k * places, (k + 1) * places))
    ranked = []
    for r in range(ranks):
        turn, turns = (r % g.ranks, g.ranks) if device.controller.refresh == "staggered" else (0, 1)
        due = p[EVERY] * (turn + 1) // turns if p[EVERY] else -NEVER
        ranked += [NEVER, 0, due, 0, 0, 0, 0, 0, *[NEVER] * 5]
    return State(
        banks, [NEVER] * GROUP * (ranks * g.groups), ranked,
        [NEVER] * (p[RING] * ranks + buses), queues, [0, 0, 0, -1, -1, 0] * slots, [0] * TOTALS,
    )  # fmt: skip


class Stretches(NamedTuple):
    """For each request first and one past the last of the equal neighbours that it is among, and ``follow``."""

    first: np.ndarray[Any, Any]
    past: np.ndarray[Any, Any]
    follow: np.ndarray[Any, Any]


def stretches(
    bank: np.ndarray[Any, Any], row: np.ndarray[Any, Any], write: np.ndarray[Any, Any]
) -> Stretches:
    """The stretches of requests to one row of one bank in one direction."""
    n = len(bank)
    change = np.ones(n, bool)
    change[1:] = (bank[1:] != bank[:-1]) | (row[1:] != row[:-1]) | (write[1:] != write[:-1])
    starts = np.flatnonzero(change)
    lengths = np.diff(np.append(starts, n))
    follow = np.arange(1, n + 1)
    if n:
        most = int(row.max()) + 1
        key = (bank[starts] * most + row[starts]) * 2 + write[starts]
        order = np.argsort(key, kind="stable")
        later = np.append(starts[order[1:]], n)
        later[:-1][key[order[1:]] != key[order[:-1]]] = n
        follow[(starts + lengths - 1)[order]] = later
    return Stretches(np.repeat(starts, lengths), np.repeat(starts + lengths, lengths), follow)
