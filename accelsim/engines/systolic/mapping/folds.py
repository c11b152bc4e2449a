"""Closed forms of an array: clocks of all its folds, and for how long these hold what they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.mapping.shape import Shape
from accelsim.engines.systolic.mapping.tilings import Candidates, count, inner_tiles, lanes, last, over_tiles
from accelsim.engines.systolic.pace import Pace, clocks, packs
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.timing import FoldTiming, fold_timing
from accelsim.program.tiles import kept
from accelsim.types import Floats, Ints


class ArrayClocks(NamedTuple):
    """Clocks of the array alone, from its first streamed row to the last sum: of all folds; of the last tile (the
    smallest) and of its last fold. ``rows``: streamed by that fold. ``shift``: stationary rows before a fold.

    Of all arrays together: ``steps`` from fold to fold, ``held_moving`` while tiles are streamed, ``held_sums`` from
    the first row of a tile of sums to the last sum. ``step``: the longest of the first; ``slack``: what of it no
    stationary row moves."""

    total: Floats
    tile: Floats
    alone: Floats
    rows: Floats
    shift: Floats
    steps: Floats
    held_moving: Floats
    held_sums: Floats
    step: Floats
    slack: Floats


class Work(NamedTuple):
    """Tiles of an array along one axis: ``full`` tiles of extent ``tile``, and a last one."""

    full: Ints
    tile: Ints
    last: Ints

    def over(self, f: Callable[[Ints], Ints]) -> Ints:
        """Sum of ``f`` over the tiles."""
        total: Ints = self.full * f(self.tile) + f(self.last)
        return total


WorkOf = Callable[[int, Ints, int], Work]
"""From an extent, the extent of its tiles, and the arrays that take them in turn."""


def last_array(extent: int, tile: Ints, arrays: int) -> Work:
    """Tiles of the array that takes the last tile along an axis."""
    return Work((count(extent, tile) - 1) // arrays, tile, last(extent, tile))


def first_array(extent: int, tile: Ints, arrays: int) -> Work:
    """Tiles of the array that takes the first tile along an axis."""
    tiles, end = count(extent, tile), last(extent, tile)
    return Work(-(-tiles // arrays) - 1, tile, np.where((tiles - 1) % arrays == 0, end, tile))


class _Streamed(NamedTuple):
    """Tiles that stream so many rows: how many clocks that takes, and the edges of their folds."""

    clocks: Ints
    fold: FoldTiming[Ints]


class FoldClocks:
    """Closed forms of the folds of candidates on one matrix unit."""

    def __init__(self, unit: MatrixUnit) -> None:
        self._unit = unit

    def last(self, shape: Shape, c: Candidates) -> Floats:
        """Clocks of all folds of the array that does the last tile."""
        return np.zeros(len(c)) + self._times(shape, c, last_array)[0]

    def all(self, shape: Shape, c: Candidates) -> ArrayClocks:
        """Clocks of the array that does the last tile; ``total`` is that of the first array if it takes longer."""
        total, *times = self._times(shape, c, last_array)
        if c.arrays > 1:
            total = np.maximum(total, self._times(shape, c, first_array)[0])
        return ArrayClocks(*(np.zeros(len(c)) + time for time in (total, *times, *self._held(shape, c))))

    def _streamed(self, rows: Ints, pace: Pace) -> _Streamed:
        """Return tiles of ``rows`` streamed rows at a pace, per candidate."""
        unit, taken = self._unit, clocks(rows, pace)
        least = unit.min_interval * max(1, int(pace.row))
        fold = fold_timing(
            unit.rows, unit.cols, unit.dataflow, unit.schedule, unit.shadow_load,
            taken, unit.load_rows_per_clock, least, pace.leave,
        )  # fmt: skip
        return _Streamed(taken, fold)

    def _times(self, shape: Shape, c: Candidates, work_of: WorkOf) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """The first fields of ``ArrayClocks``, of one of the arrays."""
        gemm, unit, pace = shape.gemm, self._unit, shape.pace(c.arrays)
        depth = (kept(shape.sparse, gemm.K), kept(shape.sparse, c.tk))  # tiles along K are whole groups of weights
        size = {"m": (gemm.M, c.tm), "n": (gemm.N, c.tn), "k": depth}
        work = {axis: work_of(*size[axis], c.arrays if axis == c.split else 1) for axis in size}
        down, across, streamed = unit.flow.in_order(work)
        passes = down.over(lambda t: -(-t // unit.rows)) * across.over(lambda t: -(-t // unit.cols))
        tn, tk = last(gemm.N, c.tn), last(*depth)
        folds = over_tiles(gemm.groups, c.tg, lambda tg: packs(unit, tg, tn, tk)) * passes
        end = self._streamed(streamed.last, pace)
        steps = streamed.full * self._streamed(streamed.tile, pace).fold.step + end.fold.step
        alone = end.clocks + end.fold.drain + unit.accumulator_latency
        packed = packs(unit, last(gemm.groups, c.tg), tn, tk)
        more = packed * -(-down.last // unit.rows) * -(-across.last // unit.cols) - 1
        step = end.fold.step
        return folds * steps - step + alone, more * step + alone, alone, end.clocks, end.fold.load

    def _held(self, shape: Shape, c: Candidates) -> tuple[Ints, ...]:
        """The last fields of ``ArrayClocks``: sums over the tiles of all arrays."""
        gemm, unit, pace = shape.gemm, self._unit, shape.pace(c.arrays)
        size = {"m": (gemm.M, c.tm), "n": (gemm.N, c.tn), "k": (kept(shape.sparse, gemm.K), kept(shape.sparse, c.tk))}
        along, units = unit.flow.time, {unit.flow.rows: unit.rows, unit.flow.cols: unit.cols}
        counts = {axis: count(*size[axis]) for axis in size}
        full, final = self._streamed(size[along][1], pace), self._streamed(last(*size[along]), pace)

        def both(axis: str) -> tuple[Ints, Ints]:
            """Return what a tile along an axis multiplies the steps by, and what the last one does."""
            if axis == along:
                return full.fold.step, final.fold.step
            return -(-size[axis][1] // units[axis]), -(-last(*size[axis]) // units[axis])

        def over(axis: str) -> Ints:
            whole, end = both(axis)
            return (counts[axis] - 1) * whole + end

        def ends(whole: Ints, end: Ints, axes: str) -> Ints:
            """Sum of what the tiles of these axes and all groups take, by what they stream: ``whole``, the last one
            ``end``."""
            others = np.prod([counts[axis] for axis in axes if axis != along], axis=0, dtype=np.int64)
            total = (counts[along] - 1) * whole + end if along in axes else end
            all_: Ints = count(gemm.groups, c.tg) * others * total
            return all_

        def behind(tile: _Streamed) -> Ints:
            """Clocks from the start of the fold after the last one of a tile to its last sum."""
            return tile.clocks + tile.fold.drain + unit.accumulator_latency - tile.fold.step

        groups = over_tiles(gemm.groups, c.tg, lambda tg: packs(unit, tg, c.tn, size["k"][1]))
        round_ = groups * over("m") * over("n")
        deep, deepest = both("k")
        steps = round_ * ((counts["k"] - 1) * deep + deepest)
        moving = steps + ends(full.clocks - full.fold.step, final.clocks - final.fold.step, "mnk")
        parts, inner = (lanes(gemm, c) if c.split == "k" else 1), inner_tiles(gemm, c)
        held = steps
        if c.arrays == 1:
            # a tile of sums waits while the others of its round get theirs, but for the last part of each
            waits = inner * round_ * ((counts["k"] - 2) * deep + deepest) + round_ * deepest
            held = np.where(inner > 1, waits, steps)
        fold = full.fold
        slack = fold.step - fold.reload - fold.load
        return steps, moving, held + parts * ends(behind(full), behind(final), "mn"), fold.step, slack
