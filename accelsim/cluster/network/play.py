"""Messages between devices as columns (who sends how much to whom, after which others), and their times on a
network."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from accelsim.cluster.network import play_kernel
from accelsim.cluster.network.topology import Topology
from accelsim.errors import UsageError
from accelsim.time import FS_PER_S
from accelsim.types import Bools, Ints


@dataclass(frozen=True, eq=False)
class MessageGraph:
    """Messages in the order of their numbers; each column has one entry per message.

    ``source``, ``target``: devices. ``needs[needs_start[m]:needs_start[m + 1]]``: messages that must have arrived
    before ``m`` may leave.
    A message carries elements ``begin`` to ``end`` of its sender's buffer to the place ``into`` of its target's, where
    they are added (``reduces``) or replace what is there. ``round``: rounds of a graph never decrease; within one, all
    messages read before any of them writes.
    """

    source: Ints
    target: Ints
    nbytes: Ints
    needs_start: Ints
    needs: Ints
    begin: Ints
    end: Ints
    into: Ints
    reduces: Bools
    round: Ints

    def __len__(self) -> int:
        return len(self.source)

    def on(self, ranks: Sequence[int]) -> MessageGraph:
        """Return the same messages between other devices: device i becomes ``ranks[i]``."""
        names = np.asarray(ranks, np.int64)
        return replace(self, source=names[self.source], target=names[self.target])


def starts(counts: Ints) -> Ints:
    """Return where each row of ``counts`` entries begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


LONGEST_FS = 1 << 60
"""Longest time of a hop, fs (1,153 s)."""


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over messages: per wire ``busy_fs`` and ``wire_B``; per device of the topology ``finish_fs``, when the
    last message that it sent or receives has arrived."""

    busy_fs: Ints
    wire_B: Ints
    finish_fs: Ints

    @property
    def time_fs(self) -> int:
        """Time until all messages have arrived, fs."""
        return int(self.finish_fs.max(initial=0))


@dataclass(frozen=True, eq=False)
class Played(Totals):
    """Messages in time: per message ``start_fs`` (its first byte enters its first wire) and ``end_fs`` (all of it is
    there)."""

    start_fs: Ints
    end_fs: Ints
    topology: Topology

    @cached_property
    def energy_J(self) -> float:
        """Energy of all wires: bytes of each times its energy per byte, J."""
        return wires_J(self.topology, self.wire_B)


def wires_J(topology: Topology, wire_B: Ints) -> float:
    """Return the energy of ``wire_B`` bytes per wire, J."""
    prices = np.array([wire.energy_J_per_B for wire in topology.wires])
    return float(wire_B.astype(np.float64) @ prices) if len(prices) else 0.0


class Rules(NamedTuple):
    """Times of a hop, fs: ``busy`` occupies the wire, ``through`` until all of the message is at its end,
    ``onward`` until the head asks for the next wire; int64 ``[kinds, sizes]``. ``kind_of``: of each wire, an index of
    the rows; ``latency``: of each kind."""

    kind_of: Ints
    latency: Ints
    busy: Ints
    through: Ints
    onward: Ints


def rules(topology: Topology, sizes_B: Ints) -> Rules:
    """Return the times of hops for messages of these sizes over the wires of a topology, rounded down to whole
    femtoseconds."""
    kinds = list(dict.fromkeys((wire.latency_fs, wire.rate) for wire in topology.wires))
    number = {kind: index for index, kind in enumerate(kinds)}
    kind_of = np.array([number[wire.latency_fs, wire.rate] for wire in topology.wires], np.int64)
    exact = [[size * FS_PER_S * rate.denominator // rate.numerator for size in sizes_B.tolist()] for _, rate in kinds]
    if any(each > LONGEST_FS for row in exact for each in row):
        raise UsageError("a message that takes longer than 1,153 s", topology.name, "fewer bytes")
    busy = np.array(exact, np.int64).reshape(len(kinds), len(sizes_B))
    latency = np.array([latency_fs for latency_fs, _ in kinds], np.int64)
    through = busy + latency[:, None]
    cut = topology.forwarding == "cut-through"
    onward = np.broadcast_to(latency[:, None], busy.shape) if cut else through
    return Rules(kind_of, latency, busy, through, onward)


class Paths(NamedTuple):
    """Routes of messages: ``route_of`` is an index for each message; route r has the wires ``wires[start[r]:start[r +
    1]]``."""

    route_of: Ints
    start: Ints
    wires: Ints


def paths(topology: Topology, source: Ints, target: Ints) -> Paths:
    """Return the routes of messages; each pair of devices is looked up once. Raises UsageError where there is none."""
    pairs, route_of = np.unique(source * topology.ranks + target, return_inverse=True)
    routes = [topology.route(*divmod(pair, topology.ranks)) for pair in pairs.tolist()]
    wires = [wire for route in routes for wire in route]
    lengths = np.array([len(route) for route in routes], np.int64)
    return Paths(route_of.astype(np.int64), starts(lengths), np.array(wires, np.int64))


FEW = 200_000
"""Messages that plain Python has played before numba is loaded."""


def kernel(messages: int, kind: str = "") -> Callable[..., int]:
    """Return the event loop for so many messages: 'numba' (extra ``fast``), 'python', or '' for the faster available
    one. All give the same. ACCELSIM_KERNEL=python disables numba."""
    kept_out = os.environ.get("ACCELSIM_KERNEL", "") == "python" or (
        messages <= FEW and not _compiled.cache_info().currsize
    )
    plain = kind == "python" or (not kind and kept_out)
    return (None if plain else _compiled()) or play_kernel.run


@cache
def _compiled() -> Callable[..., int] | None:
    try:
        from accelsim.dram.compiled import compiled
    except ImportError:  # numba is not installed, or does not fit the NumPy of the day
        return None
    heap = {"heapify": heapify, "heappop": heappop, "heappush": heappush}
    return compiled((play_kernel,), {"__name__": __name__, **heap})["run"]


def play(
    topology: Topology, graph: MessageGraph, *, hops: Rules | None = None, classes: Ints | None = None, kind: str = ""
) -> Played:
    """Play the messages of a graph on a network, event by event.

    Each wire is a FIFO resource; events are taken by (time, message number), as
    ``accelsim.cluster.network.play_kernel`` states. ``hops``: other rules than those of the topology, whose columns are
    for the ``classes`` of messages. Raises UsageError where there is no route, a message waits for one that waits for
    it, or all takes longer than 4,611 s.
    """
    sizes_B, size_of = np.unique(graph.nbytes, return_inverse=True)
    if hops is None or classes is None:
        hops = rules(topology, sizes_B)
    else:
        size_of = classes
    found = paths(topology, graph.source, graph.target)
    after_start, after = _after(graph)
    loop = kernel(len(graph), kind)
    sizes = (len(topology.wires), *(len(graph),) * 3)
    free, ready, start, end = (np.zeros(many, np.int64) for many in sizes)
    columns = [found.start, found.wires, hops.kind_of, size_of, hops.busy.ravel(), hops.through.ravel(),
               hops.onward.ravel(), hops.latency, found.route_of, np.diff(graph.needs_start), after_start, after,
               ready, free, start, end]  # fmt: skip
    plain = loop is play_kernel.run
    given = [each.tolist() if plain else each.astype(np.int64) for each in columns]
    arrived = loop(*given[:4], hops.busy.shape[1], *given[4:13], topology.overhead_fs, *given[13:])
    if arrived != len(graph):
        why = "takes longer than 4,611 s" if arrived < 0 else "waits for messages that wait for it"
        raise UsageError(f"a message {why}", topology.name)
    start, end = (np.array(each, np.int64) for each in given[14:])
    finish = np.zeros(topology.ranks, np.int64)
    for ranks in (graph.source, graph.target):
        np.maximum.at(finish, ranks, end)
    return Played(*_carried(topology, graph.nbytes, size_of, hops, found), finish, start, end, topology)


def _after(graph: MessageGraph) -> tuple[Ints, Ints]:
    who = np.repeat(np.arange(len(graph)), np.diff(graph.needs_start))
    order = np.argsort(graph.needs, kind="stable")
    return starts(np.bincount(graph.needs, minlength=len(graph))), who[order]


def _carried(topology: Topology, nbytes: Ints, size_of: Ints, hops: Rules, found: Paths) -> tuple[Ints, Ints]:
    """Per wire how long it is busy, fs, and how many bytes it carries."""
    busy, carried = (np.zeros(len(topology.wires), np.int64) for _ in range(2))
    counts = np.diff(found.start)[found.route_of]
    message = np.repeat(np.arange(len(nbytes)), counts)
    place = np.arange(len(message)) - np.repeat(np.cumsum(counts) - counts, counts)
    wire = found.wires[found.start[found.route_of[message]] + place]
    np.add.at(carried, wire, nbytes[message])
    np.add.at(busy, wire, hops.busy[hops.kind_of[wire], size_of[message]])
    return busy, carried
