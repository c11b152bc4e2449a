# ruff: noqa: RUF009 (``each`` returns a field)
"""Records of the bank model: what its loops read and change, with the names of all fields.

Each kind of record is a class. Where Python runs the loop, a table is a list of such objects; where numba does, an
array with the same fields (:func:`table`). A *direction* is 0 for reads and 1 for writes; a field that says '[2]' has
one value for each. Banks, bank groups and ranks are numbered through all channels. All times are clocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from accelsim.dram.device import Command, Device, Level
from accelsim.dram.standards import STANDARDS
from accelsim.types import Array

NEVER, LATER = -(1 << 60), 1 << 60
ACT, PRE, RD, WR, REF, REFPB = map(int, Command)
FOLLOWING = 4
"""ACT, PRE, RD and WR: commands that follow others by the table of constraints."""
FRONT = 1
"""Clocks from the acceptance of a request to its first command."""
BUS_CLOCKS, ACTIVATIONS = 256, 32
"""Clocks that a command bus and activations that a rank remembers."""


def each(count: int, value: int = 0) -> Any:
    """Return a field of ``count`` values."""
    return field(default_factory=lambda: [value] * count, metadata={"shape": (count,)})


@dataclass(slots=True)
class Rules:
    """The constants of a device with its controller."""

    ranks: int = 0  # of a channel
    banks: int = 0  # of a rank
    controllers: int = 0
    reach: int = 0  # banks of a controller
    places: int = 0  # requests that a queue of a controller holds
    window: int = 0
    high: int = 0  # watermarks of writes
    low: int = 0
    depth: int = 0  # requests in the queue of a bank, 0 where banks have none
    by_command: int = 0  # whether commands are scheduled, in the order of time
    handover: int = 0  # from an access to the next request in its slot
    injection: int = 0  # requests a clock
    outstanding: int = 0  # requests in flight, 0 without a limit
    closed: int = 0  # page policies; 0: not this one
    cap: int = 0
    timeout: int = 0
    per_bank: int = 0  # whether REFPB is used in place of REF
    waits: int = 0  # whether a refresh waits for the requests whose rows were opened
    every: int = 0  # clocks between refreshes, 0: none
    rfc: int = 0
    ref_act: int = 0  # REFPB to ACT of another bank, and back; REFPB to REFPB
    act_ref: int = 0
    ref_ref: int = 0
    act_other: int = 0  # ACT to ACT of another rank, 0 where each has a supply of its own
    act_clocks: int = 0  # clocks of an ACT on its command bus
    columns: int = 0  # from the number of the bus for rows to that for columns, 0: one bus for both
    edge: int = 1  # every so many clocks an ACT, RD or WR begins
    rp: int = 0  # PRE to ACT
    rcd: list[int] = each(2)  # ACT to RD or WR [2]
    data: list[int] = each(2)  # RD or WR to the end of its data [2]
    step: list[int] = each(2)  # RD or WR to the next of the row [2]


@dataclass(slots=True)
class Constraint:
    """Clocks at least from a command to one that follows it, at one level."""

    following: int = 0
    clocks: int = 0


@dataclass(slots=True)
class After:
    """Offsets of the constraints after a command: those of its bank, group, rank, of other ranks, and their end."""

    first: list[int] = each(len(Level) + 1)


@dataclass(slots=True)
class Window:
    """At most so many activations of a rank in so many clocks."""

    activations: int = 0
    clocks: int = 0


@dataclass(slots=True)
class Bank:
    """A bank, with the lists of the requests that wait for it."""

    rank: int = 0
    group: int = 0
    bus: int = 0  # the command bus for rows
    open_row: int = -1  # -1: closed
    last_use: int = NEVER
    uses: int = 0  # accesses since the row was opened
    owner: int = -1  # direction of the request that the row was opened for and that still waits (by commands)
    queued: int = 0  # requests in its queue, and a clock before which none of them can have a command (queues)
    rests: int = 0
    earliest: list[int] = each(FOLLOWING, NEVER)  # by command
    head: list[int] = each(2, -1)  # oldest and youngest slot that waits, oldest one for the open row [2]
    tail: list[int] = each(2, -1)
    hit: list[int] = each(2, -1)
    place: list[int] = each(2, -1)  # in the list of active banks [2]


@dataclass(slots=True)
class Group:
    """State of a bank group."""

    earliest: list[int] = each(FOLLOWING, NEVER)


@dataclass(slots=True)
class Rank:
    """State of a rank."""

    next_ref: int = 0
    ref_bank: int = 0  # bank whose turn it is
    ref_at: int = NEVER  # the last two REFPB
    ref_before: int = NEVER
    last_act: int = NEVER
    open_banks: int = 0
    opened: int = 0  # since when banks are open
    closed_at: int = 0  # when all were closed last
    open_clocks: int = 0  # clocks with an open bank until then
    activations: int = 0  # how many, and the clocks of the last ones
    recent: list[int] = each(ACTIVATIONS, NEVER)
    earliest: list[int] = each(FOLLOWING, NEVER)


@dataclass(slots=True)
class Bus:
    """A command bus: a ring of the clocks that are taken, and the latest of them."""

    latest: int = NEVER
    taken: list[int] = each(BUS_CLOCKS, NEVER)


@dataclass(slots=True)
class Queue:
    """The queue of one direction of a controller; queue 2 c of controller c has the reads, 2 c + 1 the writes."""

    waiting: int = 0
    active: int = 0  # banks that have requests in it
    draining: int = 0  # in the one of reads: whether writes are served, or (queues) how many are still to move
    started: int = 0  # requests whose rows are open for them (by commands), or in the queues of banks (queues)
    clock: int = 0  # in the one of reads: before it nothing more is served, or (queues) next clock to look at
    turn: int = 0  # bank whose turn it was, slots in use, last clock of the bus for rows (queues)
    used: int = 0
    row_bus: int = NEVER
    head: list[int] = each(2, -1)  # eldest and youngest slot in the window (queues); the first entry
    tail: list[int] = each(2, -1)


@dataclass(slots=True)
class Slot:
    """A request that waits, in a list."""

    row: int = 0
    since: int = 0  # clock from which it may have commands
    request: int = 0
    after: int = -1
    before: int = -1
    met: int = 0  # whether another row was closed for it


@dataclass(slots=True)
class Totals:
    """The whole memory; from ``act`` on what ``served.COUNTS`` counts."""

    now: int = 0  # clock of the injection, requests injected in it
    injected: int = 0
    coming: int = 0  # next request
    stop: int = LATER  # request at which the loop pauses
    in_flight: int = 0
    end: int = 0  # last clock of data; that of the burst that was done first
    first: int = 0
    logged: int = 0  # rows of the log
    held: int = 0  # clock before which no request may come (queues)
    act: int = 0
    pre: int = 0
    accesses: list[int] = each(2)
    ref: int = 0
    refpb: int = 0
    hits: int = 0
    misses: int = 0
    conflicts: int = 0


class Requests(NamedTuple):
    """Bursts in order: controller, bank, row, direction; first and one past the last of a stretch of equals.

    ``follow``: the next request of the same row and direction, the number of requests when there is none. ``slot_of``:
    the slot of a request that waits (work space). ``arrived``, ``done``: results, one entry each, or none in all where
    they are not wanted. ``log``: rows of (clock, command, bank, row), empty where it is not wanted.
    """

    controller: list[int]
    bank: list[int]
    row: list[int]
    write: list[int]
    first: list[int]
    past: list[int]
    follow: list[int]
    slot_of: list[int]
    arrived: list[int]
    done: list[int]
    log: list[int]


class Memory(NamedTuple):
    """All tables; ``rules`` and ``whole`` have one record, ``after`` one for ACT, PRE, RD and WR each.

    ``active``: for each queue, places for its banks; ``free``: for each queue, its slots, free ones last.
    """

    rules: list[Rules]
    constraint: list[Constraint]
    after: list[After]
    windows: list[Window]
    bank: list[Bank]
    group: list[Group]
    rank: list[Rank]
    bus: list[Bus]
    queue: list[Queue]
    slot: list[Slot]
    whole: list[Totals]
    active: list[int]
    free: list[int]
    requests: Requests


def table(kind: type[Any], count: int, compiled: bool, **columns: Any) -> Any:
    """Return ``count`` records of a kind, as it begins but for ``columns``; an array where it is compiled for."""
    records = [kind() for _ in range(1 if compiled else count)]
    if compiled:
        layout = [(each.name, np.int64, each.metadata.get("shape", ())) for each in fields(kind)]
        made = np.full(count, np.array(tuple(getattr(records[0], name) for name, *_ in layout), layout))
        for name, values in columns.items():
            made[name] = values
        return made
    for name, values in columns.items():
        for record, value in zip(records, values, strict=True):
            setattr(record, name, value)
    return records


def edge_of(device: Device) -> int:
    """Return every how many clocks an ACT, RD or WR begins."""
    c = device.controller
    return c.edge if c.scheduler == "commands" and c.act_clocks else 1


def rules(device: Device, injection: int, outstanding: int) -> Rules:
    """Return the constants of a device, from its tables."""
    g, c = device.geometry, device.controller
    sibling, rank, group, bank = (device.latency[level] for level in Level)
    reach, per_bank = c.shared * g.ranks * g.banks_per_rank, c.refresh == "per_bank"
    every = device.timing["tREFI"]
    if per_bank:
        every = device.timing.get("tREFIpb") or max(1, every // g.banks_per_rank)
    depth = c.depth if c.scheduler == "queues" else 0
    two = device.standard in STANDARDS and STANDARDS[device.standard].row_bus
    return Rules(
        ranks=g.ranks, banks=g.banks_per_rank, controllers=g.channels // c.shared, reach=reach,
        places=c.window * (2 if c.scheduler == "commands" else 1) + reach * depth, window=c.window,
        high=max(1, ceil(round(c.high * c.window, 6))), low=int(c.low * c.window), depth=depth,
        by_command=int(c.scheduler == "commands"), handover=c.handover, injection=injection, outstanding=outstanding,
        closed=int(c.page_policy == "closed"), cap=c.cap if c.page_policy == "capped" else 0,
        timeout=c.timeout if c.page_policy == "timeout" else 0, per_bank=int(per_bank), waits=int(c.refresh_waits),
        every=0 if c.refresh == "none" else every, rfc=bank[REFPB][ACT] if per_bank else rank[REF][ACT],
        ref_act=rank[REFPB][ACT], act_ref=rank[ACT][REFPB], ref_ref=rank[REFPB][REFPB], act_other=sibling[ACT][ACT],
        act_clocks=c.act_clocks, columns=int(two), edge=edge_of(device), rp=bank[PRE][ACT],
        rcd=[bank[ACT][RD], bank[ACT][WR]], data=[device.timing[name] + device.burst for name in ("CL", "CWL")],
        step=[max(rank[kind][kind], group[kind][kind], bank[kind][kind]) for kind in (RD, WR)],
    )  # fmt: skip


def constraints(device: Device) -> tuple[list[tuple[int, int]], list[list[int]]]:
    """Return rows of ``Constraint`` from the table of the standard, and for each command where its rows begin.

    Accesses keep their order on the data bus even where the standard asks for no clock between them.
    """
    found: list[tuple[int, int]] = []
    first: list[list[int]] = []
    for command in (ACT, PRE, RD, WR):
        first.append([len(found)])
        for level in (Level.BANK, Level.GROUP, Level.RANK, Level.SIBLING):
            for following, clocks in enumerate(device.latency[level][command][:FOLLOWING]):
                ordered = level in (Level.RANK, Level.SIBLING) and min(command, following) >= RD
                held = edge_of(device) - 1 if level == Level.BANK and command >= RD and following == PRE else 0
                if clocks + held or ordered:  # ``held``: an access has its bus until the next edge
                    found.append((following, clocks + held))
            first[-1].append(len(found))
    return found, first


def fresh(device: Device, injection: int, outstanding: int, compiled: bool) -> Memory:
    """Return a device with all banks closed and nothing waiting; staggered refreshes are due one after the other."""
    g, p, made = device.geometry, rules(device, injection, outstanding), partial(table, compiled=compiled)
    ranks, queues, buses = g.channels * g.ranks, 2 * p.controllers, (1 + p.columns if p.act_clocks else 0)
    turns = g.ranks if device.controller.refresh == "staggered" else 1
    due = [p.every * (r % turns + 1) // turns if p.every else LATER for r in range(ranks)]
    banks = np.arange(ranks * p.banks)
    bus = banks // (g.ranks * p.banks) % p.controllers * buses
    found, first = constraints(device)
    counts, spans = [n for n, _ in device.windows], [clocks for _, clocks in device.windows]

    def flat(values: Array) -> Any:
        return values if compiled else values.tolist()

    return Memory(
        table(Rules, 1, compiled, **{each.name: [getattr(p, each.name)] for each in fields(Rules)}),
        made(Constraint, len(found), following=[x for x, _ in found], clocks=[x for _, x in found]),
        made(After, FOLLOWING, first=first),
        made(Window, len(device.windows), activations=counts, clocks=spans),
        made(Bank, len(banks), rank=flat(banks // p.banks), group=flat(banks // g.banks), bus=flat(bus)),
        made(Group, ranks * g.groups),
        made(Rank, ranks, next_ref=due),
        made(Bus, p.controllers * buses),
        made(Queue, queues),
        made(Slot, queues * p.places),
        made(Totals, 1),
        flat(np.zeros(queues * p.reach, np.int64)),
        flat(np.arange(queues * p.places)),
        Requests(*[flat(np.zeros(0, np.int64))] * len(Requests._fields)),
    )


def stretches(bank: Array, row: Array, write: Array) -> tuple[Array, Array, Array]:
    """Return the columns ``first``, ``past`` and ``follow`` of ``Requests``."""
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
    return np.repeat(starts, lengths), np.repeat(starts + lengths, lengths), follow
