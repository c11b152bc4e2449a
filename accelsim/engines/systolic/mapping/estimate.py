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
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.simd.spec import VectorUnit
from accelsim.engines.systolic.mapping.ports import Ports
from accelsim.engines.systolic.mapping.shape import Bounds, Homes, Shape
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
from accelsim.engines.systolic.pace import Pace, clocks
from accelsim.engines.systolic.timing import FoldTiming, fold_timing
from accelsim.program.roles import Roles
from accelsim.program.tiles import b_elements, b_extent, depends, kept, packs
from accelsim.types import Floats, Ints
from accelsim.workload.ops.base import Gemm


class Moved(NamedTuple):
    """Bytes through a port, cut into so many requests."""

    size_B: Floats
    requests: Floats


class _Load(NamedTuple):
    """All loads of one kind. ``slots``: tiles in flight, 0 where each has a place of its own; ``last_B``: of the
    smallest tile (or a lower bound of it)."""

    kind: str  # 'parameters', 'a', 'b', 'side'
    memory: str
    all_B: Floats
    first_B: Floats
    last_B: Floats
    requests: Floats
    slots: int = 0


class _Array(NamedTuple):
    """Clocks of the array alone, from its first streamed row to the last sum: of all folds; were only streamed rows to
    count; of the last tile (the smallest) and of its last fold. ``rows``: streamed by that fold. ``shift``: stationary
    rows before a fold; ``reads``: how long the last tile reads its moving and its stationary operand."""

    total: Floats
    streaming: Floats
    tile: Floats
    alone: Floats
    rows: Floats
    shift: Floats
    reads_moving: Floats
    reads_stationary: Floats


class _Step(NamedTuple):
    """What the paths of one step are made of. ``start``: clocks until the first row can stream; ``tail``: from the last
    sum to the end; ``out``: bytes to each memory; ``leave``: from the last result to the end."""

    array: _Array
    loads: list[_Load]
    out: dict[str, Moved]
    start: Floats
    vector_all: Floats
    vector_last: Floats
    leave: Floats
    tail: Floats
    last_out_B: Floats
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
        self._to_array = self._ports.token - 1.0
        self._to_vector = self._ports.token - self._vector_clock
        self._stationary = {"ws": "b", "is": "a", "os": ""}[self._unit.dataflow]

    def bounds(self, shape: Shape, c: Candidates, homes: Homes) -> Bounds:
        """All paths of all candidates."""
        step = self._step(shape, c, homes)
        paths, busy = self._work_paths(step, c, shape.gemm)
        for memory in dict.fromkeys((*(load.memory for load in step.loads), *step.out)):
            found, occupied = self._port_paths(step, memory, homes.path_name(memory))
            paths |= found
            busy.append(occupied)
        for name, before, rounds in self._round_trips(step, shape, c):
            paths[name] = np.maximum(paths.get(name, 0.0), before + rounds)
            busy.append(rounds)
        moved = sum((load.all_B for load in step.loads), 0 * step.start)
        return Bounds(paths, np.maximum.reduce(busy), moved + sum(out.size_B for out in step.out.values()))

    def _step(self, shape: Shape, c: Candidates, homes: Homes) -> _Step:
        array, loads = self._array(shape, c), self._loads(shape, c, homes)
        none: Floats = np.zeros(len(c))
        vector_all, vector_last = self._vector(shape, c)
        out, last_B, leave = {}, none, none
        if not c.y_resident:
            size_B = none + shape.gemm.groups * shape.gemm.M * shape.gemm.N * shape.results_share * shape.y_B
            out = {homes.y: Moved(size_B, self._result_tiles(shape.gemm, c))}
            last_B = _floats(self._last_tile(shape.gemm, c) * shape.results_share * shape.y_B)
            leave = self._ports.token + self._ports.latency(homes.y) + self._ports.transfer(homes.y, last_B)
        through = self._to_vector + vector_last if self._unit.epilogue else none
        start = self._start(array, loads)
        tiles = self._result_tiles(shape.gemm, c)
        return _Step(array, loads, out, start, vector_all, vector_last, leave, through + leave, last_B, tiles)

    def _timing(self, rows: Ints, pace: Pace) -> FoldTiming[Ints]:
        unit = self._unit
        return fold_timing(
            np.asarray(unit.rows), np.asarray(unit.cols), unit.dataflow, unit.schedule, unit.shadow_load,
            clocks(rows, pace), unit.load_rows_per_clock, unit.min_interval * max(1, int(pace)),
        )  # fmt: skip

    def _array(self, shape: Shape, c: Candidates) -> _Array:
        """Of the array that does the last tile; the first of several may have one more, and all of them large."""
        end = self._array_times(shape, c, last_array)
        if c.arrays == 1:
            return end
        first = self._array_times(shape, c, first_array)
        return end._replace(
            total=np.maximum(end.total, first.total), streaming=np.maximum(end.streaming, first.streaming)
        )

    def _array_times(self, shape: Shape, c: Candidates, work_of: WorkOf) -> _Array:
        gemm, unit, pace = shape.gemm, self._unit, shape.pace(c.arrays)
        dims = {"ws": ("k", "n", "m"), "os": ("m", "n", "k"), "is": ("k", "m", "n")}[unit.dataflow]
        depth = (
            kept(shape.sparse, gemm.K),
            kept(shape.sparse, c.tk),
        )  # tiles along K are whole groups of weights
        size = {"m": (gemm.M, c.tm), "n": (gemm.N, c.tn), "k": depth}
        work = {axis: work_of(*size[axis], c.arrays if axis == c.split else 1) for axis in size}
        down, across, streamed = (work[axis] for axis in dims)
        passes = down.over(lambda t: -(-t // unit.rows)) * across.over(lambda t: -(-t // unit.cols))
        tn, tk = last(gemm.N, c.tn), last(*depth)
        folds = over_tiles(gemm.groups, c.tg, lambda tg: packs(unit, tg, tn, tk)) * passes
        steps = streamed.over(lambda t: self._timing(t, pace).step)
        rows = clocks(streamed.last, pace)
        end = self._timing(streamed.last, pace)
        alone = rows + end.drain + unit.accumulator_latency
        packed = packs(unit, last(gemm.groups, c.tg), tn, tk)
        more = packed * -(-down.last // unit.rows) * -(-across.last // unit.cols) - 1
        times = (
            folds * steps - end.step + alone,
            folds * streamed.over(lambda t: clocks(t, pace)) - rows + alone,
            more * end.step + alone,
            alone,
            rows,
            end.load,
            more * end.step + rows,
            more * (end.reload + end.load) + end.load,
        )
        return _Array(*(np.zeros(len(c)) + time for time in times))

    def _loads(self, shape: Shape, c: Candidates, homes: Homes) -> list[_Load]:
        """Loads in the order in which the first of each kind is issued."""
        none, loads, gemm = np.zeros(len(c)), [], shape.gemm
        if shape.parameters_B:
            size_B = none + shape.parameters_B
            loads.append(_Load("parameters", self._roles.weights_home, size_B, size_B, size_B, none + 1))
        loads += [self._streamed_b(shape, c, homes)] if shape.b_streamed else []
        if not c.a_resident:
            loads.append(self._streamed_a(shape, c, homes))
        elif homes.a_to_load:
            size_B = none + whole_a(gemm) * shape.a_B
            loads.append(_Load("a", homes.a, size_B, size_B, size_B, none + 1))
        if shape.sides:
            size_B = none + gemm.groups * gemm.M * gemm.N * shape.side_B
            one_B = none + self._last_tile(gemm, c) * shape.side_B
            loads.append(
                _Load("side", homes.y, size_B, one_B, one_B, self._result_tiles(gemm, c) * shape.sides)
            )
        return loads

    def _streamed_a(self, shape: Shape, c: Candidates, homes: Homes) -> _Load:
        gemm = shape.gemm
        passes, visits = fetches(gemm, c, shape.reuse)[0], 1 if c.a_whole_k else count(gemm.K, c.tk)
        all_B, first_B = passes * a_words(gemm, c)[0] * shape.a_B, first_a(gemm, c) * shape.a_B
        last_k = gemm.K if c.a_whole_k else last(gemm.K, c.tk)
        smallest = last(gemm.groups, c.tg) * last(gemm.M, c.tm) * last_k if gemm.conv is None else 0 * c.tm
        requests = passes * count(gemm.groups, c.tg) * count(gemm.M, c.tm) * visits
        sizes = [_floats(size) for size in (all_B, first_B, smallest * shape.a_B, requests)]
        return _Load("a", homes.a, sizes[0], sizes[1], sizes[2], sizes[3], self._in_flight(shape, c)[0])

    def _streamed_b(self, shape: Shape, c: Candidates, homes: Homes) -> _Load:
        gemm, unit, passes = shape.gemm, self._unit, fetches(shape.gemm, c, shape.reuse)[1]
        columns = over_tiles(gemm.N, c.tn, lambda tn: b_extent(unit, tn, 1)[0])
        groups = over_tiles(gemm.groups, c.tg, lambda tg: b_elements(unit, tg, c.tn, c.tk)) // b_elements(
            unit, 1, c.tn, c.tk
        )
        words = groups * columns * over_tiles(gemm.K, c.tk, lambda tk: b_extent(unit, 1, tk)[1])
        smallest = b_elements(unit, last(gemm.groups, c.tg), last(gemm.N, c.tn), last(gemm.K, c.tk))
        requests = passes * count(gemm.groups, c.tg) * count(gemm.N, c.tn) * count(gemm.K, c.tk)
        first_B = b_elements(unit, c.tg, c.tn, c.tk) * shape.b_B
        sizes = [
            _floats(size) for size in (passes * words * shape.b_B, first_B, smallest * shape.b_B, requests)
        ]
        return _Load("b", homes.b, sizes[0], sizes[1], sizes[2], sizes[3], self._in_flight(shape, c)[1])

    def _in_flight(self, shape: Shape, c: Candidates) -> tuple[int, int]:
        """Slots for tiles of A and of B: those of each array where arrays have their own, and no fixed slots."""
        roles, (own_a, own_b) = self._roles, depends(c)
        each_a = c.arrays if own_a and roles.fixed_slots(roles.activations) is None else 1
        each_b = c.arrays if own_b and roles.fixed_slots(roles.weights) is None else 1
        return each_a * c.a_slots, each_b * shape.w_slots

    def _start(self, array: _Array, loads: list[_Load]) -> Floats:
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

    def _work_paths(self, step: _Step, c: Candidates, gemm: Gemm) -> tuple[dict[str, Floats], list[Floats]]:
        """The array with all its folds, the vector unit with all its results; and how long each is busy."""
        array, whole = step.array, step.array.total
        for load in step.loads:
            if load.kind == "a" and load.slots == 1 and self._stationary != "a":
                gaps = (load.requests - 1) * (
                    self._ports.latency(load.memory) + self._ports.token + self._to_array
                )
                rest = self._ports.clocks(load.memory, load.all_B - load.first_B)
                whole = np.maximum(
                    whole, array.streaming + gaps + rest
                )  # nothing streams while the next tile arrives
        whole = np.maximum(whole, self._one_sum_slot(step, c, gemm))
        paths = {"compute": step.start + whole + step.tail}
        if self._unit.epilogue:
            paths["vector unit"] = step.start + array.tile + self._to_vector + step.vector_all + step.leave
        return paths, [whole - array.alone, step.vector_all]

    def _one_sum_slot(self, step: _Step, c: Candidates, gemm: Gemm) -> Floats:
        """Clocks from the first streamed row to the last sum with one accumulator slot for each array that works: none
        streams another tile before the vector unit has taken the sums of its tile before. 0 with more.

        Of one array counted only where sums share their buffer, since there a second slot competes with other tiles.
        """
        array, unshared = step.array, len(self._roles.buffer(self._roles.sums).holds) == 1
        if c.y_slots is None or (unshared and c.arrays == 1) or not self._unit.epilogue:
            return 0 * array.total
        between = array.alone - array.rows + self._to_vector + self._to_array
        working = lanes(gemm, c)
        if c.split in ("none", "k"):
            waits = (step.results - 1) * between + step.vector_all - step.vector_last
        else:
            waits = (step.results / working - 1) * (between + step.vector_last)
            tiles = count(*{"m": (gemm.M, c.tm), "n": (gemm.N, c.tn)}[c.split])
            waits = np.where(tiles % working == 0, waits, 0.0)  # else the slots change hands
        return np.where(c.y_slots == working, array.streaming + waits, 0.0)

    def _port_paths(self, step: _Step, memory: str, name: str) -> tuple[dict[str, Floats], Floats]:
        """All bytes of a memory through its port, what comes in and what goes out; and how long the port is busy."""
        ports, none = self._ports, 0 * step.start
        mine = [load for load in step.loads if load.memory == memory]
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
            first = (
                step.start + step.array.tile + ports.token + (self._to_vector if self._unit.epilogue else 0.0)
            )
            paths[f"results to {memory}"] = first + ports.through(memory, *outbound)
        return paths, np.maximum(ports.busy(memory, *inbound), ports.busy(memory, *outbound))

    def _last_shift(self, step: _Step, mine: list[_Load]) -> Floats | float:
        """The shift behind the last operand tile of a port, where that is certainly a stationary one."""
        stationary = [load for load in mine if load.kind == self._stationary]
        moving = [load for load in mine if load.kind in ("a", "b") and load.kind != self._stationary]
        if not stationary or any(load.kind == "b" or load.slots for load in moving):
            return 0.0
        behind = 1 if moving else 0  # a whole operand comes behind the first stationary tile
        return np.where(stationary[0].requests > behind, step.array.shift, 0.0)

    def _round_trips(self, step: _Step, shape: Shape, c: Candidates) -> list[tuple[str, Floats, Floats]]:
        """(path, clocks of the last round, clocks of all before) of tiles that wait for a slot: it is loaded, used, and
        free again only then.
        """
        ports, found = self._ports, []
        for load in step.loads:
            if not load.slots or load.kind == "side":
                continue
            arrive = ports.latency(load.memory) + ports.transfer(load.memory, load.last_B)
            shift = step.array.shift if load.kind == self._stationary else 0 * step.start
            use = step.array.reads_stationary if load.kind == self._stationary else step.array.reads_moving
            rounds = np.ceil(load.requests / load.slots) - 1
            ending = ports.chip + arrive + self._to_array + shift + step.array.tile + step.tail
            found.append(
                (f"latency of {load.memory}", ending, rounds * (arrive + self._to_array + use + ports.token))
            )
        found += [
            self._uneven(load, step, shape, c) for load in step.loads if load.kind == self._stationary == "b"
        ]
        for memory, out in step.out.items():
            before = (
                self._to_vector + step.vector_last
                if self._unit.epilogue
                else self._to_array + step.array.tile
            )
            cycle = before + ports.token + ports.latency(memory) + ports.transfer(memory, step.last_out_B)
            rounds = np.ceil(out.requests / (2 if self._unit.epilogue else shape.sum_slots)) - 1
            found.append(
                (f"latency of results to {memory}", step.start + step.array.tile + step.tail, rounds * cycle)
            )
        return found

    def _uneven(self, load: _Load, step: _Step, shape: Shape, c: Candidates) -> tuple[str, Floats, Floats]:
        """The small last tile of each row of weight tiles, as in ``_round_trips``: it arrives long before the large one
        ahead of it has left its slot to the next, with nothing else to load meanwhile.
        """
        gemm, unit, ports = shape.gemm, self._unit, self._ports
        end = self._timing(last(gemm.M, c.tm), shape.pace(c.arrays))
        last_g, last_n = last(gemm.groups, c.tg), last(gemm.N, c.tn)
        depth = kept(shape.sparse, c.tk)
        more = packs(unit, last_g, last_n, depth) * -(-depth // unit.rows) * -(-last_n // unit.cols) - 1
        held = self._to_array + more * (end.reload + end.load) + end.load + ports.token
        small_B = _floats(b_elements(unit, c.tg, c.tn, last(gemm.K, c.tk)) * shape.b_B)
        uneven = (last(gemm.K, c.tk) < c.tk) & (load.slots == 2) & (c.arrays == 1) & (c.order != "mkn")
        rows = np.where(uneven, load.requests / count(gemm.K, c.tk) - 1, 0.0)
        then = self._to_array + step.array.shift * (load.requests > 1) + step.array.tile + step.tail
        through = ports.chip + ports.through(load.memory, load.all_B, load.requests)
        return f"latency of {load.memory}", then, through + rows * ports.idle(load.memory, held, small_B)

    def _result_tiles(self, gemm: Gemm, c: Candidates) -> Floats:
        return _floats(count(gemm.groups, c.tg) * count(gemm.M, c.tm) * count(gemm.N, c.tn))

    def _last_tile(self, gemm: Gemm, c: Candidates) -> Ints:
        """Sums of the last tile, the smallest."""
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
        whole = sum(
            (n1 * n2 * n3 * clocks(t1 * t2 * t3) for (n1, t1), (n2, t2), (n3, t3) in product(*axes)), none
        )
        return whole * self._vector_clock, (none + clocks(self._last_tile(gemm, c))) * self._vector_clock

    def _vector_clocks(self, shape: Shape, partial: Ints | int) -> Callable[[Any], Any]:
        """Clocks of the vector unit for a tile of so many sums, as ``vector_clocks`` has them.

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
            (
                shape.y_B * shape.results_share,
                roles.buffer(roles.activations).write_width,
            ),
        )

        def clocks(sums: Any) -> Any:
            moved = [np.ceil(np.ceil(np.floor(sums * size_B) / width) * ratio) for size_B, width in widths]
            return vector.latency + np.maximum.reduce([1 + 0 * sums, -(-sums // vector.lanes) * pace, *moved])

        return clocks


class Work(NamedTuple):
    """What an array has along one axis: ``full`` tiles of an extent, and a last one."""

    full: Ints
    tile: Ints
    last: Ints

    def over(self, f: Callable[[Any], Any]) -> Ints:
        """Sum of ``f`` over the tiles."""
        total: Ints = self.full * f(self.tile) + f(self.last)
        return total


WorkOf = Callable[[int, Ints, int], Work]
"""From an extent, the extent of its tiles, and the arrays that take them in turn."""


def last_array(extent: int, tile: Ints, arrays: int) -> Work:
    """The array that has the last tile."""
    return Work((count(extent, tile) - 1) // arrays, tile, last(extent, tile))


def first_array(extent: int, tile: Ints, arrays: int) -> Work:
    """The array that has the first tile."""
    tiles, end = count(extent, tile), last(extent, tile)
    return Work(-(-tiles // arrays) - 1, tile, np.where((tiles - 1) % arrays == 0, end, tile))


def _floats(values: Any) -> Floats:
    return np.asarray(values, np.float64)


def _tiles_of(extent: int, tile: Ints) -> list[tuple[Ints | int, Ints]]:
    """(how many, their extent) of the full tiles along a dimension and of the last one."""
    return [(count(extent, tile) - 1, tile), (1, last(extent, tile))]


def _together(loads: list[_Load], none: Floats) -> Moved:
    return Moved(sum((load.all_B for load in loads), none), sum((load.requests for load in loads), none))
