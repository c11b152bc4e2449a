"""Closed forms of a mapping, vectorised over thousands of candidates: a lower bound of what the machine will take.

Each candidate is bounded by several paths, of which the longest is the estimate: the array with all its folds, every
port with all its bytes, the vector unit with all its results, the slots of a buffer with the latency of its memory.
Law: estimate <= machine for one step alone, and equal where one path dominates throughout, as when there is one tile.
All times are clocks of the array (float64, exact below 2^53). A unit that acquires what was released at t works from
the edge that is ``token`` later on, so that it is done ``token - 1 + n`` of its clocks after t.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from accelsim.engines.simd.spec import VectorUnit
from accelsim.engines.systolic.mapping.folds import ArrayClocks, FoldClocks
from accelsim.engines.systolic.mapping.ports import Ports
from accelsim.engines.systolic.mapping.shape import Bounds, Homes, Shape, Side
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


class _Load(NamedTuple):
    """All loads of one kind. ``slots``: tiles in flight, None where each has a place of its own."""

    kind: str  # 'parameters', 'a', 'b', 'side'
    memory: str
    all_B: Floats
    first_B: Floats
    requests: Floats
    slots: Ints | int | None = None


class _Step(NamedTuple):
    """Terms of the paths of one step. ``start``: clocks until the first row can stream; ``tail``: from the last
    sum to the end; ``out``: bytes to each memory; ``leave``: from the last result to the end."""

    array: ArrayClocks
    loads: list[_Load]
    out: dict[str, Moved]
    start: Floats
    vector_all: Floats
    leave: Floats
    tail: Floats
    results: Floats  # tiles


class Estimator:
    """Closed forms for one core; ``vector``: spec of the unit that results pass, None where there is none; ``sharing``:
    cores that use the memories at the same time."""

    def __init__(self, roles: Roles, vector: VectorUnit | None, sharing: int = 1) -> None:
        self._roles, self._unit = roles, roles.matrix
        self._clock = float(self._unit.clock or roles.chip.clock)
        self._vector_unit = vector
        self._vector_clock = self._clock / float((vector.clock if vector else None) or roles.chip.clock)
        self._ports = Ports(roles, self._clock, sharing)
        self._folds = FoldClocks(self._unit)
        self._to_array = self._ports.token - 1.0
        self._to_vector = self._ports.token - self._vector_clock
        self._stationary = self._unit.flow.still

    def bounds(self, shape: Shape, c: Candidates, homes: Homes) -> Bounds:
        """Clocks of each path that bounds a candidate from below, of all candidates."""
        step = self._step(shape, c, homes)
        paths, busy = self._work_paths(step)
        for memory in dict.fromkeys((*(load.memory for load in step.loads), *step.out)):
            found, occupied = self._port_paths(step, memory, homes.path_name(memory))
            paths |= found
            busy.append(occupied)
        for name, before, rounds in self._round_trips(step, shape, c):
            paths[name] = np.maximum(paths.get(name, 0.0), before + rounds)
        moved = sum((load.all_B for load in step.loads), 0 * step.start)
        homes_of_all = {homes.a, homes.b, homes.y, self._roles.weights_home, *(side.memory for side in shape.sides)}
        held = sum(busy, 0 * step.start) / (2 + len(homes_of_all))
        handed = self._ports.token * self._products(shape.gemm, c)
        return Bounds(paths, held + handed, moved + sum(out.size_B for out in step.out.values()))

    def least(self, shape: Shape, c: Candidates) -> Floats:
        """Lower bound of the estimate that is quick to compute: the array with all its folds, in clocks."""
        return self._folds.last(shape, c).total

    def _step(self, shape: Shape, c: Candidates, homes: Homes) -> _Step:
        array, loads = self._folds.all(shape, c), self._loads(shape, c, homes)
        none: Floats = np.zeros(len(c))
        vector_all, vector_last = self._vector(shape, c)
        out, leave = {}, none
        if not c.y_resident:
            size_B = none + shape.gemm.groups * shape.gemm.M * shape.gemm.N * shape.results_share * shape.y_B
            out = {homes.y: Moved(size_B, self._result_tiles(shape.gemm, c))}
            last_B = _floats(self._last_tile(shape.gemm, c) * shape.results_share * shape.y_B)
            leave = self._ports.token + self._ports.latency(homes.y) + self._ports.transfer(homes.y, last_B)
        through = self._to_vector + vector_last if self._unit.epilogue else none
        start = self._start(array, loads)
        tiles = self._result_tiles(shape.gemm, c)
        return _Step(array, loads, out, start, vector_all, leave, through + leave, tiles)

    def _loads(self, shape: Shape, c: Candidates, homes: Homes) -> list[_Load]:
        """Loads in the order in which the first of each kind is issued."""
        none, loads, gemm = np.zeros(len(c)), [], shape.gemm
        if shape.parameters_B:
            size_B = none + shape.parameters_B
            loads.append(_Load("parameters", self._roles.weights_home, size_B, size_B, none + 1))
        loads += [self._streamed_b(shape, c, homes)] if shape.b_streamed else []
        if not c.a_resident:
            loads.append(self._streamed_a(shape, c, homes))
        elif homes.a_to_load:
            size_B = none + whole_a(gemm) * shape.a_B
            loads.append(_Load("a", homes.a, size_B, size_B, none + 1))
        return loads + [self._streamed_side(side, gemm, c) for side in shape.sides]

    def _streamed_side(self, side: Side, gemm: Gemm, c: Candidates) -> _Load:
        """A side operand: under each tile of sums one of its own, in two slots. One that broadcasts may be smaller."""
        tiles, sums = self._result_tiles(gemm, c), gemm.groups * gemm.M * gemm.N
        all_B = np.minimum(sums * side.element_B, tiles * side.size_B)
        one_B = np.minimum(self._last_tile(gemm, c) * side.element_B, side.size_B)
        return _Load("side", side.memory, _floats(all_B), _floats(one_B), tiles, 2)

    def _streamed_a(self, shape: Shape, c: Candidates, homes: Homes) -> _Load:
        gemm = shape.gemm
        passes, visits = fetches(gemm, c, shape.reuse)[0], np.where(c.a_whole_k, 1, count(gemm.K, c.tk))
        all_B, first_B = passes * a_words(gemm, c)[0] * shape.a_B, first_a(gemm, c) * shape.a_B
        requests = passes * count(gemm.groups, c.tg) * count(gemm.M, c.tm) * visits
        sizes = _floats(all_B), _floats(first_B), _floats(requests)
        return _Load("a", homes.a, *sizes, self._in_flight(shape, c)[0])

    def _streamed_b(self, shape: Shape, c: Candidates, homes: Homes) -> _Load:
        gemm, unit, passes = shape.gemm, self._unit, fetches(shape.gemm, c, shape.reuse)[1]
        columns = over_tiles(gemm.N, c.tn, lambda tn: b_extent(unit, tn, 1)[0])
        groups = over_tiles(gemm.groups, c.tg, lambda tg: b_elements(unit, tg, c.tn, c.tk)) // b_elements(
            unit, 1, c.tn, c.tk
        )
        words = groups * columns * over_tiles(gemm.K, c.tk, lambda tk: b_extent(unit, 1, tk)[1])
        requests = passes * count(gemm.groups, c.tg) * count(gemm.N, c.tn) * count(gemm.K, c.tk)
        all_B, first_B = passes * words * shape.b_B, b_elements(unit, c.tg, c.tn, c.tk) * shape.b_B
        sizes = _floats(all_B), _floats(first_B), _floats(requests)
        return _Load("b", homes.b, *sizes, self._in_flight(shape, c)[1])

    def _in_flight(self, shape: Shape, c: Candidates) -> tuple[Ints, int]:
        """Slots for tiles of A and of B: those of each array where arrays have their own, and no fixed slots."""
        roles, (own_a, own_b) = self._roles, c.own
        each_a = c.arrays if own_a and roles.fixed_slots(roles.activations) is None else 1
        each_b = c.arrays if own_b and roles.fixed_slots(roles.weights) is None else 1
        return each_a * c.a_slots, each_b * shape.w_slots

    def _start(self, array: ArrayClocks, loads: list[_Load]) -> Floats:
        """Clocks until the first row can stream: its operands are there, the stationary one is shifted in."""
        there = {"a": 0 * array.alone, "b": 0 * array.alone}
        first = [load for load in loads if load.kind != "side"]
        arrivals = self._ports.arrivals([(load.memory, load.first_B) for load in first])
        for load, arrival in zip(first, arrivals, strict=True):
            if load.kind in there:
                there[load.kind] = np.maximum(0.0, arrival + self._to_array)
        shifted = there.pop(self._stationary, 0 * array.alone) + array.shift
        start: Floats = np.maximum.reduce([shifted, *there.values()])
        return start

    def _work_paths(self, step: _Step) -> tuple[dict[str, Floats], list[Floats]]:
        """The array with all its folds, the vector unit with all its results; and how long each is busy."""
        array = step.array
        paths = {"compute": step.start + array.total + step.tail}
        if self._unit.epilogue:
            paths["vector unit"] = step.start + array.tile + self._to_vector + step.vector_all + step.leave
        return paths, [array.total - array.alone, step.vector_all]

    def _port_paths(self, step: _Step, memory: str, name: str) -> tuple[dict[str, Floats], Floats]:
        """All bytes of a memory through its port, what comes in and what goes out; and how long the port is busy."""
        ports, none = self._ports, 0 * step.start
        mine = [load._replace(all_B=ports.whole_B(memory, load.all_B)) for load in step.loads if load.memory == memory]
        inbound, outbound = _together(mine, none), step.out.get(memory, Moved(none, none))
        paths = {}
        if any(load.kind != "parameters" for load in mine):
            paths[name] = ports.all_through(memory, *inbound) + step.tail
        if any(load.kind in ("a", "b") for load in mine):
            needed = _together([load for load in mine if load.kind != "side"], none)
            then = self._to_array + self._last_shift(step, mine) + step.array.tile + step.tail
            paths[name] = np.maximum(paths[name], ports.all_through(memory, *needed) + then)
        if not ports.full_duplex(memory):
            both = Moved(inbound.size_B + outbound.size_B, inbound.requests + outbound.requests)
            paths |= {f"results to {memory}": ports.all_through(memory, *both)} if memory in step.out else {}
            return paths, ports.busy(memory, *both)
        if memory in step.out:
            first = step.start + step.array.tile + ports.token + (self._to_vector if self._unit.epilogue else 0.0)
            paths[f"results to {memory}"] = first + ports.through(memory, *outbound)
        return paths, np.maximum(ports.busy(memory, *inbound), ports.busy(memory, *outbound))

    def _last_shift(self, step: _Step, mine: list[_Load]) -> Floats | float:
        """The shift behind the last operand tile of a port, where that is certainly a stationary one."""
        stationary = [load for load in mine if load.kind == self._stationary]
        moving = [load for load in mine if load.kind in ("a", "b") and load.kind != self._stationary]
        if not stationary or any(load.kind == "b" or load.slots is not None for load in moving):
            return 0.0
        behind = 1 if moving else 0  # a whole operand comes behind the first stationary tile
        return np.where(stationary[0].requests > behind, step.array.shift, 0.0)

    def _round_trips(self, step: _Step, shape: Shape, c: Candidates) -> list[tuple[str, Floats, Floats]]:
        """(path, clocks before and behind, clocks of all rounds) of what waits for slots: each is held from the request
        of a tile, or the first row that adds to it, to its last use; one of n for an nth of all that time or more.
        """
        ports, found = self._ports, []
        for load in step.loads:
            if load.slots is not None:
                used, behind = self._used(load, step, shape, c)
                cycle = load.requests * (ports.latency(load.memory) + ports.token)
                cycle = cycle + ports.clocks(load.memory, load.all_B) + used
                ending = ports.chip - ports.token + behind
                found.append((f"latency of {load.memory}", ending, cycle / load.slots))
        if self._unit.epilogue:
            found.append(self._sum_slots(step, shape, c))
        for memory, out in step.out.items():
            cycle = out.requests * (ports.token + ports.latency(memory)) + ports.clocks(memory, out.size_B)
            if self._unit.epilogue:
                before, slots = step.start + step.array.tile, 2
                cycle = cycle + step.vector_all + out.requests * self._to_vector
            else:
                before, slots = step.start - self._to_array, shape.sum_slots
                cycle = cycle + step.array.held_sums + out.requests * self._to_array
            found.append((f"latency of results to {memory}", before, cycle / slots))
        return found

    def _used(self, load: _Load, step: _Step, shape: Shape, c: Candidates) -> tuple[Floats, Floats]:
        """Clocks from the arrival of each tile to its last use, of all tiles together; and from there to the end."""
        array = step.array
        if load.kind == "side":
            used = self._result_tiles(shape.gemm, c) * self._to_vector + step.vector_all
            return used, step.leave
        own = c.own[load.kind == "b"]
        together = 1 if own else lanes(shape.gemm, c)  # arrays that use one tile at a time
        if load.kind != self._stationary:
            used = array.held_moving / together + load.requests * self._to_array
            return used, array.alone - array.rows + step.tail
        more = np.maximum(0.0, array.steps / together - load.requests * (array.step + array.slack))
        return more + load.requests * (array.shift + self._to_array), array.alone + step.tail

    def _sum_slots(self, step: _Step, shape: Shape, c: Candidates) -> tuple[str, Floats, Floats]:
        """Accumulators, as in ``_round_trips``: each is held from its first row until the vector unit has taken it."""
        working = lanes(shape.gemm, c) if c.split == "k" else 1
        slots = 2 if c.y_slots is None else c.y_slots
        taken = step.results * (self._to_vector + self._to_array) + step.vector_all
        held = step.array.held_sums + working * taken
        return "accumulators", step.start - self._to_array + step.leave, held / slots

    def _products(self, gemm: Gemm, c: Candidates) -> Floats:
        return self._result_tiles(gemm, c) * count(gemm.K, c.tk)

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
        return whole * self._vector_clock, (none + clocks(self._last_tile(gemm, c))) * self._vector_clock

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
        ratio = self._ports.chip / self._vector_clock
        widths = (
            (partial * shape.sum_B, roles.buffer(roles.sums).read_width),
            (shape.y_B * shape.results_share, roles.buffer(roles.activations).write_width),
        )

        def clocks(sums: Ints) -> Floats:
            moved = [np.ceil(np.ceil(np.floor(sums * size_B) / width) * ratio) for size_B, width in widths]
            each: Floats = np.maximum.reduce([1 + 0 * sums, -(-sums // vector.lanes) * pace, *moved])
            return vector.latency + each

        return clocks


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, np.float64)


def _tiles_of(extent: int, tile: Ints) -> list[tuple[Ints | int, Ints]]:
    return [(count(extent, tile) - 1, tile), (1, last(extent, tile))]


def _together(loads: list[_Load], none: Floats) -> Moved:
    return Moved(sum((load.all_B for load in loads), none), sum((load.requests for load in loads), none))
