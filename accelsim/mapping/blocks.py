"""One axis cut into blocks by its loops and lanes: how many blocks there are, and which stay where a loop advances.

Everything is exact where bounds do not divide: blocks begin at multiples of their extent, and the last is shorter.
Arrays have one entry per row of bounds. Loops of level l stand outside its lanes, level 0 outermost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from accelsim.types import Ints


class Pair(NamedTuple):
    """A kind of (block before, block after a step) in one lane: extents, how far the start moved, how often."""

    before: Ints
    after: Ints
    shift: Ints
    times: Ints


class _Part(NamedTuple):
    """A ``Pair`` on the way down; ``lock``: extent of the block of the first lane, for whose steps all lanes wait."""

    before: Ints
    after: Ints
    lock: Ints
    shift: Ints
    times: Ints


@dataclass(frozen=True)
class Axis:
    """Loops and lanes of one axis: ``temporal`` and ``spatial`` [rows, levels], and its extent."""

    extent: int
    temporal: Ints
    spatial: Ints

    @cached_property
    def tiles(self) -> tuple[Ints, Ints]:
        """Extents of a block inside the loop, and inside the lanes of each level, uncut, [rows, levels]."""
        inside = np.cumprod((self.temporal * self.spatial)[:, ::-1], axis=1)[:, ::-1]
        after_lanes = np.concatenate([inside[:, 1:], np.ones_like(inside[:, :1])], axis=1)
        return after_lanes * self.spatial, after_lanes

    def blocks(self, child: int) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
        """(extent, count) of the full blocks that level ``child`` holds one of at a time, and of the last."""
        tile = np.minimum(self.tiles[1][:, child - 1], self.extent)
        number = -(-self.extent // tile)
        return (tile, number - 1), (self.extent - (number - 1) * tile, np.ones_like(number))

    def places(self, child: int, cut: int, *, own: bool, shared_from: int) -> Ints:
        """(iterations, lanes) that have work, counted over the loops outside of a step.

        Loops of levels below ``cut`` are outside. ``own``: the loop of level ``cut`` is the one that steps, and its
        steps are counted; else it and those inside begin anew and count once. Lanes of levels from ``shared_from``
        on count as one. ``child``: loops and lanes of the levels before it.
        """
        first = np.full(len(self.temporal), self.extent, np.int64)
        parts = [(first, np.ones_like(first))]
        for level in range(child):
            kind = "all" if level < cut else "steps" if own and level == cut else "first"
            parts = [new for part in parts for new in _children(*part, self.tiles[0][:, level], kind)]
            lanes = "all" if level < shared_from else "first"
            parts = [new for part in parts for new in _children(*part, self.tiles[1][:, level], lanes)]
        return _total([count for _, count in parts], len(first))

    def pairs(self, child: int, cut: int, *, own: bool, same: bool) -> list[Pair]:
        """What each lane has before and after the steps of one loop, in lanes that have work both times.

        Loops of levels below ``cut`` do not move. ``own``: the loop of level ``cut`` steps to its next iteration;
        else a loop of another axis steps. Loops inside go from their last iteration back to their first. ``same``:
        only pairs whose block is the same.
        """
        first = np.full(len(self.temporal), self.extent, np.int64)
        zero = np.zeros_like(first)
        parts = [_Part(first, first, first, zero, np.ones_like(first))]
        for level in range(child):
            tile = self.tiles[0][:, level]
            if level < cut:
                parts = [new for part in parts for new in _fixed(part, tile)]
            elif own and level == cut:
                parts = [] if same else [new for part in parts for new in _step(part, tile)]
            else:
                parts = [new for part in parts for new in _wrap(part, tile, same)]
            parts = [new for part in parts for new in _lanes(part, self.tiles[1][:, level])]
        return [Pair(part.before, part.after, part.shift, part.times) for part in parts]

    def kept(self, child: int, cut: int) -> Ints:
        """Elements that stay where they are over the steps of a loop of another axis, summed over lanes and steps."""
        pairs = self.pairs(child, cut, own=False, same=True)
        return _total([pair.times * pair.before for pair in pairs], len(self.temporal))


def _total(parts: list[Ints], rows: int) -> Ints:
    return np.asarray(sum(parts, np.zeros(rows, np.int64)), np.int64)


def _children(extent: Ints, count: Ints, tile: Ints, kind: str) -> Iterator[tuple[Ints, Ints]]:
    """The parts of a block: all of them, all but the first ('steps'), or only the first; empty kinds are left out."""
    if kind == "first":
        yield np.minimum(extent, tile), count
        return
    number = -(-extent // tile)
    full = np.minimum(tile, extent)
    last = extent - (number - 1) * tile
    more = count * (number - 1) if kind == "all" else count * np.maximum(number - 2, 0)
    even = last == full
    ends = count if kind == "all" else count * (number > 1)
    merged, rest = more + np.where(even, ends, 0), np.where(even, 0, ends)
    if merged.any():
        yield full, merged
    if rest.any():
        yield last, rest


def _fixed(part: _Part, tile: Ints) -> Iterator[_Part]:
    """A loop outside of the step: each of its iterations."""
    number, all_lanes = -(-part.before // tile), -(-part.lock // tile)
    full, last = np.minimum(tile, part.before), part.before - (number - 1) * tile
    lock = np.where(number < all_lanes, tile, part.lock - (all_lanes - 1) * tile)
    full_lock = np.minimum(tile, part.lock)
    alike = (last == full) & (lock == full_lock)
    many = part.times * (number - 1 + alike)
    if many.any():
        yield _Part(full, full, full_lock, part.shift, many)
    rest = np.where(alike, 0, part.times)
    if rest.any():
        yield _Part(last, last, lock, part.shift, rest)


def _step(part: _Part, tile: Ints) -> Iterator[_Part]:
    """The loop that steps: from a full block to the next, which is the last once."""
    number = -(-part.before // tile)
    shift = part.shift + tile
    many = part.times * np.maximum(number - 2, 0)
    if many.any():
        yield _Part(tile, tile, tile, shift, many)
    once = part.times * (number > 1)
    if once.any():
        yield _Part(tile, np.maximum(part.before - (number - 1) * tile, 0), tile, shift, once)


def _wrap(part: _Part, tile: Ints, same: bool) -> Iterator[_Part]:
    """A loop inside of the step: from its last iteration to its first."""
    back = (-(-part.lock // tile) - 1) * tile
    before = part.before - back
    count = np.where((before > 0) & ((back == 0) | (not same)), part.times, 0)
    if count.any():
        yield _Part(
            np.maximum(before, 0), np.minimum(part.after, tile), part.lock - back, part.shift - back, count
        )


def _lanes(part: _Part, tile: Ints) -> Iterator[_Part]:
    """Lanes: those that are full both times, and one that is not."""
    full = np.minimum(part.before // tile, part.after // tile)
    used = np.minimum(-(-part.before // tile), -(-part.after // tile))
    lock, many = np.minimum(part.lock, tile), part.times * full
    if many.any():
        yield _Part(tile, tile, lock, part.shift, many)
    rest = part.times * (used - full)
    if rest.any():
        before, after = (
            np.minimum(tile, np.maximum(side - full * tile, 0)) for side in (part.before, part.after)
        )
        yield _Part(before, after, lock, part.shift, rest)
