"""Facts about a cluster: how many devices, their bandwidth in a node, between nodes, across the cut."""

from __future__ import annotations

from collections import deque
from fractions import Fraction
from typing import NamedTuple

from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.wiring import SHAPES, Draft, End
from accelsim.spec.cluster import ClusterSpec, Fabric, Node, device_labels


class Facts(NamedTuple):
    """A row of the list of clusters. Bandwidths are those of one direction, bytes per second; 0 where there is none.

    ``inside_Bps``: what the first device can send over the fabrics of its node; ``between_Bps``: its share of the cards
    and of the uplinks of the network.
    """

    name: str
    title: str
    nodes: int
    devices: int
    chips: dict[str, int]
    fabrics: tuple[str, ...]
    networks: tuple[str, ...]
    inside_Bps: Fraction
    between_Bps: Fraction
    software: str


def facts(cluster: ClusterSpec) -> Facts:
    """The row of a cluster whose laws hold."""
    chips: dict[str, int] = {}
    for node in cluster.nodes.values():
        for each in node.devices.values():
            chips[each.chip] = chips.get(each.chip, 0) + node.count * each.count
    first = next(iter(cluster.nodes.values()))
    kinds = [
        f"{name}: {fabric.shape}" for node in cluster.nodes.values() for name, fabric in node.fabrics.items()
    ]
    return Facts(
        cluster.name,
        cluster.title,
        sum(node.count for node in cluster.nodes.values()),
        cluster.size,
        chips,
        tuple(dict.fromkeys(kinds)),
        tuple(f"{name}: {fabric.shape}" for name, fabric in cluster.networks.items()),
        inside_Bps(first),
        between_Bps(cluster, first),
        cluster.collectives.title,
    )


def inside_Bps(node: Node) -> Fraction:
    """Return what the first device of a node can send to others of it over its fabrics, bytes per second."""
    return sum((_first_Bps(fabric, node) for fabric in node.fabrics.values()), Fraction(0))


def _first_Bps(fabric: Fabric, node: Node) -> Fraction:
    """The same over one fabric; that of a torus, which may be large, without its wires."""
    draft = Draft()
    if fabric.dims is not None:
        return draft.rate(fabric.link, fabric.links) * sum(min(2, size - 1) for size in fabric.dims)
    ends = [End(draft.vertex(label), label) for label in device_labels(node)]
    SHAPES[fabric.shape](draft, fabric, ends, "fabric")
    return sum((wire.rate for wire in draft.wires if wire.source == 0), Fraction(0))


def between_Bps(cluster: ClusterSpec, node: Node) -> Fraction:
    """The share of a device in what its node can send to its network, over the oversubscription, bytes per second."""
    network = cluster.networks.get(cluster.network_of(node))
    if network is None:
        return Fraction(0)
    draft, nics = Draft(), node.nics
    link = network.link if nics is None or nics.link is None else nics.link
    rate = draft.rate(link) * Fraction(1 if nics is None else nics.count, 1 if nics is None else node.size)
    if nics is not None and nics.pcie is not None:
        rate = min(rate, draft.rate(nics.pcie))
    return rate / Fraction(str(network.oversubscription))


def bisection_Bps(topology: Topology) -> Fraction:
    """Most that the first half of the ranks can send to the second half at once, bytes per second: the least cut."""
    half = topology.ranks // 2
    if len(topology.labels) == topology.ranks:
        return sum((wire.rate for wire in topology.wires if wire.source < half <= wire.target), Fraction(0))
    return _Flow(topology, half).most()


class _Flow:
    """The largest flow from some ranks to the others, by shortest augmenting ways (Edmonds and Karp, 1972)."""

    def __init__(self, topology: Topology, half: int) -> None:
        self.source, self.sink = len(topology.labels), len(topology.labels) + 1
        self.left: list[dict[int, Fraction]] = [{} for _ in range(len(topology.labels) + 2)]
        for wire in topology.wires:
            self._add(wire.source, wire.target, wire.rate)
        ample = sum((wire.rate for wire in topology.wires), Fraction(0))
        for rank in range(topology.ranks):
            ends = (self.source, rank) if rank < half else (rank, self.sink)
            self._add(*ends, ample)

    def _add(self, a: int, b: int, rate: Fraction) -> None:
        self.left[a][b] = self.left[a].get(b, Fraction(0)) + rate
        self.left[b].setdefault(a, Fraction(0))

    def most(self) -> Fraction:
        """The flow, bytes per second."""
        total = Fraction(0)
        while way := self._way():
            room = min(self.left[a][b] for a, b in way)
            for a, b in way:
                self.left[a][b] -= room
                self.left[b][a] += room
            total += room
        return total

    def _way(self) -> list[tuple[int, int]]:
        """A shortest way with room on it, [] when there is none."""
        before = {self.source: self.source}
        waiting = deque([self.source])
        while waiting and self.sink not in before:
            at = waiting.popleft()
            for to, room in self.left[at].items():
                if room and to not in before:
                    before[to] = at
                    waiting.append(to)
        if self.sink not in before:
            return []
        way, at = [], self.sink
        while at != self.source:
            way.append((before[at], at))
            at = before[at]
        return way[::-1]
