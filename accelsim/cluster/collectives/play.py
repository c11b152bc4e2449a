"""Play a collective on a network: a round at a time where each wire has one sender, else event by event.

Around a ring each device waits for the message from the device before it, and no other device uses its wires. Messages
then take every wire in the order of the rounds, so ``by_rounds`` needs no queue of events. It gives what the events
give, to the femtosecond. Where all parts have one size and a round repeats the one before, later by one time, the
other rounds follow as one product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from accelsim.cluster.collectives.base import bounds, messages
from accelsim.cluster.collectives.rounds import Program
from accelsim.cluster.network.play import Rules, Totals, play, rules
from accelsim.cluster.network.topology import Topology
from accelsim.errors import UsageError
from accelsim.time import NEVER
from accelsim.types import Ints

Hops = list[tuple[Ints, Ints, Ints]]
"""For each hop: messages that have it, their wires, and the kinds of these."""


MOST_PLAYED = 10_000_000
"""Messages of a collective that is played event by event."""


def play_program(
    topology: Topology, program: Program, ranks: Sequence[int], elements: int, title: str
) -> tuple[Totals, str]:
    """Play a program among ``ranks`` on buffers of ``elements`` bytes. Return its totals, and how they were found:
    'ring' by rounds, else 'events'.

    Raises UsageError for more than ``MOST_PLAYED`` messages, which it calls ``title``, and as ``network.play.play``.
    """
    found = by_rounds(topology, program, ranks, elements)
    if found is not None:
        return found, "ring"
    many = sum(each.times * len(each.source) for each in program.rounds)
    if many > MOST_PLAYED:
        expected = f"at most {MOST_PLAYED:,}: fewer devices, or another algorithm"
        raise UsageError(f"{title} takes {many:,} messages", "", expected)
    return play(topology, messages(program, elements).on(ranks)), "events"


def by_rounds(
    topology: Topology,
    program: Program,
    ranks: Sequence[int],
    elements: int,
    given: Callable[[Ints], Rules] | None = None,
) -> Totals | None:
    """Play a program a round at a time; None where messages of several devices may meet on a wire.

    ``given``: makes other rules than the topology's from the sizes of messages. Messages without bytes, and wires that
    take no time, are left to the events: two messages could ask for a wire at one instant.
    """
    before = _before(program)
    if before is None:
        return None
    block, names = program.rounds[0], np.asarray(ranks, np.int64)
    source, target = names[block.source], names[block.target]
    routes = [list(topology.route(a, b)) for a, b in zip(source.tolist(), target.tolist(), strict=True)]
    wires = [wire for route in routes for wire in route]
    sizes_B, size_of = np.unique(np.diff(bounds(program, elements)), return_inverse=True)
    hops = given(sizes_B) if given else rules(topology, sizes_B)
    if not all(routes) or len(set(wires)) < len(wires) or hops.busy[hops.kind_of[wires]].min() == 0:
        return None
    end, counts = _played(program, size_of, before, _hops(routes, hops), hops, topology)
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
    """Return for each message the place of the one that reached its sender in the round before, whose cell it carries;
    None where rounds differ, or a message waits for another device as well."""
    blocks = program.rounds
    if not blocks or program.blocking or any((each.width != 1).any() or each.into is not None for each in blocks):
        return None
    source, target = blocks[0].source, blocks[0].target
    if not all(np.array_equal(each.source, source) and np.array_equal(each.target, target) for each in blocks):
        return None
    place = np.full(program.ranks, -1, np.int64)
    place[target] = np.arange(len(target))
    before = place[source]
    if len(np.unique(before)) < len(before) or before.min() < 0:
        return None
    after = [(each.cells(0), each.cells(1)) for each in blocks if each.times > 1]
    after += [(one.cells(one.times - 1), two.cells(0)) for one, two in pairwise(blocks)]
    return before if all((then == now[before]).all() for now, then in after) else None


def _hops(routes: Sequence[list[int]], hops: Rules) -> Hops:
    found = []
    for hop in range(max(map(len, routes))):
        at = np.flatnonzero([len(route) > hop for route in routes])
        wires = np.array([routes[message][hop] for message in at.tolist()], np.int64)
        found.append((at, wires, hops.kind_of[wires]))
    return found


def _played(
    program: Program, size_of: Ints, before: Ints, steps: Hops, hops: Rules, topology: Topology
) -> tuple[Ints, Ints]:
    """Return when each message of the last round has arrived, and how many messages of each size each sender sent:
    int64 ``[messages, sizes]``."""
    sizes, left, everybody = int(size_of.max()) + 1, sum(each.times for each in program.rounds), np.arange(len(before))
    counts, free = np.zeros((len(before), sizes), np.int64), np.zeros(len(topology.wires), np.int64)
    ready = end = np.zeros(len(before), np.int64)
    used = np.concatenate([wires for _, wires, _ in steps])
    was = np.concatenate([ready, free[used]])
    for block in program.rounds:
        for number in range(block.times):
            size = size_of[block.cells(number)]
            end = _round(steps, hops, free, ready + topology.overhead_fs, size)
            ready = end[before]
            counts[everybody, size] += 1
            left -= 1
            if sizes > 1:
                continue
            now = np.concatenate([ready, free[used]])
            later, was = now - was, now
            if later[0] and (later == later[0]).all():
                counts[:, 0] += left
                return end + later[0] * left, counts
    return end, counts


def _round(steps: Hops, hops: Rules, free: Ints, head: Ints, size: Ints) -> Ints:
    """Return when messages whose heads ask for their first wires at ``head`` have arrived; note when wires are free."""
    tail = np.zeros_like(head)
    for hop, (at, wires, kind) in enumerate(steps):
        start = np.maximum(head[at], free[wires])
        free[wires] = start + hops.busy[kind, size[at]]
        through = start + hops.through[kind, size[at]]
        tail[at] = np.maximum(through, tail[at] + hops.latency[kind]) if hop else through
        head[at] = start + hops.onward[kind, size[at]]
    return tail
