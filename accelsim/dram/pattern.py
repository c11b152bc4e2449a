"""DRAM model ``pattern``: counts row hits and takes the slowest of the bounds, millions of bursts in one NumPy call.

What it knows of a stream is how many bursts each bank, bank group, rank and channel serves in each half window, and in
how many row activations; what it does not know is the order within. So it has no command times, and ``done`` is a
straight line. It is meant for whole tensors; ``bank`` schedules each command.

A stream that opens few rows, such as one tile, is timed row by row (``pattern_visits``), in a tenth of the time.

The parts: ``pattern_rows`` (which bursts find their row open), ``pattern_work`` (how long that keeps each resource
busy), ``pattern_time`` (when the last is done).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from accelsim.dram.device import Device
from accelsim.dram.mapping import decoder
from accelsim.dram.pattern_rows import (
    Banks,
    Found,
    Groups,
    Locator,
    Times,
    Turns,
    drained,
    found,
    runs,
    split,
    younger,
)
from accelsim.dram.pattern_time import Timeline
from accelsim.dram.pattern_visits import Few, openings, visits
from accelsim.dram.served import COUNTS, Served
from accelsim.errors import Problem, UsageError

Array = np.ndarray[Any, Any]

FIRST = 8192
"""Bursts of the first part of a stream: it shows how fast the stream goes, hence what a refresh falls between."""
BLOCKS = 16384
"""Blocks (half windows of all channels) of each further part: arrays of a part stay in the cache."""
PART = 1 << 18
"""Bursts of a part at most."""


class Refresh:
    """What refresh costs. ``slowdown``: clocks with refresh of one without. ``interval``: clocks without refresh
    between two that close a bank, inf without refresh. ``period``: clocks between two commands of a rank."""

    def __init__(self, device: Device) -> None:
        timing, kind = device.timing, device.controller.refresh
        self.command, self.period, share = "ref", math.inf, 0.0
        self.interval = math.inf
        if kind in ("all_bank", "staggered"):  # all banks of the rank wait for tRFC of each tREFI
            self.period, share = timing["tREFI"], timing["tRFC"] / timing["tREFI"]
            self.interval = self.period * (1 - share)
        elif kind == "per_bank":  # one bank after the other; each waits for tRFCpb once in a round
            banks = device.geometry.banks_per_rank
            self.command = "refpb"
            self.period = timing.get("tREFIpb") or max(1, timing["tREFI"] // banks)
            share = timing["tRFCpb"] / (self.period * banks)
            self.interval = self.period * banks * (1 - share)
        self.slowdown = 1 / (1 - share)
        self._share, self._staggered = share, kind == "staggered" and device.geometry.ranks > 1
        self._window, self._clocks = device.controller.window, timing.get("tRFC", 0)

    def slowdown_of(self, spread: float, pace: float) -> float:
        """``slowdown`` of bursts that come every ``pace`` clocks of a channel and are spread over so many ranks.

        Staggered, each of n ranks stops the channel when the window W is full of its bursts. From W / n of them on,
        each of the others that is served makes room for 1 / (n - 1) more, so W (n - 1)^2 / n others are served before.
        """
        if not self._staggered or not self._clocks:
            return self.slowdown
        served = self._window * (spread - 1) ** 2 / spread * pace
        return 1 / (1 - self._share * max(1.0, spread * (1 - served / self._clocks)))

    def until(self, clock: float) -> int:
        """Refresh commands of a rank up to ``clock``."""
        return int(clock // self.period)


class Pattern:
    """A DRAM that serves streams of bursts; its state lasts from call to call.

    State: the open row of each bank, when each resource is free, the direction of the bus, the phase of the refresh.
    """

    def __init__(self, device: Device) -> None:
        geometry, controller = device.geometry, device.controller
        self.device = device
        self._queues = geometry.channels // controller.shared
        self._locator = Locator(decoder(controller.mapping, geometry), geometry)
        self._block = max(controller.window // 2, 1) * self._queues
        self._banks = Banks.closed(geometry.channels * geometry.ranks * geometry.banks_per_rank)
        self._timeline = Timeline(device)
        self._refresh = Refresh(device)
        self._simple = controller.page_policy == "open" and controller.window > 1
        self._direction: bool | None = None
        self._since = 0  # bursts of this direction, modulo the window
        self._clock = 0.0  # of the last column command, with refresh
        self._pace = (
            float(self._timeline.costs.bus[0]) / geometry.channels
        )  # clocks of a burst, learnt on the way

    def serve(
        self, addresses: Array, writes: Array | bool = False, at: int = 0, record: bool = False
    ) -> Served:
        """Serve bursts, offered in order from clock ``at`` on, as many per clock as there are channels.

        ``addresses``: int64, one byte of each burst. ``writes``: bool, of all or of each. With ``record``,
        ``arrived`` is ``at`` and ``done`` a straight line from the first data to ``end``: the model has no time
        for each burst. A batch that begins before the end of the last one follows it without a gap.

        Raises UsageError for shapes that differ or negative addresses.
        """
        addresses = np.asarray(addresses, np.int64)
        directions = _directions(addresses, writes)
        counts = dict.fromkeys(COUNTS, 0)
        if addresses.size == 0:
            return Served(at, at, counts, 0, 0, first=at)
        refreshed = self._refresh.until(self._clock)
        if at > self._clock:
            self._timeline.wait(self._timeline.served + (at - self._clock) / self._refresh.slowdown)
            self._clock = float(at)
        for begin, stop in _parts(addresses.size, min(self._block * BLOCKS, PART)):
            part = directions if isinstance(directions, bool) else directions[begin:stop]
            began = self._timeline.served
            self._part(addresses[begin:stop], part, counts)
            taken = self._timeline.served - began
            self._pace = taken / (stop - begin)
            per_channel = self._pace * self.device.geometry.channels
            self._clock += taken * self._refresh.slowdown_of(self._timeline.spread, per_channel)
        reads = not self._direction
        end = math.ceil(self._clock + self._timeline.costs.to_data[0 if reads else 1])
        ranks = self.device.geometry.channels * self.device.geometry.ranks
        counts[self._refresh.command] += (self._refresh.until(self._clock) - refreshed) * ranks
        served = Served(at, end, counts, 0, addresses.size * self.device.burst)
        served.open_clocks = self._open(served)
        served.first = first = min(at + self.device.unloaded_read, end)
        if record:
            served.arrived = np.full(addresses.size, at, np.int64)
            served.done = np.linspace(first, end, addresses.size).astype(np.int64)
            served.done[-1] = end
        return served

    def _part(self, addresses: Array, writes: Array | bool, counts: dict[str, int]) -> None:
        """Serve a part of a stream and add to ``counts``."""
        if self._simple and isinstance(writes, bool) and addresses.size <= FIRST:
            few = visits(self._locator, addresses, self._block)
            if few is not None:
                self._few(few, addresses.size, writes, counts)
                return
        groups, turns = self._groups(addresses, writes)
        began = self._timeline.served
        met = self._found(groups, began)
        bank = groups.place >> self._locator.row_bits
        closed = self.device.controller.page_policy == "closed"
        acts = groups.bursts if closed else ~met.hit
        self._timeline.advance(groups, bank, acts, met, turns)
        self._direction = bool(groups.write[-1])
        activated, missed = int(acts.sum()), int(met.miss.sum())
        counts["act"] += activated
        counts["hits"] += addresses.size - activated
        counts["misses"] += activated if closed else missed
        counts["conflicts"] += 0 if closed else activated - missed
        counts["pre"] += activated if closed else activated - missed
        written = addresses.size * writes if isinstance(writes, bool) else int(np.count_nonzero(writes))
        counts["wr"] += written
        counts["rd"] += addresses.size - written

    def _few(self, stream: Few, size: int, write: bool, counts: dict[str, int]) -> None:
        """Serve a part that opens few rows and add to ``counts``."""
        began, turn = self._timeline.served, self._direction not in (None, write)
        met, again = openings(stream.visits, self._banks, began, self._pace, self._refresh.interval)
        self._timeline.few(stream, met, again, write, turn)
        window = self.device.controller.window * self._queues
        self._since = ((0 if turn else self._since) + size) % window
        self._direction = write
        extra, conflicts = sum(again), met.count(2)
        missed = met.count(1) + extra
        for name, count in (
            ("act", missed + conflicts),
            ("hits", size - missed - conflicts),
            ("misses", missed),
            ("conflicts", conflicts),
            ("pre", conflicts),
            ("wr" if write else "rd", size),
        ):
            counts[name] += count

    def _groups(self, addresses: Array, writes: Array | bool) -> tuple[Groups, Turns]:
        """Row groups in the order of service."""
        controller = self.device.controller
        window = controller.window * self._queues
        groups = runs(self._locator, self._block, self._since, addresses, writes)
        if controller.window > 1 and not isinstance(writes, bool):
            marks = max(int(controller.window * controller.high), 1), int(controller.window * controller.low)
            groups = drained(groups, window, *(mark * self._queues for mark in marks))
        turns = split(groups, window, self._block, self._direction, self._since)
        self._since = turns.since
        if controller.window == 1:
            groups.phase = np.arange(groups.place.size)
        return groups, turns

    def _found(self, groups: Groups, began: float) -> Found:
        """What each group finds, when the part begins at clock ``began``."""
        controller, bits = self.device.controller, self._locator.row_bits
        cap = controller.cap if controller.page_policy == "capped" else None
        window = controller.window * self._queues
        follow = younger(groups, bits, window, cap) if controller.window > 1 else None
        timeout = controller.timeout if controller.page_policy == "timeout" else math.inf
        times = Times(began + groups.at * self._pace, self._refresh.interval, timeout)
        return found(groups, follow, bits, times, self._banks)

    def _open(self, served: Served) -> int:
        """Clocks with an open bank, of all ranks: with a closed page, tRAS of each activation as far as they do not
        overlap; otherwise every rank that was ever used, but for its refresh."""
        used = (self._banks.place.reshape(-1, self.device.geometry.banks_per_rank) >= 0).any(1)
        elapsed = served.elapsed * int(used.sum())
        if self.device.controller.page_policy == "closed":
            return min(elapsed, int(served.counts["act"] * self._timeline.costs.ras))
        return int(elapsed / self._refresh.slowdown)


def _directions(addresses: Array, writes: Array | bool) -> Array | bool:
    """``writes`` as one bool where all bursts agree; UsageError for inputs that are no stream."""
    problems = []
    if addresses.ndim != 1:
        problems.append(Problem(f"addresses of shape {addresses.shape}", "", "one dimension"))
    elif addresses.size and addresses.min() < 0:
        problems.append(Problem(f"address {addresses.min()}", "", "addresses from 0 up"))
    each = np.asarray(writes, bool)
    if each.ndim and each.shape != addresses.shape:
        problems.append(Problem(f"writes of shape {each.shape}", "", f"one bool, or shape {addresses.shape}"))
    if problems:
        raise UsageError(problems)
    if each.ndim == 0 or each.size == 0 or each.all() or not each.any():
        return bool(each.any())
    return each


def _parts(size: int, part: int) -> list[tuple[int, int]]:
    """(begin, end) of the parts of a stream: a short one to learn its pace, then long ones."""
    edges = [0, *range(min(FIRST, size), size, part), size]
    return [(begin, stop) for begin, stop in pairwise(edges) if stop > begin]
