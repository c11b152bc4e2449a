"""Model of a communication library: time by algorithm and protocol, of which the library takes the fastest.

A protocol moves the bytes of a step with a share of a link's bandwidth and a latency of its own, inside a node and
between nodes; these constants stand in the block ``collectives:`` of a cluster and are fitted to measurements. With n
ranks on k nodes of g, S bytes and a bandwidth B = min(share x inside, share x between, flow), for trees g x tree_flow:

* ring: launch + base + steps x latency + S x passes / B + fill x min(S / n, chunk) / B, where an all-reduce has
  2 (n - 1) steps, 2 (k - 1) of them between nodes, and passes 2 (n - 1) / n of its bytes through every link;
* tree (all-reduce over several nodes): launch + base + 2 ((g - 1) x inside + log2 k x between) + 2 S / B;
* one-shot, two-shot, switch (all-reduce by protocols that name these): see ``SHOTS``;
* all_to_all: what a device sends to others of its node, at share x inside or ``lane`` for each other device, or what a
  node sends to others, at share x between: the longer of the two. Pieces go directly, so ``flow`` does not bind.

Form and names are those of NCCL's own tuning (src/graph/tuning.cc), which has one more constant for each size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from accelsim.cluster.collectives.reach import Reach, reach
from accelsim.cluster.network.topology import Topology
from accelsim.errors import Problem, UsageError, nearest
from accelsim.spec.collectives import Collectives, Protocol
from accelsim.types import Array, Floats, Ints

Sizes = int | Ints


@dataclass(frozen=True)
class Estimate:
    """Time of a collective by one algorithm and protocol: ``time_s``, of which ``latency_s`` are launch and steps.

    ``bus_Bps``: bytes that pass each link, per second of the whole time. ``energy_J``: of all links.
    """

    algorithm: str
    protocol: str
    time_s: float
    latency_s: float
    bus_Bps: float
    energy_J: float


@dataclass(frozen=True)
class Kind:
    """A collective around a ring: its steps by ranks, its steps between nodes by nodes, the share of its bytes that
    passes each link, the share that one step moves."""

    steps: Callable[[int], int]
    between: Callable[[int], int]
    passes: Callable[[int], float]
    piece: Callable[[int], float]


def _ring(rounds: int, whole: bool = False) -> Kind:
    """A collective that goes round ``rounds`` times; ``whole``: all of its bytes pass every link."""
    return Kind(
        steps=lambda n: rounds * (n - 1),
        between=lambda k: rounds * (k - 1),
        passes=lambda n: 1.0 if whole else rounds * (n - 1) / n,
        piece=lambda n: 0.0 if whole else 1 / n,
    )


KINDS: dict[str, Kind] = {
    "all_reduce": _ring(2),
    "reduce_scatter": _ring(1),
    "all_gather": _ring(1),
    "all_to_all": _ring(1),
    "broadcast": _ring(1, whole=True),
    "reduce": _ring(1, whole=True),
    "send_recv": Kind(lambda n: 1, lambda k: int(k > 1), lambda n: 1.0, lambda n: 1.0),
}
"""Kind of collective -> what its ring does. Bytes are those of the full result (all-gather) or operand (the others)."""


class Shot(NamedTuple):
    """An all-reduce that is no ring: its steps and the share of its bytes that pass each device's links, by ranks."""

    steps: Callable[[int], int]
    passes: Callable[[int], float]


SHOTS: dict[str, Shot] = {
    "one-shot": Shot(lambda n: n - 1, lambda n: n - 1),
    "two-shot": Shot(lambda n: n - 1, lambda n: 2 * (n - 1) / n),
    "switch": Shot(lambda n: 2, lambda n: (n + 1) / n),
}
"""Algorithm -> what it does. Kernels of serving stacks signal each other device once. With a switch that adds up, a
device sends its buffer and one part of the sum, and receives one part and the whole sum."""
SMALLEST = 64
"""Bytes of the first correction of trees."""
TREES = ("all_reduce",)
"""Kinds that a library runs as trees as well."""


def serving(software: Collectives, kind: str, nbytes: int, dtype: str = "") -> list[tuple[str, Protocol]]:
    """Return the protocols that run a kind of ``nbytes``: those that name it, else those that name none. If all are for
    smaller messages, return the one for the largest. ``dtype``: number format, '' if unknown."""
    known = [item for item in software.protocols.items() if not dtype or dtype in (item[1].formats or (dtype,))]
    named = [item for item in known if kind in (item[1].kinds or ())]
    open_to = named or [item for item in known if item[1].kinds is None]
    fitting = [item for item in open_to if item[1].largest is None or nbytes <= item[1].largest]
    return fitting or sorted(open_to, key=lambda item: item[1].largest or 0)[-1:]


def estimates(
    topology: Topology,
    software: Collectives,
    kind: str,
    nbytes: int,
    group: Sequence[int] | None = None,
    dtype: str = "",
) -> list[Estimate]:
    """Return every algorithm and protocol for a collective of ``nbytes`` over ``group`` (None: all ranks): first the
    library's choice, then the others of its algorithm, then the rest, each by time.

    Raises UsageError for an unknown kind, a group of fewer than two, a member twice, devices that no route joins, and
    where no protocol of the library can do it.
    """
    members = tuple(range(topology.ranks)) if group is None else tuple(group)
    _check(kind, members)
    rings = reach(topology, members)
    found = [
        estimate
        for name, protocol in serving(software, kind, nbytes, dtype)
        for estimate in _by(rings, software.launch, kind, nbytes, name, protocol)
    ]
    if not found:
        what = f"{software.title} has no protocol for {kind} among {len(members)} of these devices"
        raise UsageError(what, topology.name, "another library or --algorithm")
    taken = str(planned(rings, software, kind, nbytes))
    return sorted(found, key=lambda each: (taken not in ("", each.algorithm), each.time_s))


def estimate(
    topology: Topology,
    software: Collectives,
    kind: str,
    nbytes: int,
    group: Sequence[int] | None = None,
    dtype: str = "",
) -> Estimate:
    """Return the library's choice, the first of ``estimates``. Raises UsageError as that does."""
    return estimates(topology, software, kind, nbytes, group, dtype)[0]


def called_eagerly(software: Collectives, seconds: float | Floats, nbytes: Sizes) -> Floats:
    """Return the times of collectives, s, where a host calls each by itself. Raises UsageError where that is not
    known."""
    host = software.host
    if host is None:
        what = f"what a host adds to a call of {software.title} is not known"
        raise UsageError(what, "", "a library that has `host`, or the caller 'graph'")
    copied = np.asarray(nbytes) / host.copy_rate if host.copy_rate else 0.0
    found: Floats = np.maximum(seconds + copied, host.least)
    return found


def planned(rings: Reach, software: Collectives, kind: str, nbytes: Sizes) -> Array:
    """Return 'ring' or 'tree' for each size, whichever the library expects to be faster; '' where it has no such plan
    and takes the fastest."""
    plan, sizes = software.plan, np.asarray(nbytes)
    if plan is None or kind not in TREES or rings.nodes == 1:
        return np.full(sizes.shape, "", dtype="<U4")
    what = KINDS[kind]
    between = what.between(rings.nodes)
    ring = (what.steps(rings.ranks) - between) * plan.inside + between * plan.between
    tree = _rounds(rings, plan.tree_inside, plan.tree_between)
    place = np.clip(np.log2(np.maximum(sizes, SMALLEST) / SMALLEST).astype(int), 0, len(plan.correction) - 1)
    trees = plan.trees * np.asarray(plan.correction)[place]
    by_ring, by_tree = ring + sizes * what.passes(rings.ranks) / plan.rings, tree + 2 * sizes / trees
    return np.where(by_ring <= by_tree, "ring", "tree")


def _check(kind: str, members: Sequence[int]) -> None:
    problems = []
    if kind not in KINDS:
        problems.append(Problem(f"no collective {kind!r}", "", "one of " + ", ".join(KINDS), nearest(kind, KINDS)))
    if len(members) < 2 or len(set(members)) < len(members):
        problems.append(Problem(f"a group of {list(members)}", "", "two devices or more, none twice"))
    UsageError.raise_for(problems)


def protocol_times(
    rings: Reach, launch: float, kind: str, nbytes: Sizes, protocol: Protocol
) -> Iterator[tuple[str, float, Floats]]:
    """Yield (algorithm, latency in s, time in s of each size) for the algorithms of one protocol."""
    if protocol.algorithm != "ring":
        yield from _shots(rings, launch, kind, nbytes, protocol)
        return
    what, rate = KINDS[kind], rate_Bps(rings, protocol, protocol.flow)
    piece = np.minimum(np.asarray(nbytes) * what.piece(rings.ranks), protocol.chunk or float("inf"))
    passed = np.asarray(nbytes) * what.passes(rings.ranks)
    if kind == "send_recv":
        rate = min(rate, _lanes_Bps(protocol, rings.ranks))
    moving = _exchanged(rings, nbytes, protocol) if kind == "all_to_all" else passed / rate
    found = [("ring", _ring_latency(rings, kind, protocol), moving + protocol.fill * piece / rate)]
    if kind in TREES and rings.nodes > 1:
        flow = None if protocol.tree_flow is None else rings.members * protocol.tree_flow
        moving = 2 * np.asarray(nbytes) / rate_Bps(rings, protocol, flow)
        found.append(("tree", _tree_latency(rings, protocol), moving))
    for algorithm, latency, moving in found:
        yield algorithm, launch + latency, np.maximum(launch + latency + moving, protocol.least)


def _shots(
    rings: Reach, launch: float, kind: str, nbytes: Sizes, protocol: Protocol
) -> Iterator[tuple[str, float, Floats]]:
    """Yield the algorithm of a protocol that is no ring: inside a node, or through a switch that adds up; else none."""
    able = rings.sums if protocol.algorithm == "switch" else rings.nodes == 1
    if kind == "all_reduce" and able:
        shot = SHOTS[protocol.algorithm]
        step = _first(protocol.inside, rings.inside_s)
        latency = launch + protocol.base + shot.steps(rings.ranks) * step
        rate = min(rate_Bps(rings, protocol, None), _lanes_Bps(protocol, rings.ranks))
        moving = np.asarray(nbytes) * shot.passes(rings.ranks) / rate
        yield protocol.algorithm, latency, np.maximum(latency + moving, protocol.least)


def _exchanged(rings: Reach, nbytes: Sizes, protocol: Protocol) -> Floats:
    """Time in s of moving an all_to_all: each device sends an equal part of its buffer to each."""
    sizes, ranks, members = np.asarray(nbytes), rings.ranks, rings.members
    inside_Bps = min(rings.inside_Bps * protocol.share, _lanes_Bps(protocol, members))
    inside = sizes * (members - 1) / ranks / inside_Bps * rings.hops
    share = protocol.share_between or protocol.share
    found: Floats = np.maximum(inside, sizes * members * (ranks - members) / ranks / (rings.between_Bps * share))
    return found


def _lanes_Bps(protocol: Protocol, ranks: int) -> float:
    return float("inf") if protocol.lane is None else protocol.lane * max(1, ranks - 1)


def _by(rings: Reach, launch: float, kind: str, nbytes: int, name: str, protocol: Protocol) -> Iterator[Estimate]:
    """Yield the algorithms of one protocol for one size."""
    passed = nbytes * KINDS[kind].passes(rings.ranks)
    for algorithm, latency, times in protocol_times(rings, launch, kind, nbytes, protocol):
        seconds = float(times)
        carried = nbytes * SHOTS[algorithm].passes(rings.ranks) if algorithm in SHOTS else passed
        energy = rings.energy_J_per_B * carried * (0.5 if kind == "send_recv" else 1.0)
        bus = passed / seconds if seconds else 0.0
        yield Estimate(algorithm, name, seconds, latency, bus, energy)


def rate_Bps(rings: Reach, protocol: Protocol, flow: float | None) -> float:
    """Return bytes per second around the ring by a protocol; between nodes at most ``flow``."""
    between = rings.between_Bps * (protocol.share_between or protocol.share)
    most = flow if flow is not None and rings.nodes > 1 else float("inf")
    return min(rings.inside_Bps * protocol.share, between, most)


def _ring_latency(rings: Reach, kind: str, protocol: Protocol) -> float:
    what = KINDS[kind]
    between = what.between(rings.nodes)
    inside = what.steps(rings.length or rings.ranks) - between
    return (
        protocol.base
        + inside * _first(protocol.inside, rings.inside_s)
        + between * _first(protocol.between, rings.between_s)
    )


def _tree_latency(rings: Reach, protocol: Protocol) -> float:
    inside = _first(protocol.tree_inside, protocol.inside, rings.inside_s)
    between = _first(protocol.tree_between, protocol.between, rings.between_s)
    base = _first(protocol.tree_base, protocol.base)
    return base + _rounds(rings, inside, between)


def _rounds(rings: Reach, inside: float, between: float) -> float:
    return 2 * ((rings.members - 1) * inside + ceil(log2(rings.nodes)) * between)


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)
