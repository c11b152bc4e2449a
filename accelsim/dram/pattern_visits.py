"""Streams that open few rows: the ``pattern`` model row visit by row visit, for the tiles of a program.

A *visit* is everything that a stream wants from one row of one bank. A tile of contiguous data is a handful of them, so
plain Python is done before NumPy has set up its tables. The stream is cut into *stretches* at the beginnings of visits;
within a stretch each bank group serves its visits one after the other while the bus serves all of them::

    opened   = max(bank may precharge, admission) [+ tRP] , rank may activate, + tRCD
    group    = max(group free, opened) + bursts x tCCD_L
    bus      = max(bus free, first opened) + bursts x tCCD_S
    done     = the last of all

and a stretch is admitted when the one before has left no more than ``window`` - 1 bursts in a queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from accelsim.dram.pattern_rows import CLOSED, Banks, Locator
from accelsim.dram.pattern_work import Costs

Array = np.ndarray[Any, Any]
FEW, SHORT, LONG = 64, 4, 24
"""A stream has few visits when they have ``LONG`` bursts on average, or are up to ``FEW`` and have ``SHORT``."""


class Visit(NamedTuple):
    """``place``: see ``Locator``; ``first``, ``last``: where its runs begin in the stream, in bursts."""

    place: int
    bank: int
    first: int
    last: int


class Stretch(NamedTuple):
    """``bursts`` in all; ``parts``: (number of the visit, bursts), in the order of the visits."""

    bursts: int
    parts: list[tuple[int, int]]


class Few(NamedTuple):
    """A stream of few visits, in the order of their first bursts."""

    visits: list[Visit]
    stretches: list[Stretch]


def visits(locator: Locator, addresses: Array, apart: int) -> Few | None:
    """The visits of a stream in the order of their first bursts, and its stretches; None if they are not few, or if a
    row is visited again after another of its bank.

    ``apart``: bursts between the beginnings of two stretches at least.
    """
    lines = addresses >> locator.span
    heads = np.flatnonzero(lines[1:] != lines[:-1]) + 1
    at = np.concatenate([[0], heads])
    place = locator.places(lines[at])
    order = (place >> locator.row_bits).astype(np.uint16).argsort(kind="stable")
    sorted_ = place[order]
    begins = np.concatenate([[0], np.flatnonzero(sorted_[1:] != sorted_[:-1]) + 1])
    count = begins.size
    places = sorted_[begins].tolist()
    if count > max(min(FEW, addresses.size // SHORT), addresses.size // LONG, 1) or len(set(places)) < count:
        return None
    ends = np.concatenate([begins[1:], [at.size]])
    first, last = at[order[begins]].tolist(), at[order[ends - 1]].tolist()
    found = [
        Visit(where, where >> locator.row_bits, one, other)
        for where, one, other in zip(places, first, last, strict=True)
    ]
    rank = sorted(range(count), key=first.__getitem__)
    knots = [0]
    for number in rank:
        if first[number] >= knots[-1] + apart:
            knots.append(first[number])
    number_of = np.empty(at.size, np.intp)
    number_of[order] = np.repeat(_inverse(rank), ends - begins)
    bursts = np.diff(at, append=addresses.size)
    stretch = np.searchsorted(np.array(knots), at, "right") - 1
    table = np.bincount(stretch * count + number_of, bursts, len(knots) * count)
    cells = np.flatnonzero(table)
    parts: list[list[tuple[int, int]]] = [[] for _ in knots]
    for cell, inside in zip(cells.tolist(), table[cells].tolist(), strict=True):
        parts[cell // count].append((cell % count, int(inside)))
    edges = pairwise([*knots, addresses.size])
    stretches = [Stretch(e - b, part) for (b, e), part in zip(edges, parts, strict=True)]
    return Few([found[number] for number in rank], stretches)


def _inverse(rank: list[int]) -> list[int]:
    inverse = [0] * len(rank)
    for place, number in enumerate(rank):
        inverse[number] = place
    return inverse


def openings(
    found: list[Visit], banks: Banks, clock: float, pace: float, interval: float
) -> tuple[list[int], list[int]]:
    """(what each visit meets: 0 its row open, 1 its bank closed, 2 another row; how often refresh closes its row while
    it lasts). ``banks`` is updated; ``clock``: of the first burst; ``pace``: clocks per burst; ``interval``: between
    refreshes."""
    met, again = [], []
    for visit in found:
        bank = visit.bank
        epoch, later = (
            int((clock + visit.first * pace) / interval),
            int((clock + visit.last * pace) / interval),
        )
        left = int(banks.place[bank])
        if banks.epoch[bank] != epoch:
            left = CLOSED
        met.append(0 if left == visit.place else 1 if left == CLOSED else 2)
        again.append(later - epoch)
        banks.place[bank], banks.epoch[bank] = visit.place, later
    return met, again


class Ramp(NamedTuple):
    """``bursts`` that are done evenly between two clocks."""

    begin: float
    done: float
    bursts: float

    def waiting(self, clock: float) -> float:
        """Bursts that are not done by then."""
        share = (self.done - clock) / max(self.done - self.begin, 1e-9)
        return self.bursts * min(max(share, 0.0), 1.0)


class Channel:
    """Clocks from which each resource of a channel is free, as lists; ``ramps``: its last two stretches."""

    def __init__(self, free: list[float], groups: int, ranks: int, ramp: Ramp) -> None:
        banks = len(free) - groups - ranks - 1
        self.bank, self.group = free[:banks], free[banks : banks + groups]
        self.rank, self.bus = free[banks + groups : -1], free[-1]
        self.ramps = (ramp, ramp._replace(bursts=0.0))

    @property
    def done(self) -> float:
        """Clock of the last column command."""
        return max(ramp.done for ramp in self.ramps)

    def free(self) -> list[float]:
        """All resources, in the order of ``pattern_work``."""
        return [*self.bank, *self.group, *self.rank, self.bus]


class Course:
    """Serves stretches; the state of all channels as floats, in clocks since the origin of the timeline."""

    def __init__(self, costs: Costs, sizes: tuple[int, int, int, int], window: int, shared: int) -> None:
        self._costs, self._window, self._shared = costs, window, shared
        self._channels, self._ranks, self._groups, self._banks = sizes
        self.channels: list[Channel] = []
        self.admitted = 0.0

    def load(self, free: list[list[float]], ramps: list[Ramp], admitted: float) -> None:
        """``free``: of each channel; ``ramps``: what each served last."""
        groups = self._ranks * self._groups
        self.channels = [
            Channel(each, groups, self._ranks, ramp) for each, ramp in zip(free, ramps, strict=True)
        ]
        self.admitted = admitted

    def admit(self) -> None:
        """What comes next waits for a place in the queues."""
        self.admitted = max(self.admitted, self._admission(range(len(self.channels))))

    def turn(self, write: bool) -> None:
        """The direction changes to ``write``: bus and groups wait until all older bursts are done."""
        bus, group = (float(each[1 - write]) for each in (self._costs.turn, self._costs.turn_group))
        for channel in self.channels:
            channel.group = [max(clock + group, channel.done) for clock in channel.group]
            channel.bus = max(channel.bus, channel.done) + bus

    def serve(self, stream: Few, met: list[int], again: list[int], write: bool) -> float:
        """All stretches, one after the other. Returns over how many ranks bursts are spread (see ``Work``)."""
        spread, total = 0.0, 0
        ready: list[float | None] = [None] * len(stream.visits)
        per = self._ranks * self._groups * self._banks
        for stretch in stream.stretches:
            by_channel: dict[int, list[tuple[int, int, int]]] = {}
            for number, bursts in stretch.parts:
                channel, bank = divmod(stream.visits[number].bank, per)
                by_channel.setdefault(channel, []).append((number, bank, bursts))
            for channel, parts in by_channel.items():
                self._stretch(self.channels[channel], parts, met, again, ready, int(write))
                spread += self._spread(parts)
            total += stretch.bursts
            self.admitted = max(self.admitted + stretch.bursts / self._channels, self._admission(by_channel))
        return spread / total

    def _spread(self, parts: list[tuple[int, int, int]]) -> float:
        """The bursts of a stretch of a channel, times the ranks that they are spread over."""
        bursts = [0] * self._ranks
        for _, bank, count in parts:
            bursts[bank // (self._banks * self._groups)] += count
        return float(sum(bursts) ** 3 / sum(each * each for each in bursts))

    def _stretch(
        self,
        channel: Channel,
        parts: list[tuple[int, int, int]],
        met: list[int],
        again: list[int],
        ready: list[float | None],
        way: int,
    ) -> None:
        """One stretch of a channel; ``parts``: (visit, bank of the channel, bursts)."""
        costs = self._costs
        cas, bus_cas, to_pre = costs.plain.cas[way], costs.plain.bus[way], costs.plain.to_pre[way]
        begin, total, done = 1e30, 0, 0.0
        before, slower = list(channel.group), max(0.0, 2 - cas / bus_cas)
        opened = []
        for number, bank, bursts in parts:
            since = ready[number]
            if since is None:
                since = self._open(channel, bank, bursts, met[number], way)
                since = ready[number] = since + again[number] * costs.plain.to_cas[way]
            opened.append((since, number, bank, bursts))
        for since, _, bank, bursts in sorted(opened):  # the row that is open first is served first
            group = bank // self._banks
            start = max(since, channel.group[group], self.admitted)
            begin, total = min(begin, start), total + bursts
            # older bursts of other groups go first: this one gets what they leave of the bus
            older = max((clock for other, clock in enumerate(before) if other != group), default=start)
            channel.group[group] = end = start + bursts * cas + slower * max(0.0, older - start)
            done = max(done, end - cas)
            channel.bank[bank] = max(channel.bank[bank], end - cas + to_pre)
        begin = max(begin, channel.bus)
        channel.bus = begin + total * bus_cas
        channel.ramps = (Ramp(begin, max(channel.bus - bus_cas, done), total), channel.ramps[0])

    def _open(self, channel: Channel, bank: int, bursts: int, met: int, way: int) -> float:
        """From when on the row serves column commands; ``met``: see ``openings``."""
        if met == 0:
            return self.admitted
        plain, rank = self._costs.plain, bank // (self._banks * self._groups)
        act = max(channel.bank[bank], self.admitted) + (plain.rp if met == 2 else 0)
        act = max(act, channel.rank[rank])
        channel.rank[rank] = act + plain.act
        used = plain.to_cas[way] + (bursts - 1) * plain.cas[way] + plain.to_pre[way]
        channel.bank[bank] = act + max(plain.ras, used)
        return act + plain.to_cas[way]

    def _admission(self, channels: Iterable[int]) -> float:
        """Clock from which the next burst finds a place in the queues of all ``channels``."""
        queues = self._channels // self._shared
        return max(self._room(self.channels[queue::queues]) for queue in {each % queues for each in channels})

    def _room(self, sharing: list[Channel]) -> float:
        """Clock at which the last bursts of the channels that share a queue leave a place free."""
        places, ramps = self._window - 1, [ramp for each in sharing for ramp in each.ramps if ramp.bursts]
        later, left = 0.0, 0.0
        for clock in sorted({clock for ramp in ramps for clock in ramp[:2]}, reverse=True):
            waiting = sum(ramp.waiting(clock) for ramp in ramps)
            if waiting > places:
                return clock + (later - clock) * (waiting - places) / (waiting - left)
            later, left = clock, waiting
        return self.admitted
