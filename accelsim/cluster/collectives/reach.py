"""Rings of a group of devices on a topology: bytes per second inside nodes and between them, latencies.

A library lays as many rings side by side as a node has devices in the group. All pass the nodes in one order; ring r
enters each node at its member r, so that every member sends its share out of the node over its own route. The bytes
of a collective are spread evenly over the rings, and the wire that is loaded most sets the pace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from accelsim.cluster.network.topology import Topology
from accelsim.time import FS

UNBOUND = float("inf")
Edge = tuple[int, int]


class Reach(NamedTuple):
    """Rings of ``ranks`` devices on ``nodes`` nodes, at most ``members`` on one.

    ``inside_Bps``, ``between_Bps``: bytes per second that all rings together pass from each member to the next inside
    a node, from each node to the next (infinite where there is no such step); ``inside_s``, ``between_s``: latency of a
    message of no bytes there. ``energy_J_per_B``: of all wires of all steps of a ring, per byte that each passes on.
    ``sums``: one switch that adds up lies on the route of every step.
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


class RingEdges(NamedTuple):
    """Steps from a device to the next in the rings of a group: its members by node, steps inside nodes and between
    them, and the number of rings side by side."""

    nodes: list[list[int]]
    inside: list[Edge]
    between: list[Edge]
    channels: int


def ring_edges(topology: Topology, group: Sequence[int]) -> RingEdges:
    """Return the steps of all rings of a group; a step inside a node is in all rings but one, where there are
    several nodes."""
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
    return RingEdges(nodes, inside, between, channels)


def _circle(members: Sequence[int]) -> list[Edge]:
    return list(zip(members, [*members[1:], members[0]], strict=True)) if len(members) > 1 else []


@lru_cache(maxsize=4096)
def reach(topology: Topology, group: tuple[int, ...]) -> Reach:
    """Return the rings of a group of devices, none twice. Raises UsageError where no route joins two of them."""
    nodes, inside, between, channels = ring_edges(topology, group)
    summing = set(topology.summing)
    for a, b in (*inside, *between):
        summing &= {topology.wires[wire].target for wire in topology.route(a, b)}

    def energy_J_per_B(edges: Sequence[Edge]) -> float:
        return sum(topology.wires[wire].energy_J_per_B for a, b in edges for wire in topology.route(a, b))

    share = (channels - 1) / channels if between else 1.0
    return Reach(
        len(group),
        len(nodes),
        max(map(len, nodes)),
        min((_inside_Bps(topology, each) for each in nodes if len(each) > 1), default=UNBOUND),
        _paced(topology, between, channels),
        max((topology.message_fs(a, b, 0) * FS for a, b in inside), default=0.0),
        max((topology.message_fs(a, b, 0) * FS for a, b in between), default=0.0),
        energy_J_per_B(inside) * share + energy_J_per_B(between) / channels,
        bool(summing),
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
