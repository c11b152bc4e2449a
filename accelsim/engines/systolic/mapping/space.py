"""The tilings that a product may be given, as independent choices that the search of ``mapping`` goes through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Fields
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isqrt, prod
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.mapping.estimate import Estimator
from accelsim.engines.systolic.mapping.fitting import Fitting, Need, Room
from accelsim.engines.systolic.mapping.shape import Bounds, Step
from accelsim.engines.systolic.mapping.tilings import Candidates
from accelsim.engines.systolic.pace import packs
from accelsim.program.mapping import ORDERS, Mapping, Pin, Split
from accelsim.types import Bools, Floats, Ints

MOST_ROW_TILES = 1 << 20
"""Tiles along M that the search considers at the most: what a convolution reads is counted tile by tile."""
ALL = 1 << 20
"""Candidates up to which a thorough search has tiles of every extent; beyond, all even cuts."""
FEW = 1 << 15
"""Candidates up to which a fast search has all even cuts, of any extent: arrays take these together in a few ms."""
KEYS = 4
"""Costs that candidates are compared by: score in steps of ``RESOLUTION``, bytes across the pins, tiles, estimate."""
TRAFFIC, TILES, ESTIMATE = 1, 2, 3
RESOLUTION = 0.005
"""Relative difference of scores below which candidates count as equally fast, a round number: traffic and tiles, which
are exact, then decide. The closed form promises no more. Of 366 steps of four networks on five chips, each alone on the
machine, it was equal to 0.1 % for half of them, and 13.6 % or more too low for a tenth.
"""


Cuts = Callable[[int, int], set[int]]
"""From an extent and a unit the tile extents to try."""


class Option(NamedTuple):
    """One residency choice: what is on the chip as a whole, and the room that this leaves for tiles."""

    a_resident: bool
    y_resident: bool
    room: Room


class Rows(NamedTuple):
    """Cut of M: tiles are even cuts of ``extent`` into multiples of ``unit``, or M; ``strip``: see ``Conv``."""

    extent: int
    unit: int
    strip: int = 0


class Plan(NamedTuple):
    """Choices that many candidates share: ``option`` is an index."""

    option: int
    a_whole_k: bool
    a_slots: int
    split: Split
    rows: Rows


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


class Tilings:
    """The choices plan, order, tg, tm, tn, tk of a step. ``needs``: of each residency choice, and of each other buffer
    by name, the room with which no candidate would have been refused; ``misfits``: what candidates lacked, where none
    of a plan fitted; ``limit``: what the first cost of a candidate that is wanted must not exceed."""

    def __init__(self, step: Step, estimator: Estimator, fitting: Fitting, options: list[Option], plans: list[Plan],
                 orders: list[int], axes: Axes) -> None:  # fmt: skip
        self._step, self._estimator, self._fitting = step, estimator, fitting
        self._options, self._plans, self._orders, self._axes = options, plans, np.array(orders), axes
        self.needs: dict[int | str, int] = {}
        self.misfits: list[Need] = []
        self.limit = inf
        self._whole_k = np.array([plan.a_whole_k for plan in plans])
        self._a_slots = np.array([plan.a_slots for plan in plans])
        together = [(plan.option, plan.split, plan.rows, plan.split == "k" and plan.a_whole_k) for plan in plans]
        self._first = np.array([together.index(each) for each in together])
        """For each plan the first of those that are scored together."""
        self._tm = np.zeros((len(plans), axes.sizes[1]), np.int64)
        for index, plan in enumerate(plans):
            self._tm[index, : len(axes.tm[plan.rows])] = axes.tm[plan.rows]
        splits = {
            axis: [each.split == axis and each._replace(split="none") in plans for each in plans] for axis in "mnk"
        }
        whole = [each.a_whole_k and each._replace(a_whole_k=False) in plans for each in plans]
        splits["k"] = [x or y for x, y in zip(splits["k"], whole, strict=True)]
        self._copies = {axis: np.array(flags) for axis, flags in splits.items()}
        """Plans that are another one where an axis is one tile."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of options of each choice, in order: plan, loop order, tg, tm, tn, tk."""
        return len(self._plans), len(self._orders), *self._axes.sizes

    def distinct(self, choices: Ints) -> Bools:
        """Return which choices are no copies of others (the order of loops of one iteration does not matter)."""
        gemm, table, plan = self._step.shape.gemm, self._axes, choices[:, 0]
        order, tm = self._orders[choices[:, 1]], self._tm[plan, choices[:, 3]]
        tg, tn, tk = table.tg[choices[:, 2]], table.tn[choices[:, 4]], table.tk[choices[:, 5]]
        one = {"m": tm >= gemm.M, "n": tn >= gemm.N, "k": tk >= gemm.K}
        there: Bools = (tm > 0) & ((tg == 1) | (one["n"] & one["k"]))
        for index in self._orders.tolist():  # the first of those that run the loops that turn in one sequence
            for other in self._orders[self._orders < index].tolist():
                there &= (order != index) | ~_alike(ORDERS[index], ORDERS[other], one)
        for axis, plans in self._copies.items():
            there &= ~(plans[plan] & one[axis])
        return there

    def smallest(self) -> Ints:
        """The smallest tiles, without anything resident."""
        return np.array([len(self._plans) - 1, *[0] * (len(self.sizes) - 1)], np.int64)

    def costs(self, choices: Ints, limit: float) -> tuple[Floats, int]:
        """See ``mapping.leaders.Costly``."""
        found, scored, limit = np.full((len(choices), KEYS), inf), 0, min(limit, self.limit)
        first = self._first[choices[:, 0]]
        for index in np.unique(first).tolist():
            rows, fitted = self._fitting_rows(choices, np.flatnonzero(first == index), index)
            if len(rows) and limit < inf:
                near = steps(self._estimator.least(self._step.shape_of(fitted.a_resident), fitted)) <= limit
                rows, fitted = rows[near], fitted.keep(near)
            if len(rows):
                found[rows] = self._keys(fitted)
                scored += len(rows)
        return found, scored

    def mappings(self, choices: Sequence[tuple[int, ...]]) -> Callable[[int], Mapping]:
        """Return what makes a mapping of each of these candidates, by its place among them."""

        @cache
        def places() -> dict[int, tuple[Candidates, int]]:
            every = np.array(choices, np.int64)
            first = self._first[every[:, 0]]
            found = dict[int, tuple[Candidates, int]]()
            for index in np.unique(first).tolist():
                rows, fitted = self._fitting_rows(every, np.flatnonzero(first == index), index)
                found |= {row: (fitted, at) for at, row in enumerate(rows.tolist())}
            return found

        def mapping(place: int) -> Mapping:
            candidates, at = places()[place]
            return candidates.mapping(at)

        return mapping

    def bounds_of(self, mapping: Mapping) -> Bounds:
        """Return what bounds a mapping that fits, whether it is a candidate or not."""
        c = Candidates.from_mapping(mapping, self._step.arrays)
        return self._bounds(replace(c, y_slots=np.array([mapping.y_slots])))

    def _bounds(self, c: Candidates) -> Bounds:
        return self._estimator.bounds(self._step.shape_of(c.a_resident), c, self._step.homes)

    def _keys(self, c: Candidates) -> Floats:
        gemm, bounds = self._step.shape.gemm, self._bounds(c)
        axes = ((gemm.groups, c.tg), (gemm.M, c.tm), (gemm.N, c.tn), (gemm.K, c.tk))
        tiles = np.prod([-(-extent // tile) for extent, tile in axes], axis=0)
        return np.stack([steps(bounds.score()), bounds.offchip_B, tiles, bounds.total()], axis=1)

    def _fitting_rows(self, choices: Ints, rows: Ints, index: int) -> tuple[Ints, Candidates]:
        """Return those of these rows (plans whose first is ``index``) that exist and fit the buffers."""
        plan, table = self._plans[index], self._axes
        option, gemm = self._options[plan.option], self._step.shape.gemm
        rows = rows[self._tm[index, choices[rows, 3]] > 0]
        tg, tn, tk = table.tg[choices[rows, 2]], table.tn[choices[rows, 4]], table.tk[choices[rows, 5]]
        whole = (tg == 1) | ((tn >= gemm.N) & (tk >= gemm.K))
        rows, tg, tn, tk = rows[whole], tg[whole], tn[whole], tk[whole]
        plans = choices[rows, 0]
        c = Candidates(
            self._orders[choices[rows, 1]], option.a_resident, self._whole_k[plans], option.y_resident,
            self._a_slots[plans], tg, self._tm[index, choices[rows, 3]], tn, tk, split=plan.split,
            arrays=1 if plan.split == "none" else self._step.arrays, strip=plan.rows.strip,
        )  # fmt: skip
        if not len(c):
            return rows, c
        shape = self._step.shape_of(c.a_resident)
        fitted = self._fitting.fitted(c, shape, sum(side.element_B for side in shape.sides), option.room)
        for buffer, most_B in fitted.most_B.items():
            place = plan.option if buffer == self._fitting.activations else buffer
            self.needs[place] = max(self.needs.get(place, 0), most_B)
        self.misfits += [fitted.need] if fitted.need else []
        return rows[fitted.fits], fitted.kept


def steps(clocks: Floats | float) -> Floats:
    """Return clocks on a logarithmic scale, in whole steps of a factor 1 + ``RESOLUTION``."""
    found: Floats = np.floor(np.log(np.maximum(clocks, 1.0)) / np.log1p(RESOLUTION))
    return found


def _alike(name: str, other: str, one: Fields[str, Bools]) -> Bools:
    """Return a mask of candidates for which two orders run the same loops in one sequence, single iterations left
    out."""
    pairs = [
        (x, y) for x, y in ("mn", "mk", "nk") if (name.index(x) < name.index(y)) != (other.index(x) < other.index(y))
    ]
    same: Bools = np.ones(len(one["m"]), np.bool_)
    for x, y in pairs:
        same &= one[x] | one[y]
    return same


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
