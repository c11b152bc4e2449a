"""Functions that are slow to ask, as tables: simulated at some places, on lines in between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from accelsim.types import Array

CLOSE = 0.005
"""A cell is not divided further when its middle is so near to what its corners say (a share of the whole)."""
MEMORY = 1 << 16
"""Answers that are kept."""
BLOCK = 8
"""Places of a line differ in so many lower bits of their last number."""
LINES = 1 << 12
"""Lines that are kept."""

Place = tuple[int, ...]
Values = tuple[float, ...]
Line = tuple[int, tuple[Array, ...]]
"""Places that follow each other in their last number, which the first has, and their values."""


class Asked(NamedTuple):
    """Values at a place, and those of the wholes that they are parts of, by which errors count."""

    values: Values
    wholes: Values


Kept = dict[str, Any]
"""Simulated values by the text of their place, as JSON of ``Asked``."""


@dataclass
class Cell:
    """Places from ``low`` to ``high``. ``halves``: cells of which it consists, empty for a whole one; then ``off`` says
    how far its middle is from its corners (a share)."""

    low: Place
    high: Place
    off: float
    axis: int = -1
    halves: list[Cell] = field(default_factory=list)


class Table:
    """A function of whole numbers, by linear interpolation in cells between simulated places.

    ``ask`` simulates a place. Cells begin between powers of two, and are halved, where somebody asks, until what they
    say of their middles is ``CLOSE``. So what is never asked costs nothing, and no answer depends on what was asked
    before. ``kept``: places that others have simulated; those of this table are added.
    """

    def __init__(self, ask: Callable[[Place], Asked], kept: Kept | None = None) -> None:
        self._ask, self._kept = ask, {} if kept is None else kept
        self._known: dict[Place, Asked] = {}
        self._cells: dict[Place, Cell] = {}
        self._memory: dict[Place, Values] = {}
        self._lines: dict[Place, list[Line]] = {}

    @property
    def simulated(self) -> int:
        """Places whose simulated values were asked for."""
        return len(self._known)

    @property
    def error(self) -> float:
        """Largest distance between the middle of a cell and its corners (a share)."""
        cells, worst = [*self._cells.values()], 0.0
        for cell in cells:
            cells += cell.halves
            worst = worst if cell.halves else max(worst, cell.off)
        return worst

    def at(self, place: Place) -> Values:
        """Return the values at a place."""
        found = self._memory.get(place)
        if found is None:
            found = self._between(*self._cell(place), place)
            if len(self._memory) < MEMORY:
                self._memory[place] = found
        return found

    def line(self, place: Place) -> Line:
        """Return the values at a place and at its neighbours in the same cell: they are found together in little time,
        and nothing is simulated for them."""
        known = self._lines.setdefault((*place[:-1], place[-1] >> BLOCK), [])
        for each in known:
            if 0 <= place[-1] - each[0] < len(each[1][0]):
                return each
        low, high = self._cell(place)
        least = place[-1] >> BLOCK << BLOCK
        first = min(high[-1], max(low[-1] + 1, least))
        last = np.arange(first, min(high[-1], least + (1 << BLOCK) - 1) + 1)
        values = self._between(low, high, (*place[:-1], last))
        found = first, tuple(each + np.zeros(len(last)) for each in values)
        if len(self._lines) > LINES:
            self._lines.clear()
        known.append(found)
        return found

    def _cell(self, place: Place) -> tuple[Place, Place]:
        high = tuple(1 << (x - 1).bit_length() if x > 1 else x for x in place)
        if high not in self._cells:
            self._cells[high] = self._made(tuple(x >> 1 if x > 1 else x for x in high), high)
        cell = self._cells[high]
        while cell.halves:
            cell = cell.halves[place[cell.axis] > cell.halves[0].high[cell.axis]]
            if cell.axis == -1 and cell.off < 0:
                made = self._made(cell.low, cell.high)
                cell.off, cell.axis, cell.halves = made.off, made.axis, made.halves
        return cell.low, cell.high

    def _made(self, low: Place, high: Place) -> Cell:
        """Return a cell, with halves that nobody has looked at yet (``off`` below 0) where its middle is too far."""
        cell = Cell(low, high, 0.0)
        wide = [axis for axis, (a, b) in enumerate(zip(low, high, strict=True)) if b > a + 1]
        if not wide:
            return cell
        middle = tuple((a + b) // 2 for a, b in zip(low, high, strict=True))
        cell.off = self._off(low, high, middle)
        if cell.off > CLOSE:
            cell.axis = max(wide, key=lambda axis: self._bend(low, high, axis))
            for a, b in ((low, _moved(high, middle, cell.axis)), (_moved(low, middle, cell.axis), high)):
                cell.halves.append(Cell(a, b, -1.0))
        return cell

    def _bend(self, low: Place, high: Place, axis: int) -> float:
        """Return how far the middles of two edges along an axis are from their lines, at most."""
        ends = ((low, _moved(low, high, axis)), (_moved(high, low, axis), high))
        half = (low[axis] + high[axis]) // 2
        return max(self._off(a, b, (*a[:axis], half, *a[axis + 1 :])) for a, b in ends)

    def _off(self, low: Place, high: Place, place: Place) -> float:
        """Return how far the values at a place are from those between corners, as a share of the wholes, at most."""
        values, wholes = self._value(place)
        between = self._between(low, high, place)
        return max(float(abs(a - b) / c) for a, b, c in zip(between, values, wholes, strict=True) if c)

    def _value(self, place: Place) -> Asked:
        if place not in self._known:
            self._known[place] = self._again(place) or self._ask(place)
            self._kept[" ".join(map(str, place))] = self._known[place]
        return self._known[place]

    def _again(self, place: Place) -> Asked | None:
        """Return what was simulated before; None where there is nothing, or nothing of use."""
        with suppress(KeyError, TypeError, ValueError):
            values, wholes = (tuple(map(float, each)) for each in self._kept[" ".join(map(str, place))])
            return Asked(values, wholes)
        return None

    def _between(self, low: Place, high: Place, place: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values at a place, or at several: numbers of the place may be arrays."""
        axes = [_ends(*each) for each in zip(low, high, place, strict=True)]
        total = list[Any]()
        for corner in product(*axes):
            share, found = 1.0, self._value(tuple([at for at, _ in corner])).values
            for _, each in corner:
                share *= each
            total = [a + share * b for a, b in zip(total or [0.0] * len(found), found, strict=True)]
        return tuple(total)


def _ends(low: int, high: int, at: Any) -> tuple[tuple[int, Any], ...]:
    """Both ends of an edge with their shares at a place on it, one where they are the same."""
    if low == high:
        return ((low, 1.0),)
    share = (at - low) / (high - low)
    return (low, 1 - share), (high, share)


def _moved(place: Place, other: Place, axis: int) -> Place:
    """A place with one coordinate of another."""
    return (*place[:axis], other[axis], *place[axis + 1 :])
