"""Collectives around one ring without events: the times of a round follow from those of the round before.

It is what the events give, to the femtosecond, where the following holds, which ``play_ring`` looks at (else it gives
None, and the events must be played):

- In every round the same devices send to the same ones, each at most one message and to another device, and what each
  sends is what came to it in the round before, and nothing else was written there: so it waits for this message alone.
- No wire belongs to two ways, so that only messages of one device meet on a wire, in the order of the rounds.
- Each message has bytes and occupies every wire for some time: so no two of them ask for it at one instant.

Where all parts are of one size and a round does everything as the round before, later by the same time, so do those
that follow, and their times are one product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from accelsim.cluster.collectives.base import bounds
from accelsim.cluster.collectives.rounds import Program, Rounds
from accelsim.cluster.network.play import Rules, Totals, rules
from accelsim.cluster.network.topology import Topology
from accelsim.time import NEVER
from accelsim.types import Ints


def play_ring(
    topology: Topology,
    program: Program,
    ranks: Sequence[int],
    elements: int,
    given: Callable[[Ints], Rules] | None = None,
) -> Totals | None:
    """The totals of a program among ``ranks`` of a topology, on buffers of so many bytes; None where it does not apply.

    ``given``: other rules than those of the topology, of sizes.
    """
    before = _before(program)
    if before is None:
        return None
    names, block = np.asarray(ranks, np.int64), program.rounds[0]
    source, target = names[block.source], names[block.target]
    routes = [list(topology.route(a, b)) for a, b in zip(source.tolist(), target.tolist(), strict=True)]
    wires = [wire for route in routes for wire in route]
    edges = bounds(program, elements)
    sizes_B = np.unique(np.diff(edges))
    hops = given(sizes_B) if given else rules(topology, sizes_B)
    if not all(routes) or len(set(wires)) != len(wires) or hops.busy[hops.kind_of[wires]].min() == 0:
        return None
    size_of = np.searchsorted(sizes_B, np.diff(edges))
    end, counts = _played(program, size_of, len(sizes_B), before, _Front(routes, hops, topology.overhead_fs))
    if end.max() > NEVER:
        return None  # the events say what is wrong
    finish = np.zeros(topology.ranks, np.int64)
    for each in (source, target):
        np.maximum.at(finish, each, end)
    busy, carried = (np.zeros(len(topology.wires), np.int64) for _ in range(2))
    for route, count in zip(routes, counts, strict=True):
        carried[route] = int(count @ sizes_B)
        busy[route] = hops.busy[hops.kind_of[route]] @ count
    return Totals(busy, carried, finish)


def _before(program: Program) -> Ints | None:
    """For each message the place of the one that came to its sender in the round before; None where rounds differ, or
    a message waits for others as well."""
    blocks = program.rounds
    if not blocks or program.areas > 1 or program.blocking or not all(map(_plain, blocks)):
        return None
    source, target = blocks[0].source, blocks[0].target
    place = np.full(program.ranks, -1, np.int64)
    place[target] = np.arange(len(target))
    before = place[source]
    alike = all(np.array_equal(each.source, source) and np.array_equal(each.target, target) for each in blocks)
    once = len(np.unique(source)) == len(np.unique(target)) == len(source)
    if not alike or not once or (before < 0).any() or (source == target).any():
        return None
    added = any(each.reduces.any() for each in blocks[1:])
    after = [(each.cells(0), each.cells(1)) for each in blocks if each.times > 1]
    after += [(one.cells(one.times - 1), two.cells(0)) for one, two in pairwise(blocks)]
    return None if added or not all((then == now[before]).all() for now, then in after) else before


def _plain(block: Rounds) -> bool:
    """Messages of one cell each, and no cell comes twice to where it would be added."""
    alone = bool((block.width == 1).all()) and block.into is None
    step = abs(block.step)
    return alone and (
        block.times == 1 or (step > 0 and block.period % step == 0 and block.times * step <= block.period)
    )


class _Front:
    """The wires of all messages, and when each is free. Of hop k those messages ``at[k]`` have one, of the kinds
    ``kinds[k]``."""

    def __init__(self, routes: Sequence[list[int]], hops: Rules, overhead_fs: int) -> None:
        self._hops, self._overhead_fs = hops, overhead_fs
        deepest = range(max(map(len, routes)))
        self._at = [np.flatnonzero([len(route) > hop for route in routes]) for hop in deepest]
        self._kinds = [hops.kind_of[[routes[i][hop] for i in at.tolist()]] for hop, at in enumerate(self._at)]
        self.free = [np.zeros(len(at), np.int64) for at in self._at]

    def step(self, ready: Ints, size_of: Ints) -> Ints:
        """Return when messages of these sizes that may leave at ``ready`` have arrived, in a round more."""
        head = ready + self._overhead_fs
        tail = np.zeros_like(head)
        for hop, (at, kind) in enumerate(zip(self._at, self._kinds, strict=True)):
            size = size_of[at]
            start = np.maximum(head[at], self.free[hop])
            self.free[hop] = start + self._hops.busy[kind, size]
            through = start + self._hops.through[kind, size]
            tail[at] = np.maximum(through, tail[at] + self._hops.latency[kind]) if hop else through
            head[at] = start + self._hops.onward[kind, size]
        return tail


def _played(program: Program, sizes: Ints, kinds: int, before: Ints, front: _Front) -> tuple[Ints, Ints]:
    """Play all rounds: when each message of the last has arrived, and how many messages of each size each of them was:
    int64 ``[messages, sizes]``. ``sizes``: of each cell."""
    many, left = len(before), sum(each.times for each in program.rounds)
    counts, everybody = np.zeros((many, kinds), np.int64), np.arange(many)
    ready = end = np.zeros(many, np.int64)
    for block in program.rounds:
        for number in range(block.times):
            size_of = sizes[block.cells(number)]
            was, free = ready, list(front.free)
            end = front.step(ready, size_of)
            ready = end[before]
            counts[everybody, size_of] += 1
            left -= 1
            later = [now - then for now, then in ((ready, was), *zip(front.free, free, strict=True))]
            shift = int(later[0][0])
            if kinds == 1 and shift and all((each == shift).all() for each in later):
                counts[:, 0] += left
                return end + shift * left, counts
    return end, counts
