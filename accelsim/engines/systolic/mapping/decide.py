"""Choose among the best candidates: those of few tiles are rehearsed, and their time decides instead of its bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import exp, inf, log1p
from typing import NamedTuple

import numpy as np

from accelsim.engines.base import Lowering, Mapped
from accelsim.engines.systolic.lower import MatrixStep
from accelsim.engines.systolic.mapping.known import TAPES, Rooms, Taped
from accelsim.engines.systolic.mapping.rehearsal import Rehearsal, Tape, TapeWriter
from accelsim.engines.systolic.mapping.shape import Step
from accelsim.engines.systolic.mapping.space import ESTIMATE, RESOLUTION, TILES, TRAFFIC, steps
from accelsim.engines.tuning import step_program, without_others
from accelsim.errors import Infeasible
from accelsim.program.mapping import Mapping
from accelsim.program.program import Program
from accelsim.program.roles import Roles
from accelsim.program.tiles import in_strips
from accelsim.program.writing.layout import Layout
from accelsim.time import FS_PER_S
from accelsim.workload.limits import MOST_B, MOST_COMMANDS, limited
from accelsim.workload.ops.base import Gemm


class Effort(NamedTuple):
    """Limits of rehearsing in one search: at most ``leaders`` candidates, with at most ``tiles`` tiles in total."""

    leaders: int
    tiles: int


EFFORTS = {"fast": Effort(128, 1200), "best": Effort(256, 4000)}
"""A tile takes some 0.1 ms: a default search spends no more on rehearsals than a small network on all the rest."""
SMALL = 4
"""One for so many of these tiles comes on top, for the leaders that have the fewest."""


class Candidate(NamedTuple):
    """One of the best candidates of a search: its costs (``space.KEYS``), and a function that makes its mapping."""

    costs: tuple[float, ...]
    mapping: Callable[[], Mapping]


class _Found(NamedTuple):
    """A mapping, its clocks alone, its costs that are exact, and its tape."""

    clocks: float
    traffic_B: float
    tiles: float
    mapping: Mapping
    tape: Tape


def fastest(
    step: Lowering, gemm: Gemm, described: Step, effort: Effort, leaders: Sequence[Candidate], key: str
) -> tuple[Mapping, float] | None:
    """Return the best of the fastest leaders once its first weights are there, and the clocks of the fastest.
    None where the first of the leaders has too many tiles, or there is no other. ``key``: of the product, without room
    and rates.

    No estimate is above the time: who is estimated no better than the fastest so far need not be rehearsed. Estimates
    of few large tiles are the loosest, so of those whose turn does not come the smallest have one of their own.
    """
    least, found, done = inf, list[_Found](), set[int]()
    if not worth_rehearsing(effort, leaders):
        return None
    for name in step.node.reads:  # where operands lie is one of the things that candidates are written by
        step.layout.place(name)
    rooms = _rooms(step.layout)
    first = steps(np.array([each.costs[ESTIMATE] for each in leaders])).tolist()
    order = sorted(range(1, len(leaders)), key=lambda at: (first[at], leaders[at].costs[TILES]))
    queue = [leaders[at] for at in (0, *order)]
    for left, waiting in ((effort.tiles, queue), (effort.tiles // SMALL, sorted(queue, key=_smallest))):
        for leader in waiting:
            costs = leader.costs
            if id(leader) in done or costs[TILES] > left or costs[ESTIMATE] * (1 + RESOLUTION) > least:
                continue
            left -= int(costs[TILES])
            done.add(id(leader))
            if made := _rehearse(step, gemm, described, leader, key, rooms, least * (1 + RESOLUTION)):
                least = min(least, made.clocks)
                found.append(made)
    near = [each for each in found if each.clocks <= least * (1 + RESOLUTION)]
    return (_best(near, step.layout.roles, described).mapping, least) if near else None


def worth_rehearsing(effort: Effort, leaders: Sequence[Candidate]) -> bool:
    """Return whether there are several candidates and the first has few enough tiles to rehearse."""
    return len(leaders) > 1 and leaders[0].costs[TILES] <= effort.tiles


def _rooms(layout: Layout) -> dict[str, int]:
    roles = layout.roles
    return {name: layout.spaces[name].room_after([]) or 0 for name in (roles.activations, roles.weights, roles.sums)}


def taped(step: Lowering, gemm: Gemm, mapping: Mapping, rooms: Rooms) -> Taped:
    """Return a tape of few tiles; none where it does not fit after all, or has commands that cannot be rehearsed. The
    limits of the run do not hold for it, and do not change what is chosen."""
    writer = TapeWriter(step.layout.roles, step.layout.builder.engines, step.layout.builder.sequential)
    alone = without_others(step, writer)
    layout, there, tape = alone.layout, _rooms(alone.layout), None
    spans = dict[str, tuple[float, float]]()
    with limited(commands=MOST_COMMANDS, memory_B=MOST_B), suppress(Infeasible):
        written(alone, gemm, mapping)
        tape = writer.tape
    for name, room in rooms.items():
        spans[name] = room, room + 1
        if there[name] == room:  # a larger buffer with as much more room would do the same
            least, beyond = layout.spaces[name].span
            more = room - layout.spaces[name].capacity_B
            spans[name] = least + more, beyond + more
    return Taped(tape, spans)


def _rehearse(
    step: Lowering, gemm: Gemm, described: Step, leader: Candidate, key: str, rooms: Rooms, most: float
) -> _Found | None:
    """Return what it takes alone; None where that is not known, or is more than ``most`` clocks."""
    mapping = leader.mapping()
    tape = TAPES.get(key, mapping, rooms, lambda: taped(step, gemm, mapping, rooms))
    clocks = tape and rehearsed(tape, step.layout.roles, described, most=most)
    if tape is None or clocks is None:
        return None
    return _Found(clocks, leader.costs[TRAFFIC], leader.costs[TILES], mapping, tape)


def _best(near: Sequence[_Found], roles: Roles, described: Step) -> _Found:
    """Return the best of those that are equally fast, by the time that each takes with its first weights there."""
    best, key = near[0], (inf, inf, inf, inf)
    for each in near:
        clocks: float | None = each.clocks
        if described.ahead:
            most = inf if key[0] == inf else exp((key[0] + 2) * log1p(RESOLUTION))  # more is no step less
            clocks = rehearsed(each.tape, roles, described, True, most)
        if clocks is not None:
            its = float(steps(clocks or each.clocks)), each.traffic_B, each.tiles, each.clocks
            best, key = (each, its) if its < key else (best, key)
    return best


def rehearsed(tape: Tape, roles: Roles, described: Step, ahead: bool = False, most: float = inf) -> float | None:
    """Clocks of the array that a tape takes; ``ahead``: with its first weights already loaded. None for more than
    ``most`` clocks (plus a billionth). A tape remembers what it took at these rates, or what it takes more than."""
    clock_Hz = float(roles.matrix.clock or roles.chip.clock)
    most_fs = most / clock_Hz * FS_PER_S * (1 + 1e-9)
    rates = [(each.rate_Bps, each.memory.latency) for each in roles.chip.memories.values()]
    key = ahead, described.sharing, *rates
    time_fs, exceeded_fs = tape.times.get(key, (None, 0.0))
    if time_fs is None and most_fs > exceeded_fs:
        time_fs = Rehearsal(tape, roles, described.sharing, ahead).time_fs(most_fs)
        tape.times[key] = time_fs, most_fs
    return None if time_fs is None or time_fs > most_fs else time_fs / FS_PER_S * clock_Hz


def _smallest(leader: Candidate) -> tuple[float, float]:
    return leader.costs[TILES], leader.costs[ESTIMATE]


def written(step: Lowering, gemm: Gemm, mapping: Mapping, binds: str = "", scored: int = 1) -> Mapped:
    """Write the commands of a product by a mapping. Raises Infeasible if the mapping does not fit."""
    gemm, dtype = in_strips(gemm, mapping.tq), step.node.format or step.dtype
    matrix = MatrixStep(step.layout, step.index, step.node, gemm, mapping, dtype)
    matrix.lower()
    step.notes.extend({matrix.note} - {"", *step.notes})
    return Mapped(gemm, mapping, binds, scored)


def product_program(step: Lowering, gemm: Gemm, mapping: Mapping) -> Program:
    """Return a program of one product alone, by a mapping. Raises Infeasible if the mapping does not fit."""
    return step_program(step, mapping, lambda lowering, mapping: written(lowering, gemm, mapping))
