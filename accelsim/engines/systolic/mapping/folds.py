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


class FoldClocks:
    """Closed forms of the folds of candidates on one matrix unit."""

    def __init__(self, unit: MatrixUnit) -> None:
        self._unit = unit

    def last(self, shape: Shape, c: Candidates) -> ArrayClocks:
        """Clocks of the array that does the last tile."""
        return self._times(shape, c, last_array)

    def timing(self, rows: Ints, pace: Pace) -> FoldTiming[Ints]:
        """Edges between folds of ``rows`` streamed rows at a pace, per candidate."""
        unit = self._unit
        return fold_timing(
            np.asarray(unit.rows), np.asarray(unit.cols), unit.dataflow, unit.schedule, unit.shadow_load,
            clocks(rows, pace), unit.load_rows_per_clock, unit.min_interval * max(1, int(pace.row)), pace.leave,
        )  # fmt: skip

    def all(self, shape: Shape, c: Candidates) -> ArrayClocks:
        """Clocks of the array that does the last tile; ``total`` is that of the first array if it takes longer."""
        end = self._times(shape, c, last_array)
        if c.arrays == 1:
            return end
        first = self._times(shape, c, first_array)
        return end._replace(total=np.maximum(end.total, first.total))

    def _times(self, shape: Shape, c: Candidates, work_of: WorkOf) -> ArrayClocks:
        gemm, unit, pace = shape.gemm, self._unit, shape.pace(c.arrays)
        depth = (kept(shape.sparse, gemm.K), kept(shape.sparse, c.tk))  # tiles along K are whole groups of weights
        size = {"m": (gemm.M, c.tm), "n": (gemm.N, c.tn), "k": depth}
        work = {axis: work_of(*size[axis], c.arrays if axis == c.split else 1) for axis in size}
        down, across, streamed = unit.flow.in_order(work)
        passes = down.over(lambda t: -(-t // unit.rows)) * across.over(lambda t: -(-t // unit.cols))
        tn, tk = last(gemm.N, c.tn), last(*depth)
        folds = over_tiles(gemm.groups, c.tg, lambda tg: packs(unit, tg, tn, tk)) * passes
        steps = streamed.over(lambda t: self.timing(t, pace).step)
        rows = clocks(streamed.last, pace)
        end = self.timing(streamed.last, pace)
        alone = rows + end.drain + unit.accumulator_latency
        packed = packs(unit, last(gemm.groups, c.tg), tn, tk)
        more = packed * -(-down.last // unit.rows) * -(-across.last // unit.cols) - 1
        times = (
            folds * steps - end.step + alone,
            more * end.step + alone,
            alone,
            rows,
            end.load,
            *self._held(shape, c, pace),
        )
        return ArrayClocks(*(np.zeros(len(c)) + time for time in times))

    def _held(self, shape: Shape, c: Candidates, pace: Pace) -> tuple[Ints, ...]:
        """The last fields of ``ArrayClocks``: sums over the tiles of all arrays."""
        gemm, unit = shape.gemm, self._unit
        size = {"m": (gemm.M, c.tm), "n": (gemm.N, c.tn), "k": (kept(shape.sparse, gemm.K), kept(shape.sparse, c.tk))}
        along, units = unit.flow.time, {unit.flow.rows: unit.rows, unit.flow.cols: unit.cols}

        def step(t: Ints) -> Ints:
            return self.timing(t, pace).step

        def behind(t: Ints) -> Ints:
            """Clocks from the start of the fold after the last one of a tile to its last sum."""
            fold = self.timing(t, pace)
            return clocks(t, pace) + fold.drain + unit.accumulator_latency - fold.step

        def folds(axis: str) -> Callable[[Ints], Ints]:
            """Return what an extent along an axis multiplies the steps by."""
            return step if axis == along else lambda t: -(-t // units[axis])

        def ends(f: Callable[[Ints], Ints], axes: str) -> Ints:
            """Sum of ``f`` of the streamed extent over the tiles of these axes and all groups."""
            others = np.prod([count(*size[axis]) for axis in axes if axis != along], axis=0, dtype=np.int64)
            whole = over_tiles(*size[along], f) if along in axes else f(last(*size[along]))
            all_: Ints = count(gemm.groups, c.tg) * others * whole
            return all_

        groups = over_tiles(gemm.groups, c.tg, lambda tg: packs(unit, tg, c.tn, size["k"][1]))
        round_ = groups * over_tiles(*size["m"], folds("m")) * over_tiles(*size["n"], folds("n"))
        full, final = folds("k")(size["k"][1]), folds("k")(last(*size["k"]))
        steps = round_ * ((count(*size["k"]) - 1) * full + final)
        moving = steps + ends(lambda t: clocks(t, pace) - step(t), "mnk")
        parts, inner = (lanes(gemm, c) if c.split == "k" else 1), inner_tiles(gemm, c)
        if (
            c.arrays == 1
        ):  # a tile of sums waits while the others of its round get theirs, but for the last part of each
            waits = inner * round_ * ((count(*size["k"]) - 2) * full + final) + round_ * final
            held = np.where(inner > 1, waits, steps)
        else:
            held = steps
        largest = self.timing(size[along][1], pace)
        slack = largest.step - largest.reload - largest.load
        return steps, moving, held + parts * ends(behind, "mn"), largest.step, slack
