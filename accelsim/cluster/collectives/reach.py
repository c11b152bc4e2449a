"""Rings of a group of devices on a topology: bytes per second inside nodes and between them, latencies.

A library lays as many rings side by side as a node has devices in the group. All pass the nodes in one order; ring r
enters each node at its member r, so that every member sends a share of what leaves the node by its own way. The bytes
of a collective are spread evenly over the rings, and the wire that is loaded most sets the pace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from accelsim.cluster.network.topology import Topology
from accelsim.time import FS

UNBOUND = float("inf")


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


@lru_cache(maxsize=4096)
def reach(topology: Topology, group: tuple[int, ...]) -> Reach:
    """The rings of a group (devices, none twice). UsageError where no way leads from one to another."""
    nodes = _by_node(topology, group)
    members = max(len(each) for each in nodes)
    inside = [edge for each in nodes for edge in _circle(each)]
    channels = members if len(nodes) > 1 else 1
    between = [
        (node[(r - 1) % len(node)], following[r % len(following)])
        for r in range(channels)
        for node, following in zip(nodes, [*nodes[1:], nodes[0]], strict=True)
        if node is not following
    ]
    return Reach(
        len(group), len(nodes), members,
        min((_inside_Bps(topology, each) for each in nodes if len(each) > 1), default=UNBOUND),
        _paced(topology, between, channels),
        max((topology.message_fs(a, b, 0) * FS for a, b in inside), default=0.0),
        max((topology.message_fs(a, b, 0) * FS for a, b in between), default=0.0),
        _energy(topology, inside, between, channels),
        _sums(topology, [*inside, *between]),
    )  # fmt: skip


def _by_node(topology: Topology, group: Sequence[int]) -> list[list[int]]:
    """Members by node, both in the order of the group."""
    found: dict[int, list[int]] = {}
    for rank in group:
        found.setdefault(topology.groups[rank], []).append(rank)
    return list(found.values())


def _circle(members: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each member and the next; nothing of a single one."""
    if len(members) > 1:
        yield from zip(members, [*members[1:], members[0]], strict=True)


def _inside_Bps(topology: Topology, members: Sequence[int]) -> float:
    """Return the bandwidth of rings over the members of a node.

    Where wires join them directly, several rings use all of these (NVLink without a switch, a torus): the member with
    the least bandwidth to others sets the pace. Otherwise one ring through the switches.
    """
    direct = _direct_Bps(topology, members)
    return direct if direct is not None else _paced(topology, list(_circle(members)), 1)


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


def _paced(topology: Topology, edges: Sequence[tuple[int, int]], channels: int) -> float:
    """Bytes per second that edges pass on together, each ``1 / channels`` of them, by the wire that is loaded most."""
    uses = Counter(wire for a, b in edges for wire in topology.route(a, b))
    return min(
        (float(topology.wires[wire].rate) * channels / count for wire, count in uses.items()), default=UNBOUND
    )


def _sums(topology: Topology, edges: Sequence[tuple[int, int]]) -> bool:
    found = set(topology.summing)
    for a, b in edges:
        found &= {topology.wires[wire].target for wire in topology.route(a, b)}
    return bool(found)


def _energy(
    topology: Topology, inside: Sequence[tuple[int, int]], between: Sequence[tuple[int, int]], channels: int
) -> float:
    """Return the energy of a byte passed on along every edge, J; of several nodes each edge inside is in all rings
    but one."""

    def of(edges: Sequence[tuple[int, int]]) -> float:
        return sum(topology.wires[wire].energy_J_per_B for a, b in edges for wire in topology.route(a, b))

    share = (channels - 1) / channels if between else 1.0
    return of(inside) * share + of(between) / channels
