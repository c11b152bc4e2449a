"""The oracle: a mapping executed step by step and lane by lane, with sets of elements as the contents of each level.

Written from the rules alone: tiles are sets, lanes that need the same make a group, a group that has the tile of the
step fetches nothing. It shares no arithmetic with ``accelsim.mapping``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

from accelsim.mapping.levels import Mapping
from accelsim.mapping.rules import Rules
from accelsim.workload.nest import LoopNest, Operand

Digits = dict[tuple[int, str], int]


class Brute:
    """Words per (direction, level, operand) of one mapping, in ``words``; ``steps`` of the units."""

    def __init__(self, nest: LoopNest, mapping: Mapping, rules: Rules) -> None:
        self.nest, self.mapping, self.rules = nest, mapping, rules
        self.words: Counter[tuple[str, int, str]] = Counter()
        self.levels = len(mapping.levels)
        self.steps = sum(1 for _ in self._walk(self.levels))
        for operand in nest.operands:
            holders = [i for i, part in enumerate(mapping.levels) if operand.name in part.keep]
            for parent, child in zip(holders, [*holders[1:], self.levels], strict=True):
                self._transfer(operand, parent, child)

    def _inside(self, axis: str, level: int, after: str = "") -> int:
        """Extent inside the loop ('temporal') or the lanes ('spatial') of a level."""
        size = 1
        for index, part in enumerate(self.mapping.levels):
            if index > level:
                size *= dict(part.temporal).get(axis, 1)
            if index > level or (index == level and after == "temporal"):
                size *= part.spatial.get(axis, ("", 1))[1]
        return size

    def _walk(self, child: int) -> Iterator[Digits]:
        """All steps of the loops outside of ``child``, in order; how many iterations is decided by the first lane."""
        loops = [(level, axis) for level in range(child) for axis, _ in self.mapping.levels[level].temporal]

        def go(index: int, digits: Digits, left: dict[str, int]) -> Iterator[Digits]:
            if index == len(loops):
                yield digits
                return
            level, axis = loops[index]
            for above in range(level):  # the first lane has at most the extent of a lane
                left = {**left, axis: min(left[axis], self._inside(axis, above))}
            tile = self._inside(axis, level, "temporal")
            for i in range(-(-left[axis] // tile)):
                yield from go(
                    index + 1,
                    {**digits, (level, axis): i},
                    {**left, axis: min(tile, left[axis] - i * tile)},
                )

        yield from go(0, {}, dict(self.nest.axes))

    def _block(self, child: int, digits: Digits, lane: Digits, axis: str) -> range:
        start = sum(
            i * self._inside(axis, level, "temporal") for (level, a), i in digits.items() if a == axis
        )
        start += sum(i * self._inside(axis, level) for (level, a), i in lane.items() if a == axis)
        extent = self.nest.axes[axis]
        return range(min(start, extent), min(start + self._inside(axis, child - 1), extent))

    def _elements(self, operand: Operand, blocks: dict[str, range]) -> frozenset[Any]:
        sides = []
        for form in operand.dims.values():
            values = {0}
            for axis, step in form.terms:
                values = {value + step * i for value in values for i in blocks[axis]}
            interval = self.rules.window == "interval" and len(form.terms) == 2 and values
            sides.append(list(range(min(values), max(values) + 1)) if interval else sorted(values))
        return frozenset(product(*sides))

    def _transfer(self, operand: Operand, parent: int, child: int) -> None:
        keys = [(level, axis) for level in range(child) for axis in self.mapping.levels[level].spatial]
        sizes = [self.mapping.levels[level].spatial[axis][1] for level, axis in keys]
        held: dict[Any, frozenset[Any]] = {}
        at: dict[Any, Any] = {}
        seen: dict[Any, set[Any]] = {}
        relevant = operand.axes
        innermost = self._innermost(child)
        last: Digits = {}
        for digits in self._walk(child):
            groups: dict[Any, dict[Any, int]] = {}
            wanted: dict[Any, frozenset[Any]] = {}
            place: dict[Any, Any] = {}
            for coordinates in product(*(range(size) for size in sizes)):
                lane = dict(zip(keys, coordinates, strict=True))
                blocks = {axis: self._block(child, digits, lane, axis) for axis in self.nest.axes}
                group = tuple(i for (_, axis), i in lane.items() if axis in relevant)
                if group not in wanted:
                    wanted[group] = self._elements(operand, blocks)
                    place[group] = [blocks[axis] for axis in relevant]
                if all(len(block) for block in blocks.values()):
                    one = tuple(i for (level, axis), i in lane.items() if axis in relevant or level < parent)
                    members = groups.setdefault(group, {})
                    members[one] = members.get(one, 0) + 1
            slid = self._slid(last, digits, innermost)
            for group, tile in wanted.items():
                before = held.get(group, frozenset())
                if child == self.levels and not self._latched(operand):
                    before = frozenset()
                new = tile - before
                if place[group] != at.get(group) and not slid:
                    new = tile
                held[group], at[group] = tile, place[group]
                members = groups.get(group, {})
                self._count(
                    operand, parent, child, len(new), len(new - seen.setdefault(group, set())), members
                )
                seen[group] |= tile
            last = digits
        if operand.writes:
            self._revisit(operand, parent, child)

    def _latched(self, operand: Operand) -> bool:
        return self.rules.latched == "all" or (self.rules.latched == "inputs" and not operand.writes)

    def _innermost(self, child: int) -> tuple[int, str] | None:
        loops = [(level, axis) for level in range(child)
                 for axis, count in self.mapping.levels[level].temporal if count > 1]  # fmt: skip
        return loops[-1] if loops else None

    def _slid(self, last: Digits, digits: Digits, innermost: tuple[int, str] | None) -> bool:
        """Whether what the tile before shares with this one is still there."""
        if self.rules.halo != "innermost":
            return self.rules.halo == "kept"
        moved = [key for key in digits if last and digits[key] != last[key]]
        return moved == [innermost]

    def _count(
        self, operand: Operand, parent: int, child: int, new: int, fresh: int, members: dict[Any, int]
    ) -> None:
        lanes, alone, name = sum(members.values()), len(members), operand.name
        if not operand.writes:
            self.words["to_inner", parent, name] += new * alone
            self.words["from_outer", child, name] += new * lanes
            return
        self.words["from_inner", parent, name] += new * alone
        self.words["to_outer", child, name] += new * lanes * self.rules.drained
        again = new if self.rules.first_read == "counted" else new - fresh
        self.words["to_inner", parent, name] += again * alone
        self.words["from_outer", child, name] += again * (lanes if self.rules.refill == "all" else alone)
        self.words["every", child, name] += new * (lanes if self.rules.refill == "all" else alone)

    def _revisit(self, operand: Operand, parent: int, child: int) -> None:
        name = operand.name
        if self.rules.first_read == "revisited":
            if self.words["to_inner", parent, name]:
                self.words["to_inner", parent, name] = self.words["from_inner", parent, name]
            if self.words["from_outer", child, name]:
                self.words["from_outer", child, name] = self.words["every", child, name]
