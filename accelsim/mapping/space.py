"""The mappings that a search may choose from, as a few lists of choices: one per axis, per loop order, and of slots."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Fields
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, permutations, product
from math import factorial, prod
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import Problem, UsageError
from accelsim.mapping.columns import Frame, Mappings
from accelsim.mapping.legal import footprints_B
from accelsim.mapping.levels import Hierarchy, Refusal
from accelsim.seeds import generator
from accelsim.types import Ints
from accelsim.workload.nest import LoopNest

MOST_ORDERS = 720
"""Loop orders of one level that are considered where no list is given: all of six axes, a seeded choice beyond."""
MOST_CUTS = 50_000
"""Ways to cut one axis beyond which a space is refused."""

Tiles = Literal["divisors", "powers", "all"]


class Cuts(NamedTuple):
    """Ways to cut one axis: loops, lanes and the engine dimension of the lanes, each [ways, levels]."""

    temporal: Ints
    spatial: Ints
    dimension: NDArray[np.int8]


@dataclass(frozen=True)
class Space:
    """Mappings of ``nest`` on ``hierarchy``.

    ``lanes``: level -> engine dimension -> axes that may lie along it. ``granules``: engine dimension -> lanes come
    in multiples of it, or cover all that is left of the axis. ``orders``: level -> loop orders, each all axes outermost
    first; an absent level may have any. ``slots``: level -> operand -> choices, 0 for going past; absent: 1, and
    what the level cannot keep goes past. ``tiles``: iterations of a loop are divisors of what is left; or those and
    powers of two; or all numbers (last tiles are smaller then). ``free_last``: the order of the innermost level
    matters (only with rules that latch).
    """

    nest: LoopNest
    hierarchy: Hierarchy
    lanes: Fields[str, Fields[str, tuple[str, ...]]] = field(default_factory=dict)
    granules: Fields[str, int] = field(default_factory=dict)
    orders: Fields[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    slots: Fields[str, Fields[str, tuple[int, ...]]] = field(default_factory=dict)
    tiles: Tiles = "powers"
    free_last: bool = False

    @cached_property
    def frame(self) -> Frame:
        """Names of the columns."""
        return Frame.of(self.nest, self.hierarchy)

    @cached_property
    def cuts(self) -> dict[str, Cuts]:
        """Ways to cut each axis whose tiles fit, all other axes being at one element.

        Leaving the others out loses nothing: tiles only grow with the extents of the other axes and with slots.
        """
        return {axis: self._fitting(axis, self.all_cuts[axis]) for axis in self.nest.axes}

    @cached_property
    def all_cuts(self) -> dict[str, Cuts]:
        """Ways to cut each axis, whether or not they fit. Raises UsageError beyond ``MOST_CUTS``."""
        return {axis: self._cut(axis, extent) for axis, extent in self.nest.axes.items()}

    @cached_property
    def order_choices(self) -> list[NDArray[np.int8]]:
        """Loop orders of each level, [choices, axes]."""
        return [self._orders(level) for level in range(len(self.frame.levels))]

    @cached_property
    def slot_choices(self) -> list[Ints]:
        """Slots of each level, [choices, operands]."""
        tables = []
        for level, store in enumerate(self.hierarchy.stores):
            choices = []
            for name in self.frame.operands:
                able = level == 0 or store.may_keep is None or name in store.may_keep
                given = self.slots.get(store.name, {}).get(name, (1,) if able else (0,))
                choices.append(
                    [count for count in given if (count == 0) <= (level > 0 and name not in store.must_keep)]
                )
            tables.append(np.array(list(product(*choices)), np.int64).reshape(-1, len(self.frame.operands)))
        return tables

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of choices: of each axis, then of each level's order, then of each level's slots."""
        tables = [len(cut.temporal) for cut in self.cuts.values()]
        return (*tables, *map(len, self.order_choices), *map(len, self.slot_choices))

    @property
    def size(self) -> int:
        """Candidates, before those are left out that only differ in the order of loops of one iteration."""
        return prod(self.sizes)

    def decode(self, choices: Ints) -> Mappings:
        """Choices [N, len(sizes)] as mappings."""
        A, L = len(self.frame.axes), len(self.frame.levels)
        picked = [(cut, choices[:, index]) for index, cut in enumerate(self.cuts.values())]
        return Mappings(
            self.frame,
            np.stack([self.order_choices[level][choices[:, A + level]] for level in range(L)], axis=1),
            np.stack([cut.temporal[at] for cut, at in picked], axis=2),
            np.stack([cut.spatial[at] for cut, at in picked], axis=2),
            np.stack([cut.dimension[at] for cut, at in picked], axis=2),
            np.stack([self.slot_choices[level][choices[:, A + L + level]] for level in range(L)], axis=1),
        )

    def canonical(self, choices: Ints) -> NDArray[np.bool_]:
        """Rows that are the one to score among those that only differ where a loop of one iteration stands.

        Such a loop never steps, so it changes no count. The one kept has them last, in the order of the axes; where
        a level has a list of orders of its own all are kept.
        """
        A = len(self.frame.axes)
        keep = np.ones(len(choices), bool)
        for level, name in enumerate(self.frame.levels):
            if name in self.orders or len(self.order_choices[level]) < factorial(A):
                continue
            once = np.stack(
                [cut.temporal[choices[:, index], level] == 1 for index, cut in enumerate(self.cuts.values())],
                axis=1,
            )
            order = self.order_choices[level][choices[:, A + level]].astype(np.intp)
            idle = np.take_along_axis(once, order, axis=1)
            keep &= ~(idle[:, :-1] & (~idle[:, 1:] | (order[:, :-1] > order[:, 1:]))).any(axis=1)
        return keep

    def smallest(self) -> Refusal | None:
        """Why not even the smallest tiles fit, or None: the level that lacks most."""
        tiles = np.ones(len(self.frame.axes), np.int64)
        found = [refusal for level in range(len(self.frame.levels))
                 if (refusal := self._overflow(level, tiles)) is not None]  # fmt: skip
        return max(found, key=lambda refusal: refusal.needed - refusal.available, default=None)

    def _overflow(self, level: int, tiles: Ints) -> Refusal | None:
        store = self.hierarchy.stores[level]
        tiles = np.array(list(self.nest.axes.values()), np.int64) if level == 0 else tiles
        needed = int(footprints_B(self.nest, self.hierarchy.word_B, tiles, self._least(level)))
        if store.capacity_B is None or needed <= store.capacity_B:
            return None
        what = f"the smallest tiles take {needed:,} B of {store.capacity_B:,} B"
        return Refusal(store.name, what, needed, store.capacity_B)

    def _least(self, level: int) -> Ints:
        return np.asarray(self.slot_choices[level].min(axis=0), np.int64)

    def _fitting(self, axis: str, cut: Cuts) -> Cuts:
        index = self.frame.axes.index(axis)
        inside = np.cumprod((cut.temporal * cut.spatial)[:, ::-1], axis=1)[:, ::-1]
        fits = np.ones(len(inside), bool)
        for level, store in enumerate(self.hierarchy.stores):
            if store.capacity_B is not None:
                tiles = np.ones((len(inside), len(self.frame.axes)), np.int64)
                tiles[:, index] = np.minimum(inside[:, level], self.nest.axes[axis])
                needed = footprints_B(self.nest, self.hierarchy.word_B, tiles, self._least(level))
                fits &= needed <= store.capacity_B
        return Cuts(cut.temporal[fits], cut.spatial[fits], cut.dimension[fits])

    def _cut(self, axis: str, extent: int) -> Cuts:
        levels = len(self.frame.levels)
        rows = list(islice(self._chains(axis, extent, levels - 1), MOST_CUTS + 1))
        if len(rows) > MOST_CUTS:
            raise UsageError(
                Problem(
                    f"axis {axis!r} of {extent} has over {MOST_CUTS:,} ways to be cut",
                    expected="fewer levels, or tiles 'divisors'",
                )
            )
        table = np.array(rows, np.int64).reshape(-1, levels, 3)
        return Cuts(table[:, :, 0], table[:, :, 1], table[:, :, 2].astype(np.int8))

    def _chains(self, axis: str, left: int, level: int) -> Iterator[list[tuple[int, int, int]]]:
        """(iterations, lanes, dimension) of the levels up to ``level`` that cover ``left`` elements."""
        for lanes, dimension in self._lanes(axis, left, level):
            rest = -(-left // lanes)
            if level == 0:
                yield [(rest, lanes, dimension)]
                continue
            for count in _counts(rest, self.tiles):
                for outer in self._chains(axis, -(-rest // count), level - 1):
                    yield [*outer, (count, lanes, dimension)]

    def _lanes(self, axis: str, left: int, level: int) -> Iterator[tuple[int, int]]:
        yield 1, -1
        store = self.hierarchy.stores[level]
        for dimension, axes in self.lanes.get(store.name, {}).items():
            if axis in axes:
                units, granule = store.units.get(dimension, 1), self.granules.get(dimension, 1)
                place = self.frame.dimensions.index(dimension)
                for lanes in sorted({*_divisors(left), min(left, units // granule * granule)}):
                    if 1 < lanes <= units and (lanes % granule == 0 or lanes == left):
                        yield lanes, place

    def _orders(self, level: int) -> NDArray[np.int8]:
        axes, name = self.frame.axes, self.frame.levels[level]
        if name in self.orders:
            return np.array([[axes.index(axis) for axis in order] for order in self.orders[name]], np.int8)
        if level == len(self.frame.levels) - 1 and not self.free_last:
            return np.arange(len(axes), dtype=np.int8)[None]
        if factorial(len(axes)) <= MOST_ORDERS:
            return np.array(list(permutations(range(len(axes)))), np.int8)
        rng = generator(level)
        return np.array([rng.permutation(len(axes)) for _ in range(MOST_ORDERS)], np.int8)


def _divisors(number: int) -> list[int]:
    small = [i for i in range(1, int(number**0.5) + 1) if number % i == 0]
    return sorted({*small, *(number // i for i in small)})


def _counts(left: int, tiles: Tiles) -> list[int]:
    """Iterations that a loop over ``left`` elements may have."""
    if tiles == "all":
        return list(range(1, left + 1))
    powers = {1 << i for i in range(left.bit_length())} if tiles == "powers" else set()
    return sorted({*_divisors(left), *powers})
