"""Extents of tiles that a search has to choose from."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as Fields
from dataclasses import dataclass
from math import isqrt, prod
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.mapping.shape import Step
from accelsim.engines.systolic.pace import packs
from accelsim.program.mapping import ORDERS, Pin
from accelsim.types import Ints

MOST_ROW_TILES = 1 << 20
"""Tiles along M that the search considers at the most: what a convolution reads is counted tile by tile."""
ALL = 1 << 20
"""Candidates up to which a thorough search has tiles of every extent; beyond, all even cuts."""
FEW = 1 << 15
"""Candidates up to which a fast search has all even cuts, of any extent: arrays take these together in a few ms."""
Cuts = Callable[[int, int], set[int]]
"""From an extent and a unit the tile extents to try."""


class Rows(NamedTuple):
    """Cut of M: tiles are even cuts of ``extent`` into multiples of ``unit``, or M; ``strip``: see ``Conv``."""

    extent: int
    unit: int
    strip: int = 0


@dataclass(frozen=True)
class Axes:
    """Tile extents to choose from; ``tm`` for each way to cut M that a plan may ask for."""

    tg: Ints
    tm: dict[Rows, Ints]
    tn: Ints
    tk: Ints

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers of extents of tg, tm, tn and tk."""
        return len(self.tg), max(map(len, self.tm.values()), default=0), len(self.tn), len(self.tk)


def axes(
    step: Step, rows: set[Rows], pinned: Fields[str, Pin], plans: int, thorough: bool, least: bool = False
) -> Axes:
    """Tile extents of a step: even cuts and powers of two, in units of the array; ``thorough``: all of them where
    that makes few candidates, else all even cuts; ``least``: powers of two from a single row, column and word on."""
    gemm, unit = step.shape.gemm, step.unit
    if least:
        return _axes(step, rows, pinned, _powers)
    if thorough:
        every = plans * len(ORDERS) * gemm.groups * gemm.M * gemm.N * gemm.K
        return _axes(step, rows, pinned, _every if every <= ALL else _even)
    finer = _axes(step, rows, pinned, _even)
    if plans * len(ORDERS) * prod(finer.sizes) <= FEW:
        return finer
    together = gemm.groups // int(packs(unit, gemm.groups, gemm.N, gemm.K))
    return _axes(step, rows, pinned, _sizes, (unit.cols, unit.rows, max(1, together)))


def _axes(
    step: Step, rows: set[Rows], pinned: Fields[str, Pin], cuts: Cuts, units: tuple[int, int, int] = (1, 1, 1)
) -> Axes:
    gemm = step.shape.gemm

    def pin(name: str, sizes: set[int], extent: int) -> Ints:
        chosen = [min(int(pinned[name]), extent)] if name in pinned else sorted(sizes)
        return np.array(chosen, np.int64)

    def few(sizes: set[int]) -> set[int]:
        return {size for size in sizes if -(-gemm.M // size) <= MOST_ROW_TILES}

    several = {1}
    if gemm.groups > 1 and not pinned.keys() & {"tm", "tn", "tk"}:
        several |= cuts(gemm.groups, 1) | cuts(gemm.groups, units[2])
    return Axes(
        pin("tg", several, gemm.groups),
        {way: pin("tm", few(cuts(way.extent, way.unit)), gemm.M) for way in rows},
        pin("tn", cuts(gemm.N, units[0]), gemm.N),
        pin("tk", cuts(gemm.K, units[1]), gemm.K),
    )


def _sizes(extent: int, unit: int) -> set[int]:
    """Multiples of ``unit``: even cuts in 1 to 8 parts, powers of two, and even cuts in as many parts as those give."""
    units = -(-extent // unit)
    powers = {1 << power for power in range(units.bit_length())}
    counts = {*range(1, 9), *(-(-units // power) for power in powers)}
    return {min(part * unit, extent) for part in powers | {-(-units // count) for count in counts}}


def _powers(extent: int, unit: int) -> set[int]:
    return {extent, *(unit << power for power in range((extent // unit).bit_length()))}


def _every(extent: int, unit: int) -> set[int]:
    return {min(part * unit, extent) for part in range(1, -(-extent // unit) + 1)}


def _even(extent: int, unit: int) -> set[int]:
    """The smallest tiles that make so many parts, for every number of parts; and powers of two."""
    units = -(-extent // unit)
    root = isqrt(units)
    parts = {*range(1, root + 1), *(-(-units // count) for count in range(1, root + 2))}
    return {min(part * unit, extent) for part in parts} | _sizes(extent, unit)
