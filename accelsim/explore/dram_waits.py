"""Waits of the data bus of a DRAM: every idle clock of it, with the rule that made it idle.

Read from the commands of a batch. Before the data of a RD or WR there may be a gap on the bus. The command stands where
it does because one of the rules allows no earlier clock; that rule gets the whole gap. Where the rule is an activation
that came too late, the rule that held back the activation gets it. Gaps and data add up to the time of all buses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.dram.device import Command, Device, Level
from accelsim.dram.served import Served
from accelsim.types import Array

NEVER = -(1 << 60)

REASONS: dict[str, str] = {
    "data": "data moved",
    "group": "tCCD_L: the next burst was in the same bank group, whose bus is slower than the pins",
    "column": "tCCD_S: column commands of a rank cannot follow each other faster",
    "turn": "the bus turned round between reading and writing",
    "rank": "the bus passed from one rank to another",
    "bank": "tRC: a bank closed its row and opened another, with nothing else to serve meanwhile",
    "tFAW": "tFAW: no rank may open more than four rows in that time (its supply is too weak)",
    "t32AW": "t32AW: no rank may open more than 32 rows in that time (its supply is too weak)",
    "tRRD": "tRRD: two rows of a rank cannot be opened faster one after the other",
    "refresh": "refresh: the banks were rewriting their cells and served nobody",
    "request": "no request was ready: it had only just come, or others in front held it up",
    "uneven": "uneven addresses: a channel had no request left while others still worked",
}
"""Reason -> in words; all but 'data' are idle clocks."""


class Waits(NamedTuple):
    """``clocks`` by reason (keys of ``REASONS``), of ``total``: all channels together, begin to end."""

    clocks: dict[str, int]
    total: int

    def share(self, reason: str) -> float:
        """Return the share of the data buses' time that a reason takes, 0 to 1."""
        return self.clocks[reason] / self.total if self.total else 0.0

    @property
    def worst(self) -> str:
        """The reason for most of the idle clocks; 'data' when there are none."""
        idle = {reason: count for reason, count in self.clocks.items() if reason != "data" and count}
        return max(idle, key=lambda reason: idle[reason], default="data")


class _Rows(NamedTuple):
    """Commands of some kinds in the order of their clocks."""

    at: Array
    kind: Array
    bank: Array

    def select(self, *kinds: Command) -> _Rows:
        keep = np.isin(self.kind, kinds)
        return _Rows(self.at[keep], self.kind[keep], self.bank[keep])


def waits(served: Served, device: Device) -> Waits:
    """Return where the time of the data buses went. ``served`` must have its commands; ValueError otherwise."""
    if served.commands is None:
        raise ValueError("the commands of this batch were not recorded")
    g = device.geometry
    total = served.elapsed * g.channels
    clocks = dict.fromkeys(REASONS, 0)
    rows = _Rows(*(served.commands[:, column] for column in (0, 1, 2)))
    columns = rows.select(Command.RD, Command.WR)
    channel = columns.bank // (g.ranks * g.banks_per_rank)
    delay = np.where(columns.kind == Command.RD, device.timing["CL"], device.timing["CWL"])
    begin = columns.at + delay
    before = _previous(channel)
    ended = np.where(before >= 0, begin[before] + device.burst, served.begin)
    gap = np.maximum(0, begin - ended)
    why = _column_reasons(columns, before, rows, device)
    names = list(REASONS)
    for index, clocks_of in enumerate(np.bincount(why, weights=gap, minlength=len(names)).astype(int)):
        clocks[names[index]] += int(clocks_of)
    clocks["data"] = len(columns.at) * device.burst
    clocks["uneven"] = total - sum(clocks.values())
    return Waits(clocks, total)


def _previous(key: Array) -> Array:
    """Index of the entry before each with the same key, -1 where there is none."""
    order = np.argsort(key, kind="stable")
    result = np.full(len(key), -1)
    same = key[order][1:] == key[order][:-1]
    result[order[1:][same]] = order[:-1][same]
    return result


def _latest(keys: Array, at: Array, of_keys: Array, of_at: Array, strict: bool = True) -> Array:
    """For each (key, clock), the last clock among ``of`` with that key before it (or at it); NEVER if none."""
    if not len(of_at):
        return np.full(len(at), NEVER)
    span = int(max(at.max(initial=0), of_at.max())) + 2
    found = np.sort(of_keys * span + of_at)
    place = np.searchsorted(found, keys * span + at, side="left" if strict else "right") - 1
    hit = (place >= 0) & (found[place] // span == keys)
    result: Array = np.where(hit, found[place] % span, NEVER)
    return result


def _first_tight(candidates: Sequence[tuple[Array, Array]], at: Array, device: Device) -> Array:
    """Reason (an index) of the latest candidate that is not before ``at``; 'request' where all are.

    A candidate is (earliest clock by this rule, reason); the first wins ties. Behind an ACT and a PRE on the command
    bus a command may be that much later than its rule says.
    """
    at = at - (device.controller.act_clocks + 1 if device.controller.act_clocks else 0)
    names = list(REASONS)
    best, why = np.full(len(at), NEVER), np.full(len(at), names.index("request"))
    for earliest, reason in candidates:
        better = (earliest >= at) & (earliest > best)
        best, why = np.where(better, earliest, best), np.where(better, reason, why)
    return why


def _column_reasons(columns: _Rows, before: Array, rows: _Rows, device: Device) -> Array:
    """Reason of the gap before each RD and WR."""
    g, names = device.geometry, list(REASONS)
    rank, group = columns.bank // g.banks_per_rank, columns.bank // g.banks
    latency = np.array(device.latency)
    candidates = []
    for key, level in ((group, Level.GROUP), (rank, Level.RANK)):
        for first in (Command.RD, Command.WR):
            others = columns.kind == first
            last = _latest(key, columns.at, key[others], columns.at[others])
            wait = latency[level, first, columns.kind]
            steady = "group" if level == Level.GROUP else "column"
            why = np.where(columns.kind == first, names.index(steady), names.index("turn"))
            candidates.append((np.where(wait > 0, last + wait, NEVER), why))
    other = (before >= 0) & (rank[before] != rank)
    wait = latency[Level.SIBLING, columns.kind[before], columns.kind]
    why = np.where(columns.kind[before] == columns.kind, names.index("rank"), names.index("turn"))
    candidates.append((np.where(other, columns.at[before] + wait, NEVER), why))
    acts = rows.select(Command.ACT)
    opened = _latest(columns.bank, columns.at, acts.bank, acts.at)
    act_why = _act_reasons(acts, rows, device)
    row = _lookup(columns.bank, opened, acts.bank, acts.at, act_why)
    candidates.append((opened + latency[Level.BANK, Command.ACT, columns.kind], row))
    return _first_tight(candidates, columns.at, device)


def _lookup(keys: Array, at: Array, of_keys: Array, of_at: Array, values: Array) -> Array:
    """``values`` of the entry with that key and clock; that of 'request' where there is none."""
    if not len(of_at):
        return np.full(len(at), list(REASONS).index("request"))
    span = int(max(at.max(initial=0), of_at.max())) + 2
    codes = of_keys * span + of_at
    order = np.argsort(codes, kind="stable")
    place = np.searchsorted(codes[order], keys * span + at).clip(max=len(codes) - 1)
    hit = codes[order][place] == keys * span + at
    result: Array = np.where(hit, values[order][place], list(REASONS).index("request"))
    return result


def _act_reasons(acts: _Rows, rows: _Rows, device: Device) -> Array:
    """Return which rule held back each activation."""
    candidates = [
        (earliest, np.full(len(acts.at), list(REASONS).index(reason)))
        for reason, earliest in _act_rules(acts, rows, device)
    ]
    return _first_tight(candidates, acts.at, device)


def _act_rules(acts: _Rows, rows: _Rows, device: Device) -> Iterator[tuple[str, Array]]:
    """(reason, earliest clock by that rule) for every activation."""
    g, latency = device.geometry, device.latency
    rank, group = acts.bank // g.banks_per_rank, acts.bank // g.banks
    # ranks whose activations wait for each other have one supply (stack IDs of HBM)
    supply = rank // g.ranks if device.latency[Level.SIBLING][Command.ACT][Command.ACT] else rank
    for kind, level, size in ((Command.REF, Level.RANK, g.banks_per_rank), (Command.REFPB, Level.BANK, 1)):
        refs = rows.select(kind)
        last = _latest(acts.bank // size, acts.at, refs.bank // size, refs.at, strict=False)
        yield "refresh", last + latency[level][kind][Command.ACT]
    yield ("bank", _latest(acts.bank, acts.at, acts.bank, acts.at) + latency[Level.BANK][Command.ACT][Command.ACT])
    yield "bank", _precharged(acts, rows, device)
    for count, clocks in device.windows:
        yield ("tFAW" if count == 4 else "t32AW"), _nth_before(supply, acts.at, count) + clocks
    for key, level in ((rank, Level.RANK), (group, Level.GROUP)):
        last = _latest(key, acts.at, key, acts.at)
        yield "tRRD", last + latency[level][Command.ACT][Command.ACT]


def _precharged(acts: _Rows, rows: _Rows, device: Device) -> Array:
    """PRE + tRP where the bank itself held the PRE back; a PRE that came with the request is no reason of the bank."""
    bank = device.latency[Level.BANK]
    pres = rows.select(Command.PRE)
    held = np.zeros(len(pres.at), bool)
    for kind in (Command.ACT, Command.RD, Command.WR):
        own = rows.select(kind)
        last = _latest(pres.bank, pres.at, own.bank, own.at)
        held |= last + bank[kind][Command.PRE] >= pres.at
    last = _latest(acts.bank, acts.at, pres.bank[held], pres.at[held])
    return last + bank[Command.PRE][Command.ACT]


def _nth_before(key: Array, at: Array, n: int) -> Array:
    """Clock of the entry n places before each among those of its key; NEVER where there are fewer."""
    order = np.lexsort((at, key))
    result = np.full(len(key), NEVER)
    if len(key) > n:
        same = key[order][n:] == key[order][:-n]
        result[order[n:][same]] = at[order][:-n][same]
    return result
