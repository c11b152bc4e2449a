"""Words that each level reads and writes under many mappings at once.

An operand's tile at a level is fetched again when it changes. It stays while only loops advance that lead to no other
element of it (stationarity), and goes once to all lanes that need the same (multicast). Words are therefore those of
all (step, lane) that have work, less what stays over the steps of each loop; both are products over axes, since every
loop belongs to one axis and every axis to one dimension of an operand. ``blocks`` has the factors, exact where the
last tile is smaller. Lanes run in step; a lane without a block of a relevant axis loses its tile. Padding is data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accelsim.mapping.columns import Mappings
from accelsim.mapping.rules import OURS, Rules
from accelsim.mapping.tables import Tables
from accelsim.types import Ints
from accelsim.workload.nest import LoopNest, Operand


@dataclass(frozen=True)
class Counts:
    """Words of all instances of a level together, [N, levels, operands]; the columns are those of the mappings.

    ``to_inner``: read for the level inwards (or the units); of a result: partial sums that go back to be added to.
    ``from_outer``: written by the level outwards (fills). ``from_inner``: results written by the level inwards
    (updates). ``to_outer``: results read for the level outwards (drains). ``steps`` [N]: iterations of the units.
    """

    to_inner: Ints
    from_outer: Ints
    from_inner: Ints
    to_outer: Ints
    steps: Ints

    @cached_property
    def reads(self) -> Ints:
        """Words read at each level."""
        return self.to_inner + self.to_outer

    @cached_property
    def writes(self) -> Ints:
        """Words written at each level."""
        return self.from_outer + self.from_inner


def counts(nest: LoopNest, mappings: Mappings, rules: Rules = OURS) -> Counts:
    """Words per level and operand of each row, which must be legal (``legality``). All in 64-bit whole numbers."""
    N, L, O = len(mappings), len(mappings.frame.levels), len(nest.operands)  # noqa: E741
    a, b, c, d = np.zeros((4, N, L, O), np.int64)
    found = Counts(a, b, c, d, np.zeros(N, np.int64))
    for kept, rows in _patterns(mappings):
        part = mappings if len(rows) == N else mappings.rows(rows)
        _Counter(nest, part, rules, found, rows, kept).run()
    return found


def _patterns(mappings: Mappings) -> list[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """What is kept where, [levels, operands], and the rows that keep just that."""
    kept = mappings.slots > 0
    if not len(kept):
        return []
    if (kept == kept[0]).all():
        return [(kept[0], np.arange(len(kept)))]
    flat = kept.reshape(len(kept), -1)
    keys = flat @ (1 << np.arange(flat.shape[1], dtype=np.int64))
    _, firsts, which = np.unique(keys, return_index=True, return_inverse=True)
    return [(kept[first], np.flatnonzero(which == index)) for index, first in enumerate(firsts)]


class _Counter:
    """Counts of rows that keep the same operands at the same levels."""

    def __init__(
        self, nest: LoopNest, mappings: Mappings, rules: Rules, found: Counts,
        rows: NDArray[np.intp], kept: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        self._nest, self._rules, self._found, self._rows, self._kept = nest, rules, found, rows, kept
        self._levels = len(mappings.frame.levels)
        self._tables = Tables(nest, mappings, rules)

    def run(self) -> None:
        """Write the counts of all operands."""
        self._found.steps[self._rows] = self._tables.steps()
        for index, operand in enumerate(self._nest.operands):
            holders = [int(level) for level in np.flatnonzero(self._kept[:, index])]
            for parent, child in zip(holders, [*holders[1:], self._levels], strict=True):
                if operand.writes:
                    self._write(operand, index, parent, child)
                else:
                    self._read(operand, index, parent, child)

    def _read(self, operand: Operand, index: int, parent: int, child: int) -> None:
        found, rows = self._found, self._rows
        found.to_inner[rows, parent, index] = self._moved(operand, child, parent)
        if child < self._levels:
            found.from_outer[rows, child, index] = self._moved(operand, child, child)

    def _write(self, operand: Operand, index: int, parent: int, child: int) -> None:
        found, rows, rules = self._found, self._rows, self._rules
        sums = self._moved(operand, child, parent)
        found.from_inner[rows, parent, index] = sums
        again = sums - self._first(operand, child, parent, sums)
        found.to_inner[rows, parent, index] = again
        if child == self._levels:
            return
        every = self._moved(operand, child, child)
        if rules.drained:
            found.to_outer[rows, child, index] = every
        refills = every - self._first(operand, child, child, every)
        found.from_outer[rows, child, index] = refills if rules.refill == "all" else again

    def _first(self, operand: Operand, child: int, shared_from: int, moved: Ints) -> Ints:
        """Words of these that are no read, since they are zero."""
        if self._rules.first_read == "counted":
            return np.zeros_like(moved)
        first = self._tables.first(operand, child, shared_from)
        if self._rules.first_read == "revisited":
            return np.where(moved > first, 0, first)
        return first

    def _moved(self, operand: Operand, child: int, shared_from: int) -> Ints:
        """Words that come to (or leave) the tiles at ``child``; lanes from ``shared_from`` on that are alike, once."""
        total = self._tables.total(operand, child, shared_from)
        latched = self._rules.latched
        if child == self._levels and (latched == "nothing" or (latched == "inputs" and operand.writes)):
            return total
        for level in range(child):
            for axis in self._nest.axes:
                stays = self._tables.stays(operand, child, shared_from, level, axis)
                if stays is not None:
                    total = total - stays
        return total
