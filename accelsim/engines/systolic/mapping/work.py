"""Work of candidates at any rates of memories: clocks of the array and of the vector unit, bytes to move."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accelsim.engines.simd.spec import VectorUnit
from accelsim.engines.systolic.mapping.folds import ArrayClocks, FoldClocks
from accelsim.engines.systolic.mapping.shape import Homes, Shape, Side
from accelsim.engines.systolic.mapping.tilings import (
    Candidates,
    a_words,
    count,
    fetches,
    first_a,
    lanes,
    last,
    over_tiles,
    whole_a,
)
from accelsim.engines.systolic.pace import b_elements, b_extent
from accelsim.program.roles import Roles
from accelsim.types import Floats, Ints
from accelsim.workload.ops.base import Gemm


class Moved(NamedTuple):
    """Bytes that pass a port, and the number of requests that they are cut into."""

    size_B: Floats
    requests: Floats


class Load(NamedTuple):
    """All loads of one kind. ``slots``: tiles in flight, None where each has a place of its own."""

    kind: str  # 'parameters', 'a', 'b', 'side'
    memory: str
    all_B: Floats
    first_B: Floats
    requests: Floats
    slots: Ints | int | None = None


class Work(NamedTuple):
    """Work of candidates of one step, at any rates of memories: the array, ``loads`` in the order in which the
    first of each kind is issued, bytes to each memory (``out``) and of the last result tile, clocks of all results and
    of the last tile in the vector unit, tiles of ``results``, ``parts`` of each sum along K, ``lanes`` that work."""

    array: ArrayClocks
    loads: list[Load]
    out: dict[str, Moved]
    last_B: Floats
    vector_all: Floats
    vector_last: Floats
    results: Floats
    parts: Ints
    lanes: Ints

    @property
    def memories(self) -> dict[str, None]:
        """Return the memories that data come from or go to."""
        return dict.fromkeys((*(load.memory for load in self.loads), *self.out))

    @property
    def offchip_B(self) -> Floats:
        """Return the bytes that leave or enter the chip."""
        moved = sum((load.all_B for load in self.loads), 0 * self.last_B)
        return moved + sum(out.size_B for out in self.out.values())

    def keep(self, rows: NDArray[np.bool_] | Ints) -> Work:
        """Select candidates by a mask or by indices."""
        kept: Work = _rows(self, rows)
        return kept


class Workings:
    """Work of candidates on one core; ``vector``: spec of the unit that results pass, None where there is none, and
    ``vector_clock``: one of its clocks, in clocks of the array."""

    def __init__(self, roles: Roles, vector: VectorUnit | None) -> None:
        self._roles, self._unit, self._vector_unit = roles, roles.matrix, vector
        clock = float(self._unit.clock or roles.chip.clock)
        self.vector_clock = clock / float((vector.clock if vector else None) or roles.chip.clock)
        self._chip_clock = clock / float(roles.chip.clock)
        self._folds = FoldClocks(self._unit)

    def work(self, shape: Shape, c: Candidates, homes: Homes) -> Work:
        """Return the work of candidates, which depends on no rate of a memory and on no accumulator slots."""
        gemm, none, out = shape.gemm, np.zeros(len(c)), {}
        tiles = self._result_tiles(gemm, c)
        if not c.y_resident:
            out = {homes.y: Moved(none + gemm.groups * gemm.M * gemm.N * shape.results_share * shape.y_B, tiles)}
        last_B = _floats(self._last_tile(gemm, c) * shape.results_share * shape.y_B)
        array, loads, vector = self._folds.all(shape, c), self._loads(shape, c, homes), self._vector(shape, c)
        return Work(array, loads, out, last_B, *vector, tiles, count(gemm.K, c.tk), lanes(gemm, c))

    def array(self, shape: Shape, c: Candidates) -> Floats:
        """Clocks of the array with all its folds: quick to compute, and never more than the estimate."""
        return self._folds.last(shape, c)

    def _loads(self, shape: Shape, c: Candidates, homes: Homes) -> list[Load]:
        """Loads in the order in which the first of each kind is issued."""
        none, loads, gemm = np.zeros(len(c)), [], shape.gemm
        if shape.parameters_B:
            size_B = none + shape.parameters_B
            loads.append(Load("parameters", self._roles.weights_home, size_B, size_B, none + 1))
        loads += [self._streamed_b(shape, c, homes)] if shape.b_streamed else []
        if not c.a_resident:
            loads.append(self._streamed_a(shape, c, homes))
        elif homes.a_to_load:
            size_B = none + whole_a(gemm) * shape.a_B
            loads.append(Load("a", homes.a, size_B, size_B, none + 1))
        return loads + [self._streamed_side(side, gemm, c) for side in shape.sides]

    def _streamed_side(self, side: Side, gemm: Gemm, c: Candidates) -> Load:
        """A side operand: under each tile of sums one of its own, in two slots. One that broadcasts may be smaller."""
        tiles, sums = self._result_tiles(gemm, c), gemm.groups * gemm.M * gemm.N
        all_B = np.minimum(sums * side.element_B, tiles * side.size_B)
        one_B = np.minimum(self._last_tile(gemm, c) * side.element_B, side.size_B)
        return Load("side", side.memory, _floats(all_B), _floats(one_B), tiles, 2)

    def _streamed_a(self, shape: Shape, c: Candidates, homes: Homes) -> Load:
        gemm = shape.gemm
        passes, visits = fetches(gemm, c, shape.reuse)[0], np.where(c.a_whole_k, 1, count(gemm.K, c.tk))
        all_B, first_B = passes * a_words(gemm, c)[0] * shape.a_B, first_a(gemm, c) * shape.a_B
        requests = passes * count(gemm.groups, c.tg) * count(gemm.M, c.tm) * visits
        sizes = _floats(all_B), _floats(first_B), _floats(requests)
        return Load("a", homes.a, *sizes, self._in_flight(shape, c)[0])

    def _streamed_b(self, shape: Shape, c: Candidates, homes: Homes) -> Load:
        gemm, unit, passes = shape.gemm, self._unit, fetches(shape.gemm, c, shape.reuse)[1]
        columns = over_tiles(gemm.N, c.tn, lambda tn: b_extent(unit, tn, 1)[0])
        groups = over_tiles(gemm.groups, c.tg, lambda tg: b_elements(unit, tg, c.tn, c.tk)) // b_elements(
            unit, 1, c.tn, c.tk
        )
        words = groups * columns * over_tiles(gemm.K, c.tk, lambda tk: b_extent(unit, 1, tk)[1])
        requests = passes * count(gemm.groups, c.tg) * count(gemm.N, c.tn) * count(gemm.K, c.tk)
        all_B, first_B = passes * words * shape.b_B, b_elements(unit, c.tg, c.tn, c.tk) * shape.b_B
        sizes = _floats(all_B), _floats(first_B), _floats(requests)
        return Load("b", homes.b, *sizes, self._in_flight(shape, c)[1])

    def _in_flight(self, shape: Shape, c: Candidates) -> tuple[Ints, int]:
        """Slots for tiles of A and of B: those of each array where arrays have their own, and no fixed slots."""
        roles, (own_a, own_b) = self._roles, c.own
        each_a = c.arrays if own_a and roles.fixed_slots(roles.activations) is None else 1
        each_b = c.arrays if own_b and roles.fixed_slots(roles.weights) is None else 1
        return each_a * c.a_slots, each_b * shape.w_slots

    def _result_tiles(self, gemm: Gemm, c: Candidates) -> Floats:
        return _floats(count(gemm.groups, c.tg) * count(gemm.M, c.tm) * count(gemm.N, c.tn))

    def _last_tile(self, gemm: Gemm, c: Candidates) -> Ints:
        sums: Ints = last(gemm.groups, c.tg) * last(gemm.M, c.tm) * last(gemm.N, c.tn)
        return sums

    def _vector(self, shape: Shape, c: Candidates) -> tuple[Floats, Floats]:
        """Clocks of all results and of the last tile in the vector unit (none where results bypass it)."""
        none = np.zeros(len(c))
        if self._vector_unit is None or not self._unit.epilogue:
            return none, none
        gemm, partial = shape.gemm, lanes(shape.gemm, c) if c.split == "k" else 1
        clocks = self._vector_clocks(shape, partial)
        axes = [_tiles_of(gemm.groups, c.tg), _tiles_of(gemm.M, c.tm), _tiles_of(gemm.N, c.tn)]
        whole = sum((n1 * n2 * n3 * clocks(t1 * t2 * t3) for (n1, t1), (n2, t2), (n3, t3) in product(*axes)), none)
        return whole * self.vector_clock, (none + clocks(self._last_tile(gemm, c))) * self.vector_clock

    def _vector_clocks(self, shape: Shape, partial: Ints | int) -> Callable[[Ints], Floats]:
        """Clocks of the vector unit for a tile of so many sums, as ``VectorUnit.command_clocks`` has them.

        ``partial``: parts that each sum comes in.
        """
        roles, vector = self._roles, self._vector_unit
        assert vector is not None
        if vector.chained:
            pace = np.maximum(max(shape.functions, default=0), shape.adding * np.minimum(partial - 1, 1))
        else:
            pace = sum(shape.functions) + shape.adding * (partial - 1)
        ratio = self._chip_clock / self.vector_clock
        widths = (
            (partial * shape.sum_B, roles.buffer(roles.sums).read_width),
            (shape.y_B * shape.results_share, roles.buffer(roles.activations).write_width),
        )

        def clocks(sums: Ints) -> Floats:
            moved = [np.ceil(np.ceil(np.floor(sums * size_B) / width) * ratio) for size_B, width in widths]
            each: Floats = np.maximum.reduce(
                [max(1, vector.min_interval) + 0 * sums, -(-sums // vector.lanes) * pace, *moved]
            )
            return vector.latency + each

        return clocks


def _rows(terms: Any, rows: NDArray[np.bool_] | Ints) -> Any:
    """Select rows of all columns in terms."""
    if isinstance(terms, np.ndarray):
        return terms[rows]
    if isinstance(terms, dict):
        return {name: _rows(each, rows) for name, each in terms.items()}
    if isinstance(terms, list):
        return [_rows(each, rows) for each in terms]
    return type(terms)(*(_rows(each, rows) for each in terms)) if isinstance(terms, tuple) else terms


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, np.float64)


def _tiles_of(extent: int, tile: Ints) -> list[tuple[Ints | int, Ints]]:
    """Return how many tiles of each extent there are along a dimension, with that extent."""
    return [(count(extent, tile) - 1, tile), (1, last(extent, tile))] if extent > 1 else [(1, tile)]
