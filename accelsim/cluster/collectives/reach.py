"""Rings of a group of devices on a topology: bytes per second inside nodes and between them, latencies.

A library lays as many rings side by side as a node has devices in the group. All pass the nodes in one order; ring r
enters each node at its member r, so that every member sends its share out of the node over its own route. The bytes
of a collective are spread evenly over the rings, and the wire that is loaded most sets the pace.

A group that is a grid of a torus has rings along each dimension instead, in both directions at once: reduce-scatter
along one dimension after the other and all-gather back. Parts of a buffer begin with different dimensions, so that all
wires are in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.building import tori_of
from accelsim.cluster.shapes.wiring import strides
from accelsim.time import FS

UNBOUND = float("inf")
Edge = tuple[int, int]


class Reach(NamedTuple):
    """Rings of ``ranks`` devices on ``nodes`` nodes, at most ``members`` on one.

    ``inside_Bps``, ``between_Bps``: bytes per second that all rings together pass from each member to the next inside
    a node, from each node to the next (infinite where there is no such step); ``inside_s``, ``between_s``: latency of a
    message of no bytes there. ``energy_J_per_B``: of all wires of all steps of a ring, per byte that each passes on.
    ``sums``: one switch that adds up lies on the route of every step. ``length``: devices of a ring as long as all
    rings of a grid one after the other, 0 without a grid; ``hops``: wires of a mean route between two of its devices.
    """

    ranks: int
    nodes: int
    members: int
    inside_Bps: float
    between_Bps: float
    inside_s: float
    between_s: float
    energy_J_per_B: float
    sums: bool = False
    length: int = 0
    hops: float = 1.0


class RingEdges(NamedTuple):
    """Steps from a device to the next in the rings of a group: its members by node, steps inside nodes and between
    them, the number of rings side by side, and the share of the bytes that each step inside a node carries.
    ``length`` and ``hops`` as in ``Reach``."""

    nodes: list[list[int]]
    inside: list[Edge]
    between: list[Edge]
    channels: int
    share: float = 1.0
    length: int = 0
    hops: float = 1.0


def ring_edges(topology: Topology, group: Sequence[int]) -> RingEdges:
    """Return the steps of all rings of a group; a step inside a node is in all rings but one, where there are
    several nodes."""
    if (found := _grid(topology, group)) is not None:
        return found
    by_node: dict[int, list[int]] = {}
    for rank in group:
        by_node.setdefault(topology.groups[rank], []).append(rank)
    nodes = list(by_node.values())
    inside = [edge for each in nodes for edge in _circle(each)]
    if len(nodes) == 1:
        return RingEdges(nodes, inside, [], 1)
    channels = max(map(len, nodes))
    between = [
        (node[(r - 1) % len(node)], following[r % len(following)])
        for r in range(channels)
        for node, following in zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    ]
    return RingEdges(nodes, inside, between, channels, (channels - 1) / channels)


def _grid(topology: Topology, group: Sequence[int]) -> RingEdges | None:
    """Return the steps along all dimensions of a group that is a grid of two or more dimensions of one torus, joined
    by its wires; else None."""
    torus = next((each for each in tori_of(topology.router) if set(group) <= each.places.keys()), None)
    if torus is None:
        return None
    places = [torus.places[rank] for rank in group]
    sides = [len({place // stride % size for place in places}) for _, size, stride in strides(torus.dims)]
    if prod(sides) != len(group) or sum(side > 1 for side in sides) < 2 or _direct_Bps(topology, group) is None:
        return None
    own = set(group)
    edges = [(wire.source, wire.target) for wire in topology.wires if wire.source in own and wire.target in own]
    whole = [side == size for side, size in zip(sides, torus.dims, strict=True)]
    hops = sum(_mean_hops(side, whole[at] and at not in torus.unjoined) for at, side in enumerate(sides))
    share, length = len(own) / len(edges), sum(side - 1 for side in sides) + 1
    return RingEdges([list(group)], edges, [], 1, share, length, hops)


def _mean_hops(side: int, joined: bool) -> float:
    """Return the mean distance of two places of a ring or, not ``joined``, of a line; a place may be both."""
    return side**2 // 4 / side if joined else (side**2 - 1) / (3 * side)


def _circle(members: Sequence[int]) -> list[Edge]:
    return list(zip(members, [*members[1:], members[0]], strict=True)) if len(members) > 1 else []


@lru_cache(maxsize=4096)
def reach(topology: Topology, group: tuple[int, ...]) -> Reach:
    """Return the rings of a group of devices, none twice. Raises UsageError where no route joins two of them."""
    nodes, inside, between, channels, each_carries, length, hops = ring_edges(topology, group)
    summing = set(topology.summing)
    for a, b in (*inside, *between):
        summing &= {topology.wires[wire].target for wire in topology.route(a, b)}

    def energy_J_per_B(edges: Sequence[Edge]) -> float:
        return sum(topology.wires[wire].energy_J_per_B for a, b in edges for wire in topology.route(a, b))

    return Reach(
        len(group),
        len(nodes),
        max(map(len, nodes)),
        min((_inside_Bps(topology, each) for each in nodes if len(each) > 1), default=UNBOUND),
        _paced(topology, between, channels),
        max((topology.message_fs(a, b, 0) * FS for a, b in inside), default=0.0),
        max((topology.message_fs(a, b, 0) * FS for a, b in between), default=0.0),
        energy_J_per_B(inside) * each_carries + energy_J_per_B(between) / channels,
        bool(summing),
        length,
        hops,
    )


def _inside_Bps(topology: Topology, members: Sequence[int]) -> float:
    """Return the bandwidth of rings over the members of a node.

    Where wires join them directly, several rings use all of these (NVLink without a switch, a torus): the member with
    the least bandwidth to others sets the pace. Otherwise one ring through the switches.
    """
    direct = _direct_Bps(topology, members)
    return direct if direct is not None else _paced(topology, _circle(members), 1)


def _direct_Bps(topology: Topology, members: Sequence[int]) -> float | None:
    """Least sum of the rates of wires from a member to others; None where these wires do not join all members."""
    own = set(members)
    wires = [wire for wire in topology.wires if wire.source in own and wire.target in own]
    joined, reached = {members[0]}, -1
    while len(joined) > reached:
        reached = len(joined)
        joined |= {wire.target for wire in wires if wire.source in joined}
    if joined != own:
        return None
    rates = dict.fromkeys(members, 0.0)
    for wire in wires:
        rates[wire.source] += float(wire.rate)
    return min(rates.values())


def _paced(topology: Topology, edges: Sequence[Edge], channels: int) -> float:
    """Bytes per second that edges pass on together, each ``1 / channels`` of them, by the wire that is loaded most."""
    uses = Counter(wire for a, b in edges for wire in topology.route(a, b))
    return min((float(topology.wires[wire].rate) * channels / count for wire, count in uses.items()), default=UNBOUND)
