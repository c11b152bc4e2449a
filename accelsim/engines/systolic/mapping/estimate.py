"""Closed forms of a mapping, vectorised over thousands of candidates: a lower bound of what the machine will take.

Each candidate is bounded by several paths, of which the longest is the estimate: the array with all its folds, every
port with all its bytes, the vector unit with all its results, the slots of a buffer with the latency of its memory.
Law: estimate <= machine for one step alone, and equal where one path dominates throughout, as when there is one tile.
All times are clocks of the array (float64, exact below 2^53). A unit that acquires what was released at t works from
the edge that is ``token`` later on, so that it is done ``token - 1 + n`` of its clocks after t.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.engines.simd.spec import VectorUnit
from accelsim.engines.systolic.mapping.folds import ArrayClocks
from accelsim.engines.systolic.mapping.ports import Ports
from accelsim.engines.systolic.mapping.shape import Bounds, Homes, Shape
from accelsim.engines.systolic.mapping.tilings import Candidates
from accelsim.engines.systolic.mapping.work import Load, Moved, Work, Workings
from accelsim.program.roles import Roles
from accelsim.types import Floats


class _Step(NamedTuple):
    """Terms of the paths of one step. ``start``: clocks until the first row can stream; ``tail``: from the last
    sum to the end; ``leave``: from the last result to the end."""

    work: Work
    start: Floats
    leave: Floats
    tail: Floats

    @property
    def array(self) -> ArrayClocks:
        """Clocks of the array."""
        return self.work.array


class Estimator:
    """Closed forms for one core; ``vector``: spec of the unit that results pass, None where there is none; ``sharing``:
    cores that use the memories at the same time."""

    def __init__(self, roles: Roles, vector: VectorUnit | None, sharing: int = 1) -> None:
        self._roles, self._unit = roles, roles.matrix
        self._clock = float(self._unit.clock or roles.chip.clock)
        self._ports = Ports(roles, self._clock, sharing)
        self._workings = Workings(roles, vector)
        self._to_array = self._ports.token - 1.0
        self._to_vector = self._ports.token - self._workings.vector_clock
        self._stationary = self._unit.flow.still

    def bounds(self, shape: Shape, c: Candidates, homes: Homes, work: Work | None = None) -> Bounds:
        """Clocks of each path that bounds a candidate from below, of all candidates, whose ``work`` may be known."""
        work = self.work(shape, c, homes) if work is None else work
        step = self._step(work, homes)
        paths = self._work_paths(step)
        for memory in work.memories:
            paths |= self._port_paths(step, memory, homes.path_name(memory))
        for name, before, rounds in self._round_trips(step, shape, c):
            paths[name] = np.maximum(paths.get(name, 0.0), before + rounds)
        return Bounds(paths, self._held(work, shape, homes, self._occupied(work)), work.offchip_B)

    def least_score(self, shape: Shape, work: Work, homes: Homes) -> Floats:
        """Lower bound of ``Bounds.score`` that is quick to compute: array, vector unit or port of an operand, without
        what comes before and after, and the exact time for which others are held up."""
        occupied, array = self._occupied(work), work.array
        used = [occupied[load.memory] for load in work.loads if load.kind in ("a", "b")]
        longest = np.maximum.reduce([array.total, work.vector_all - self._workings.vector_clock, *used])
        least: Floats = (longest + self._held(work, shape, homes, occupied)) * (1 - 1e-9)  # sums are rounded otherwise
        return least

    def _held(self, work: Work, shape: Shape, homes: Homes, occupied: dict[str, Floats]) -> Floats:
        """Clocks for which others are held up, see ``Bounds.score``."""
        busy = sum(occupied.values(), work.array.total - work.array.alone + work.vector_all)
        homes_of_all = {homes.a, homes.b, homes.y, self._roles.weights_home, *(side.memory for side in shape.sides)}
        held: Floats = busy / (2 + len(homes_of_all)) + self._ports.token * (work.results * work.parts)
        return held

    def _occupied(self, work: Work) -> dict[str, Floats]:
        """Clocks for which each port is busy."""
        ports, found = self._ports, {}
        for memory in work.memories:
            _, inbound, outbound = self._through(work, memory)
            if ports.full_duplex(memory):
                found[memory] = np.maximum(ports.busy(memory, *inbound), ports.busy(memory, *outbound))
            else:
                found[memory] = ports.busy(memory, *_both(inbound, outbound))
        return found

    def _through(self, work: Work, memory: str) -> tuple[list[Load], Moved, Moved]:
        """Return the loads through a port in whole beats, all of them together, and all stores."""
        mine = [
            load._replace(all_B=self._ports.whole_B(memory, load.all_B)) for load in work.loads if load.memory == memory
        ]
        return mine, _loaded(mine, 0 * work.last_B), work.out.get(memory, Moved(0 * work.last_B, 0 * work.last_B))

    def least(self, shape: Shape, c: Candidates) -> Floats:
        """Lower bound of the estimate that is quick to compute: the array with all its folds, in clocks."""
        return self._workings.array(shape, c)

    def work(self, shape: Shape, c: Candidates, homes: Homes) -> Work:
        """Return the work of candidates, which depends on no rate of a memory."""
        return self._workings.work(shape, c, homes)

    def _step(self, work: Work, homes: Homes) -> _Step:
        leave = np.zeros_like(work.last_B)
        if work.out:
            leave = self._ports.token + self._ports.latency(homes.y) + self._ports.transfer(homes.y, work.last_B)
        through = self._to_vector + work.vector_last if self._unit.epilogue else np.zeros_like(work.last_B)
        return _Step(work, self._start(work.array, work.loads), leave, through + leave)

    def _start(self, array: ArrayClocks, loads: list[Load]) -> Floats:
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

    def _work_paths(self, step: _Step) -> dict[str, Floats]:
        """The array with all its folds, the vector unit with all its results."""
        array = step.array
        paths = {"compute": step.start + array.total + step.tail}
        if self._unit.epilogue:
            vector_all = step.work.vector_all
            paths["vector unit"] = step.start + array.tile + self._to_vector + vector_all + step.leave
        return paths

    def _port_paths(self, step: _Step, memory: str, name: str) -> dict[str, Floats]:
        """All bytes of a memory through its port, what comes in and what goes out."""
        ports, work, paths = self._ports, step.work, {}
        mine, inbound, outbound = self._through(work, memory)
        if any(load.kind != "parameters" for load in mine):
            paths[name] = ports.all_through(memory, *inbound) + step.tail
        if any(load.kind in ("a", "b") for load in mine):
            needed = _loaded([load for load in mine if load.kind != "side"], 0 * step.start)
            then = self._to_array + self._last_shift(step, mine) + step.array.tile + step.tail
            paths[name] = np.maximum(paths[name], ports.all_through(memory, *needed) + then)
        if not ports.full_duplex(memory):
            both = _both(inbound, outbound)
            paths |= {f"results to {memory}": ports.all_through(memory, *both)} if memory in work.out else {}
        elif memory in work.out:
            first = step.start + step.array.tile + ports.token + (self._to_vector if self._unit.epilogue else 0.0)
            paths[f"results to {memory}"] = first + ports.through(memory, *outbound)
        return paths

    def _last_shift(self, step: _Step, mine: list[Load]) -> Floats | float:
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
        ports, work, found = self._ports, step.work, []
        for load in work.loads:
            if load.slots is not None:
                used, behind = self._used(load, step, c)
                cycle = load.requests * (ports.latency(load.memory) + ports.token)
                cycle = cycle + ports.clocks(load.memory, load.all_B) + used
                ending = ports.chip - ports.token + behind
                found.append((f"latency of {load.memory}", ending, cycle / load.slots))
        if self._unit.epilogue:
            found.append(self._sum_slots(step, c))
        for memory, out in work.out.items():
            cycle = out.requests * (ports.token + ports.latency(memory)) + ports.clocks(memory, out.size_B)
            if self._unit.epilogue:
                before, slots = step.start + step.array.tile, 2
                cycle = cycle + work.vector_all + out.requests * self._to_vector
            else:
                before, slots = step.start - self._to_array, shape.sum_slots
                cycle = cycle + step.array.held_sums + out.requests * self._to_array
            found.append((f"latency of results to {memory}", before, cycle / slots))
        return found

    def _used(self, load: Load, step: _Step, c: Candidates) -> tuple[Floats, Floats]:
        """Clocks from the arrival of each tile to its last use, of all tiles together; and from there to the end."""
        array, work = step.array, step.work
        if load.kind == "side":
            used = work.results * self._to_vector + work.vector_all
            return used, step.leave
        own = c.own[load.kind == "b"]
        together = 1 if own else work.lanes  # arrays that use one tile at a time
        if load.kind != self._stationary:
            used = array.held_moving / together + load.requests * self._to_array
            return used, array.alone - array.rows + step.tail
        more = np.maximum(0.0, array.steps / together - load.requests * (array.step + array.slack))
        return more + load.requests * (array.shift + self._to_array), array.alone + step.tail

    def _sum_slots(self, step: _Step, c: Candidates) -> tuple[str, Floats, Floats]:
        """Accumulators, as in ``_round_trips``: each is held from its first row until the vector unit has taken it."""
        work, working = step.work, step.work.lanes if c.split == "k" else 1
        slots = 2 if c.y_slots is None else c.y_slots
        taken = work.results * (self._to_vector + self._to_array) + work.vector_all
        held = step.array.held_sums + working * taken
        return "accumulators", step.start - self._to_array + step.leave, held / slots


def _loaded(loads: list[Load], none: Floats) -> Moved:
    return Moved(sum((load.all_B for load in loads), none), sum((load.requests for load in loads), none))


def _both(inbound: Moved, outbound: Moved) -> Moved:
    return Moved(inbound.size_B + outbound.size_B, inbound.requests + outbound.requests)
