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

from accelsim.cluster.collectives.building import bounds
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
    ways = [topology.route(a, b) for a, b in zip(source.tolist(), target.tolist(), strict=True)]
    wires = [wire for way in ways for wire in way]
    edges = bounds(program, elements)
    sizes_B = np.unique(np.diff(edges))
    hops = given(sizes_B) if given else rules(topology, sizes_B)
    if not all(ways) or len(set(wires)) != len(wires) or hops.busy[hops.kind_of[wires]].min() == 0:
        return None
    front = _Front(ways, hops, topology.overhead_fs)
    counts = _rounds(program, edges, sizes_B, before, front)
    if front.end.max() > NEVER:
        return None  # the events say what is wrong
    finish = np.zeros(topology.ranks, np.int64)
    for each in (source, target):
        np.maximum.at(finish, each, front.end)
    return Totals(*_carried(topology, ways, hops, sizes_B, counts), finish)


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
    alike = all(
        np.array_equal(each.source, source) and np.array_equal(each.target, target) for each in blocks
    )
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
    """The last round so far: when each message may leave (``ready``), is there (``end``), and when its wires are free.

    Wires by hop: of hop k those messages ``at[k]`` that have one, of the kinds ``kinds[k]``.
    """

    def __init__(self, ways: Sequence[tuple[int, ...]], hops: Rules, overhead_fs: int) -> None:
        self._hops, self._overhead_fs = hops, overhead_fs
        deepest = max(map(len, ways))
        self._at = [np.array([i for i, way in enumerate(ways) if len(way) > hop]) for hop in range(deepest)]
        self._kinds = [hops.kind_of[[ways[i][hop] for i in at]] for hop, at in enumerate(self._at)]
        self.ready = self.end = np.zeros(len(ways), np.int64)
        self.free = [np.zeros(len(at), np.int64) for at in self._at]

    def step(self, size_of: Ints) -> None:
        """One round more, of messages of these sizes."""
        head = self.ready + self._overhead_fs
        tail = np.zeros_like(head)
        for hop, (at, kind) in enumerate(zip(self._at, self._kinds, strict=True)):
            size = size_of[at]
            start = np.maximum(head[at], self.free[hop])
            self.free[hop] = start + self._hops.busy[kind, size]
            there = start + self._hops.through[kind, size]
            tail[at] = np.maximum(there, tail[at] + self._hops.latency[kind]) if hop else there
            head[at] = start + self._hops.onward[kind, size]
        self.end = tail


def _rounds(program: Program, edges: Ints, sizes_B: Ints, before: Ints, front: _Front) -> Ints:
    """Play all rounds; how many messages of each size each of them was: int64 ``[messages, sizes]``."""
    many, left = len(before), sum(each.times for each in program.rounds)
    counts = np.zeros((many, len(sizes_B)), np.int64)
    everybody = np.arange(many)
    for block in program.rounds:
        for number in range(block.times):
            cell = block.cells(number)
            size_of = np.searchsorted(sizes_B, edges[cell + 1] - edges[cell])
            was, free = front.ready, front.free.copy()
            front.step(size_of)
            front.ready = front.end[before]
            counts[everybody, size_of] += 1
            left -= 1
            shift = _shift(front, was, free) if len(sizes_B) == 1 else 0
            if shift:
                front.end = front.end + shift * left
                counts[:, 0] += left
                return counts
    return counts


def _shift(front: _Front, was: Ints, free: Sequence[Ints]) -> int:
    shift = int(front.ready[0] - was[0])
    apart = ((front.ready, was), *zip(front.free, free, strict=True))
    return shift if all((now - then == shift).all() for now, then in apart) else 0


def _carried(
    topology: Topology, ways: Sequence[tuple[int, ...]], hops: Rules, sizes_B: Ints, counts: Ints
) -> tuple[Ints, Ints]:
    """Per wire how long it is busy, fs, and the bytes that it carries."""
    busy, carried = (np.zeros(len(topology.wires), np.int64) for _ in range(2))
    for way, count in zip(ways, counts, strict=True):
        wires = list(way)
        carried[wires] = int(count @ sizes_B)
        busy[wires] = hops.busy[hops.kind_of[wires]] @ count
    return busy, carried
