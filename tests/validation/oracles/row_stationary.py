"""The PE-level model: every PE with its scratch pads, step by step with the clock of each event, on real values.

It is the machine that :mod:`accelsim.engines.row_stationary.timing` states, built from its parts: which words a bus
carries is found from the indices that the PEs ask for, when a PE adds is found from its own clock and its neighbour's.
It uses none of the closed forms.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.row_stationary.counts import COUNTS, Counts
from accelsim.engines.row_stationary.shape import Conv, Geometry, Mapping
from accelsim.errors import UsageError
from tests.validation.oracles.row_stationary_parts import Bus, GlobalBuffer, Index, Pads, Values, chains


@dataclass(frozen=True)
class Result:
    """Clocks, the ofmap [N, G, M, E, F] and accesses of a layer."""

    clocks: int
    ofmap: Values
    counts: Counts[int]


class Work(NamedTuple):
    """One pass: filters and channels of the tile as slices, whether its psums are new, the strip's rows."""

    filters: slice
    channels: slice
    new: bool
    e: int


def cuts(total: int, size: int) -> list[slice]:
    """Blocks of ``size``, the last one smaller where it does not come out even."""
    edges = [*range(0, total, size), total]
    return [slice(a, b) for a, b in pairwise(edges)]


def deal(total: int, sets: int) -> list[list[int]]:
    """Indices dealt to sets in order, as many to each as to the fullest until none is left."""
    each = -(-total // sets)
    return [list(range(start, min(start + each, total))) for start in range(0, total, each)]


def table(hands: list[list[int]]) -> Index:
    """The same as an array [sets, most], -1 where a set has fewer."""
    most = max(map(len, hands))
    return np.array([hand + [-1] * (most - len(hand)) for hand in hands])


class Chip:
    """One array at work on one layer. ``now``: the clock up to which everything is done but psums on their way out."""

    def __init__(self, conv: Conv, array: Geometry, mapping: Mapping, ifmap: Values, weights: Values) -> None:
        self.conv, self.array, self.mapping = conv, array, mapping
        self.ifmap, self.weights = ifmap, weights
        self.seen: Counter[str] = Counter()
        self.kind = np.result_type(ifmap, weights)
        self.glb, self.pads = GlobalBuffer(array, self.seen), Pads(array, self.kind)
        self.ifmap_bus, self.filter_bus = Bus(array.ifmap_words), Bus(array.filter_words)
        self.psum_in, self.psum_out = Bus(array.psum_words), Bus(array.psum_words)
        self.now, self.waiting = 0, 0

    def layer(self) -> Values:
        """Run all output tiles; the ofmap."""
        conv, maps = self.conv, self.mapping
        ofmap = np.zeros((conv.N, conv.G, conv.M, conv.E, conv.F), dtype=self.kind)
        for group in range(conv.G):
            for block in cuts(conv.M, maps.m):
                for images in cuts(conv.N, maps.n):
                    for strip in cuts(conv.E, maps.e):
                        ofmap[images, group, block, strip] = self.tile(group, block, images, strip)
        return ofmap

    def tile(self, group: int, block: slice, images: slice, strip: slice) -> Values:
        """Run all passes of an output tile; its psums [n, m, e, F] when all have left the array."""
        conv, maps = self.conv, self.mapping
        weights = self.weights[group, block]
        n, m, e = images.stop - images.start, weights.shape[0], strip.stop - strip.start
        needed = np.unique(np.arange(strip.start, strip.stop)[:, None] * conv.U + np.arange(conv.R))
        self.glb.open_tile((n, m, e, conv.F), self.kind)
        for channels in cuts(conv.C, maps.q * maps.r):
            self.glb.fill(self.ifmap[images, group, channels][:, :, needed])
            for filters in cuts(m, maps.p * maps.t):
                work = Work(filters, channels, channels.start == 0, e)
                Pass(self, work, weights[filters, channels]).run(n)
        self.now = self.psum_out.send(self.waiting, self.now)
        self.waiting = 0
        return self.glb.close_tile()


class Pass:
    """One processing pass: which PE has what, its filters in the pads, then its steps.

    Arrays are [t, e, L, ...]: set over filters, row of the strip, place in the chain with the foot first. Of the words
    that PEs ask for in a column of the ifmap, ``asked``, the bus carries the different ones, ``carried``.
    """

    def __init__(self, chip: Chip, work: Work, weights: Values) -> None:
        self.chip, self.work, self.weights = chip, work, weights
        conv, maps = chip.conv, chip.mapping
        f, c = weights.shape[:2]
        self.filters, channels = table(deal(f, maps.t)), table(deal(c, maps.r))
        self.channels = np.repeat(channels, conv.R, axis=0)
        self.filter_row = np.tile(np.arange(conv.R), len(channels))
        self.pes = chains(chip.array, len(self.filters), work.e, len(self.channels))
        self.p, self.q = (self.filters >= 0).sum(axis=1), (self.channels >= 0).sum(axis=1)
        self.work_clocks = (self.p[:, None] * self.q * conv.S)[:, None, :]
        self.row = self._ifmap_rows()
        self.live = (self.filters >= 0)[:, None, :, None] & (self.channels >= 0)[None, :, None, :]
        self.turn = np.arange(self.filters.shape[1])
        self.products = int(self.live.sum()) * work.e * conv.S
        self.psums = int(self.p.sum()) * work.e
        rows = (self.row[:, :, None] + self.channels[None] * (self.row.max() + 1))[:, self.channels >= 0]
        self.asked, self.carried = rows.size * len(self.pes), len(np.unique(rows))
        self.held, self.coming = np.zeros(0), np.zeros(0)

    def _ifmap_rows(self) -> Index:
        """Row of the buffered ifmap that each PE of a set reads, [e, L]; rows that no PE needs are not buffered."""
        conv = self.chip.conv
        absolute = np.arange(self.work.e)[:, None] * conv.U + self.filter_row
        return np.searchsorted(np.unique(absolute), absolute)

    def run(self, n: int) -> None:
        """Load, all steps, and how late the top of the chains is."""
        chip, conv = self.chip, self.chip.conv
        start = chip.now
        filters_there = self.load_filters(start)
        steps = [(image, column) for image in range(n) for column in range(conv.F)]
        window_there = self.fetch(steps[0], start)
        emptied = chip.psum_out.send(chip.waiting, start)
        psums_there = self.fetch_psums(steps[0], emptied)
        begin = max(filters_there, window_there, psums_there)
        chip.pads.free[self.pes] = begin
        leaving, done = 0, begin
        for here, after in zip(steps, [*steps[1:], None], strict=True):
            ready = [chip.psum_out.send(leaving, begin)]
            values, done = self.step(here, begin)
            if after:
                ready += [self.fetch(after, begin), self.fetch_psums(after, begin)]
            chip.glb.write_psums(here[0], self.work.filters, here[1], values)
            leaving = values.size
            chip.seen["noc_psum_out"] += leaving
            foot = int(chip.pads.free[self.pes[:, :, 0]].max())
            begin = max(foot, *ready)
        chip.now, chip.waiting = begin + done - foot, leaving

    def load_filters(self, clock: int) -> int:
        """Every PE takes its filters; the clock when all have them."""
        chip, conv = self.chip, self.chip.conv
        chip.glb.filters(self.weights)
        columns = np.arange(conv.S)
        ask = (
            self.filters[:, None, :, None, None],
            self.channels[None, :, None, :, None],
            self.filter_row[:, None, None, None],
            columns,
        )
        valid = np.broadcast_to(self.live[..., None], np.broadcast_shapes(*(each.shape for each in ask)))
        words = np.where(valid, self.weights[ask], 0)
        ids = np.ravel_multi_index(ask, self.weights.shape, mode="wrap")[valid]
        carried = len(np.unique(ids))
        flat = words.reshape(*words.shape[:2], -1)
        chip.pads.filter[self.pes, : flat.shape[2]] = flat[:, None]
        self.held = chip.pads.filter[self.pes, : flat.shape[2]].reshape(*self.pes.shape, *words.shape[2:])
        chip.seen["filter_pad_writes"] += ids.size * self.work.e
        chip.seen["noc_filter"] += carried
        return chip.filter_bus.send(carried, clock)

    def fetch(self, step: tuple[int, int], clock: int) -> int:
        """Bring the columns that a step needs and the one before it had not; the clock when all PEs have them.

        They go to the pad's words of the columns that the step no longer needs, once the PE gets there.
        """
        chip, fresh = self.chip, len(self._fresh(step[1]))
        chip.seen["noc_ifmap"] += self.carried * fresh
        chip.seen["glb_ifmap_reads"] += self.carried * fresh
        chip.seen["ifmap_pad_writes"] += self.asked * fresh
        return chip.ifmap_bus.send(self.carried * fresh, clock)

    def _fresh(self, column: int) -> list[int]:
        conv = self.chip.conv
        have = set(range((column - 1) * conv.U, (column - 1) * conv.U + conv.S)) if column else set()
        return [x for x in range(column * conv.U, column * conv.U + conv.S) if x not in have]

    def take(self, step: tuple[int, int]) -> Values:
        """Put what came for a step into the pads; the windows of all PEs [t, e, L, q, S]."""
        chip, conv = self.chip, self.chip.conv
        image, column = step
        fresh = np.array(self._fresh(column))
        slot = np.arange(self.channels.shape[1])[:, None] * conv.S + fresh % conv.S
        words = chip.glb.ifmap[image][self.channels[..., None], self.row[:, :, None, None], fresh]
        chip.pads.ifmap[self.pes[..., None, None], slot] = words[None]
        window = np.arange(column * conv.U, column * conv.U + conv.S) % conv.S
        place = np.arange(self.channels.shape[1])[:, None] * conv.S + window
        windows: Values = chip.pads.ifmap[self.pes[..., None, None], place]
        return windows

    def fetch_psums(self, step: tuple[int, int], clock: int) -> int:
        """Bring the psums of a step, if they are not new; the clock when all are there."""
        chip, work = self.chip, self.work
        if work.new:
            return clock
        self.coming = chip.glb.read_psums(step[0], work.filters, step[1])
        chip.seen["noc_psum_in"] += self.coming.size
        return chip.psum_in.send(self.coming.size, clock)

    def step(self, step: tuple[int, int], begin: int) -> tuple[Values, int]:
        """Multiply in all PEs, then add up the chains; psums [f, e] and the clock when the last has left the top."""
        chip = self.chip
        windows = self.take(step)
        sums = np.einsum("telpqs,telqs,tlpq->telp", self.held, windows, self.live)
        chip.pads.psum[self.pes, : sums.shape[3]] = sums
        for name in ("macs", "ifmap_pad_reads", "filter_pad_reads", "psum_pad_writes"):
            chip.seen[name] += self.products
        chip.seen["psum_pad_reads"] += self.products - self.psums * self.pes.shape[2]
        own = np.maximum(chip.pads.free[self.pes], begin) + self.work_clocks
        return self.add_up(own)

    def add_up(self, own: Index) -> tuple[Values, int]:
        """Every PE adds its psums to what comes from below, one a clock and none before it came."""
        chip, last = self.chip, self.p - 1
        pad = chip.pads.psum[self.pes, : len(self.turn)]
        carried, came = self._from_buffer(), np.zeros(1, dtype=np.int64)
        free = np.empty_like(self.pes)
        for place in range(self.pes.shape[2]):
            may = np.maximum(own[:, :, place, None], came)
            came = np.maximum.accumulate(may - self.turn, axis=2) + self.turn + 1
            carried = carried + pad[:, :, place]
            free[:, :, place] = came[np.arange(len(last)), :, last]
        chip.pads.free[self.pes] = free
        chip.seen["psum_pad_reads"] += self.psums * self.pes.shape[2]
        chip.seen["psum_hops"] += self.psums * (self.pes.shape[2] - 1)
        return carried.swapaxes(1, 2)[self.filters >= 0], int(free[:, :, -1].max())

    def _from_buffer(self) -> Values:
        """Return what the foot of each chain adds to, [t, e, p]: psums of the passes before, or zeros."""
        if self.work.new:
            return np.zeros((*self.pes.shape[:2], self.filters.shape[1]), dtype=self.chip.kind)
        return self.coming[self.filters].swapaxes(1, 2)


def run(conv: Conv, array: Geometry, mapping: Mapping, ifmap: Values, weights: Values) -> Result:
    """Run a layer on real values: ifmap [N, G, C, H, W] with its padding, weights [G, M, C, R, S].

    Raises UsageError for operands of other shapes, HazardError for a mapping that does not fit.
    """
    shapes = {"ifmap": (conv.N, conv.G, conv.C, conv.H, conv.W), "weights": (conv.G, conv.M, conv.C, conv.R, conv.S)}
    for name, values in (("ifmap", ifmap), ("weights", weights)):
        if values.shape != shapes[name]:
            raise UsageError(f"{name} has the shape {values.shape}; expected {shapes[name]}")
    chip = Chip(conv, array, mapping, ifmap, weights)
    ofmap = chip.layer()
    found: dict[str, Any] = {name: chip.seen[name] for name in COUNTS}
    return Result(chip.now, ofmap, Counts(**found))
