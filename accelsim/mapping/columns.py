"""Many mappings of one nest as columns of whole numbers: one row a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.errors import Problem, UsageError
from accelsim.mapping.levels import Hierarchy, LevelMap, Mapping
from accelsim.types import Ints
from accelsim.workload.nest import LoopNest


@dataclass(frozen=True)
class Frame:
    """What the rows have in common: names of the levels, axes, operands and engine dimensions, in column order."""

    levels: tuple[str, ...]
    axes: tuple[str, ...]
    operands: tuple[str, ...]
    dimensions: tuple[str, ...]

    @classmethod
    def of(cls, nest: LoopNest, hierarchy: Hierarchy) -> Frame:
        """The frame of a nest on an engine."""
        names = tuple(operand.name for operand in nest.operands)
        return cls(
            tuple(store.name for store in hierarchy.stores), tuple(nest.axes), names, hierarchy.dimensions
        )


@dataclass(frozen=True)
class Mappings:
    """Candidates as columns; N rows, L levels (outermost first), A axes, O operands of ``frame``.

    ``order`` [N, L, A] int8: axis of each loop of a level, outermost first, all axes once. ``temporal`` [N, L, A]:
    iterations by axis. ``spatial`` [N, L, A]: lanes by axis. ``dimension`` [N, L, A] int8: engine dimension of the
    lanes, -1 where there is one lane. ``slots`` [N, L, O]: tiles in flight, 0 where the operand goes past the level.
    """

    frame: Frame
    order: NDArray[np.int8]
    temporal: Ints
    spatial: Ints
    dimension: NDArray[np.int8]
    slots: Ints

    def __len__(self) -> int:
        return len(self.order)

    def rows(self, chosen: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Mappings:
        """Some of the rows."""
        return Mappings(
            self.frame, self.order[chosen], self.temporal[chosen], self.spatial[chosen],
            self.dimension[chosen], self.slots[chosen],
        )  # fmt: skip

    def positions(self) -> NDArray[np.int8]:
        """Place of each axis among the loops of its level, [N, L, A]: the inverse of ``order``."""
        place = np.empty_like(self.order)
        steps = np.broadcast_to(np.arange(self.order.shape[2], dtype=np.int8), self.order.shape)
        np.put_along_axis(place, self.order.astype(np.intp), steps, axis=2)
        return place

    def inside(self) -> Ints:
        """Extent of each axis within a tile of each level, not cut at the axis, [N, L + 1, A]; last the units."""
        factors = (self.temporal * self.spatial)[:, ::-1]
        tiles = np.cumprod(factors, axis=1)[:, ::-1]
        return np.concatenate([tiles, np.ones_like(tiles[:, :1])], axis=1)

    def mapping(self, row: int) -> Mapping:
        """One row as a ``Mapping``, without loops of one iteration."""
        return Mapping(tuple(self._level(row, level) for level in range(len(self.frame.levels))))

    def _level(self, row: int, level: int) -> LevelMap:
        frame = self.frame
        temporal, spatial = self.temporal[row, level].tolist(), self.spatial[row, level].tolist()
        names, slots = frame.dimensions, self.slots[row, level].tolist()
        lanes = {
            axis: (names[place], count)
            for axis, place, count in zip(
                frame.axes, self.dimension[row, level].tolist(), spatial, strict=True
            )
            if count > 1
        }
        loops = tuple(
            (frame.axes[axis], temporal[axis])
            for axis in self.order[row, level].tolist()
            if temporal[axis] > 1
        )
        keep = {name: count for name, count in zip(frame.operands, slots, strict=True) if count}
        return LevelMap(frame.levels[level], loops, lanes, keep)

    @classmethod
    def of(cls, frame: Frame, mappings: Sequence[Mapping]) -> Mappings:
        """Mappings as columns. Raises UsageError where one has other levels, axes, operands or dimensions."""
        N, L, A = len(mappings), len(frame.levels), len(frame.axes)
        columns = cls(
            frame,
            np.broadcast_to(np.arange(A, dtype=np.int8), (N, L, A)).copy(),
            np.ones((N, L, A), np.int64),
            np.ones((N, L, A), np.int64),
            np.full((N, L, A), -1, np.int8),
            np.zeros((N, L, len(frame.operands)), np.int64),
        )
        for row, mapping in enumerate(mappings):
            if tuple(part.level for part in mapping.levels) != frame.levels:
                given = " ".join(part.level for part in mapping.levels)
                raise UsageError(Problem(f"levels {given}", expected=" ".join(frame.levels)))
            for level, part in enumerate(mapping.levels):
                columns._write(row, level, part)
        return columns

    def _write(self, row: int, level: int, part: LevelMap) -> None:
        frame = self.frame
        axes, names = list(frame.axes), list(frame.operands)
        loops = [axis for axis, _ in part.temporal]
        unknown = [*(name for name in (*loops, *part.spatial) if name not in axes),
                   *(name for name in part.keep if name not in names),
                   *(name for name, _ in part.spatial.values() if name not in frame.dimensions)]  # fmt: skip
        if unknown or len(set(loops)) < len(loops):
            what = (
                f"{part.level} names {', '.join(unknown)}"
                if unknown
                else f"{part.level} has two loops of an axis"
            )
            raise UsageError(
                Problem(what, expected="axes, operands and dimensions of the nest and the engine, once")
            )
        for axis, count in part.temporal:
            self.temporal[row, level, axes.index(axis)] = count
        self.order[row, level] = [axes.index(axis) for axis in (*loops, *(a for a in axes if a not in loops))]
        for axis, (dimension, lanes) in part.spatial.items():
            self.spatial[row, level, axes.index(axis)] = lanes
            if lanes > 1:
                self.dimension[row, level, axes.index(axis)] = frame.dimensions.index(dimension)
        for name, slots in part.keep.items():
            self.slots[row, level, names.index(name)] = slots
