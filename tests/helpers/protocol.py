"""A second reading of the rules of a DRAM: every command of a log against the tables of its device.

Nothing here comes from the models; a rule is checked as its row in the standard says it. The command bus is checked
where the controller states one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from accelsim.dram.device import Command, Device, Level
from accelsim.dram.mapping import decoder
from accelsim.dram.standards import STANDARDS
from accelsim.types import Array

ACT, PRE, RD, WR, REF, REFPB = Command


class Row(NamedTuple):
    """One command; ``bank`` is flat, and the first of its rank for REF."""

    clock: int
    command: Command
    bank: int
    row: int


def rows(commands: Array) -> list[Row]:
    """The log of ``Served``, by clock."""
    made = [Row(clock, Command(command), bank, row) for clock, command, bank, row in commands.tolist()]
    return sorted(made, key=lambda each: each.clock)


def violations(device: Device, log: list[Row]) -> list[str]:
    """Everything in a log, from reset on, that the device does not allow; [] where nothing is."""
    checks = (_apart, _windows, _rows_open, _data, _bus)
    return [found for check in checks for found in check(device, log)]


def _scopes(device: Device, bank: int) -> dict[Level, int]:
    g = device.geometry
    rank = bank // g.banks_per_rank
    return {Level.SIBLING: rank // g.ranks, Level.RANK: rank, Level.GROUP: bank // g.banks, Level.BANK: bank}


def _apart(device: Device, log: list[Row]) -> Iterator[str]:
    """Two commands that share a level are as far apart as the tables say: the last of each kind is the nearest."""
    last: dict[tuple[Level, int, Command], Row] = {}
    ranks = device.geometry.ranks
    for each in log:
        scopes = _scopes(device, each.bank)
        for level, scope in _partners(scopes, ranks):
            if each.command is REF and level in (Level.GROUP, Level.BANK):
                continue
            for before in Command:
                then, gap = last.get((level, scope, before)), device.latency[level][before][each.command]
                if then is not None and each.clock - then.clock < gap:
                    yield f"{level.name}: {gap} clocks from {then} to {each}"
        for level, scope in scopes.items():
            key = scopes[Level.RANK] if level is Level.SIBLING else scope
            last[level, key, each.command] = each


def _partners(scopes: dict[Level, int], ranks: int) -> Iterator[tuple[Level, int]]:
    """Where commands lie that a command must keep apart from: the other ranks, its own rank, group and bank."""
    first = scopes[Level.SIBLING] * ranks
    yield from ((Level.SIBLING, r) for r in range(first, first + ranks) if r != scopes[Level.RANK])
    yield from ((level, scope) for level, scope in scopes.items() if level is not Level.SIBLING)


def _windows(device: Device, log: list[Row]) -> Iterator[str]:
    """No more than n activations of a rank in so many clocks."""
    acts: dict[int, list[int]] = defaultdict(list)
    for each in log:
        if each.command is ACT:
            of_rank = acts[_supply(device, each.bank)]
            of_rank.append(each.clock)
            for n, clocks in device.windows:
                if len(of_rank) > n and of_rank[-1] - of_rank[-1 - n] < clocks:
                    yield f"more than {n} ACT in {clocks} clocks: {each}"


def _supply(device: Device, bank: int) -> int:
    """Where activations are counted together: a rank, or all stack IDs of a pseudo-channel."""
    scopes = _scopes(device, bank)
    return scopes[Level.SIBLING if device.latency[Level.SIBLING][ACT][ACT] else Level.RANK]


def _bus(device: Device, log: list[Row]) -> Iterator[str]:
    """One command of a queue in a clock, an ACT in several that end with its own; of a row and a column bus each.

    Not on it: REF, and what closes a row without a request for another (before REF, by auto-precharge, by a timeout).
    """
    g, c = device.geometry, device.controller
    taken: dict[tuple[int, bool, int], Row] = {}
    following: dict[int, Command] = {}
    silent = c.page_policy in ("closed", "timeout")
    for each in reversed(log if c.act_clocks else []):
        unasked = silent or following.get(each.bank) is not ACT
        if each.command in (REF, REFPB):
            past = each.bank + (g.banks_per_rank if each.command is REF else 1)
            following.update(dict.fromkeys(range(each.bank, past), each.command))
            continue
        following[each.bank] = each.command
        if each.command is PRE and unasked:
            continue
        queue = each.bank // (g.ranks * g.banks_per_rank) % (g.channels // c.shared)
        column = each.command in (RD, WR) and STANDARDS[device.standard].row_bus
        for clock in range(each.clock - (c.act_clocks if each.command is ACT else 1) + 1, each.clock + 1):
            if other := taken.get((queue, column, clock)):
                yield f"{each} and {other} are on one bus in clock {clock}"
            taken[queue, column, clock] = each


def _rows_open(device: Device, log: list[Row]) -> Iterator[str]:
    """RD and WR find their row open, ACT the bank closed, PRE open, REF every bank of the rank closed."""
    opened: dict[int, int] = {}
    of_rank = device.geometry.banks_per_rank
    for each in log:
        here = opened.get(each.bank)
        if each.command in (RD, WR):
            if here != each.row:
                yield f"row {here} is open: {each}"
        elif each.command is ACT:
            if here is not None:
                yield f"row {here} is still open: {each}"
            opened[each.bank] = each.row
        elif each.command is PRE:
            if here is None:
                yield f"nothing is open: {each}"
            opened.pop(each.bank, None)
        else:
            past = each.bank + (of_rank if each.command is REF else 1)
            held = [bank for bank in range(each.bank, past) if bank in opened]
            if held:
                yield f"banks {held} are open: {each}"


def _data(device: Device, log: list[Row]) -> Iterator[str]:
    """Bursts do not overlap on the data bus of a channel, which all its ranks share."""
    t, buses = device.timing, defaultdict(list)
    for each in log:
        if each.command in (RD, WR):
            delay = t["CL"] if each.command is RD else t["CWL"]
            buses[_scopes(device, each.bank)[Level.SIBLING]].append((each.clock + delay, each))
    for bursts in buses.values():
        bursts.sort()
        for (first, a), (second, b) in pairwise(bursts):
            if second - first < device.burst:
                yield f"data of {a} and {b} overlap"


def places(device: Device, addresses: Array, writes: Array) -> Counter[tuple[Command, int, int]]:
    """Return how often each row of each (flat) bank is to be read and written."""
    g = device.geometry
    p = decoder(device.controller.mapping, g).decode(addresses)
    flat = ((p.channel.astype(int) * g.ranks + p.rank) * g.groups + p.group) * g.banks + p.bank
    kinds = (WR if write else RD for write in writes.tolist())
    return Counter(zip(kinds, flat.tolist(), p.row.tolist(), strict=True))


def served(log: list[Row]) -> Counter[tuple[Command, int, int]]:
    """The same of a log."""
    return Counter((each.command, each.bank, each.row) for each in log if each.command in (RD, WR))


def open_clocks(device: Device, log: list[Row], begin: int, end: int) -> int:
    """Clocks from begin to end in which any bank of a rank was open, added up over the ranks."""
    of_rank, total = device.geometry.banks_per_rank, 0
    for rank in {each.bank // of_rank for each in log}:
        spans, since = [], {}
        for each in log:
            if each.bank // of_rank == rank and each.command is ACT:
                since[each.bank] = each.clock
            elif each.bank // of_rank == rank and each.command is PRE:
                spans.append((since.pop(each.bank), each.clock))
        spans += [(start, end) for start in since.values()]
        at = begin
        for start, stop in sorted(spans):
            start, stop = max(start, at), min(stop, end)
            total += max(0, stop - start)
            at = max(at, stop)
    return total
