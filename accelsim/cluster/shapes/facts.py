"""Facts about a cluster: devices, and bandwidth in a node, between nodes, across the middle."""

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
    """Return the row of a valid cluster."""
    chips: dict[str, int] = {}
    for node in cluster.nodes.values():
        for each in node.devices.values():
            chips[each.chip] = chips.get(each.chip, 0) + node.count * each.count
    first = next(iter(cluster.nodes.values()))
    fabrics = [each for node in cluster.nodes.values() for each in node.fabrics.items()]
    inside = tuple(dict.fromkeys(f"{name}: {fabric.shape}" for name, fabric in fabrics))
    networks = tuple(f"{name}: {fabric.shape}" for name, fabric in cluster.networks.items())
    nodes, rates = (
        sum(node.count for node in cluster.nodes.values()),
        (inside_Bps(first), between_Bps(cluster, first)),
    )
    names, title = (cluster.name, cluster.title), cluster.collectives.title
    return Facts(*names, nodes, cluster.size, chips, inside, networks, *rates, title)


def inside_Bps(node: Node) -> Fraction:
    """Return the bandwidth of a node's first device to others over its fabrics, bytes per second."""
    return sum((_first_Bps(fabric, node) for fabric in node.fabrics.values()), Fraction(0))


def _first_Bps(fabric: Fabric, node: Node) -> Fraction:
    """Return the bandwidth of one fabric; that of a torus, which may be large, without its wires."""
    draft = Draft()
    if fabric.dims is not None:
        sizes = enumerate(zip(fabric.torus_links, fabric.dims, strict=True))
        wires = ((link, min(1 if at in fabric.open else 2, size - 1)) for at, (link, size) in sizes)
        return sum((draft.rate(link, fabric.links) * count for link, count in wires), Fraction(0))
    ends = [End(draft.vertex(label), label) for label in device_labels(node)]
    SHAPES[fabric.shape](draft, fabric, ends, "fabric")
    return sum((wire.rate for wire in draft.wires if wire.source == 0), Fraction(0))


def between_Bps(cluster: ClusterSpec, node: Node) -> Fraction:
    """Return a device's share of the bandwidth of its node to the network, over the oversubscription, bytes per
    second."""
    network = cluster.networks.get(cluster.network_of(node))
    if network is None:
        return Fraction(0)
    draft, nics = Draft(), node.nics
    rate = draft.rate((nics and nics.link) or network.link)
    if nics is not None:
        rate *= Fraction(nics.count, node.size)
        rate = rate if nics.pcie is None else min(rate, draft.rate(nics.pcie))
    return rate / Fraction(str(network.oversubscription))


def bisection_Bps(topology: Topology) -> Fraction:
    """Return the most that the first half of the ranks can send to the second half at once, bytes per second (least
    cut)."""
    half = topology.ranks // 2
    if len(topology.labels) == topology.ranks:
        return sum((wire.rate for wire in topology.wires if wire.source < half <= wire.target), Fraction(0))
    source, sink = len(topology.labels), len(topology.labels) + 1
    ample = sum((wire.rate for wire in topology.wires), Fraction(0))
    edges = [(wire.source, wire.target, wire.rate) for wire in topology.wires]
    edges += [(source, rank, ample) if rank < half else (rank, sink, ample) for rank in range(topology.ranks)]
    left: list[dict[int, Fraction]] = [{} for _ in range(sink + 1)]
    for a, b, rate in edges:
        left[a][b] = left[a].get(b, Fraction(0)) + rate
        left[b].setdefault(a, Fraction(0))
    total = Fraction(0)
    while path := _augmenting_path(left, source, sink):
        room = min(left[a][b] for a, b in path)
        for a, b in path:
            left[a][b] -= room
            left[b][a] += room
        total += room
    return total


def _augmenting_path(left: list[dict[int, Fraction]], source: int, sink: int) -> list[tuple[int, int]]:
    """Return a shortest path with room on it (Edmonds and Karp, 1972), [] when there is none."""
    before, waiting = {source: source}, deque([source])
    while waiting and sink not in before:
        at = waiting.popleft()
        for to, room in left[at].items():
            if room and to not in before:
                before[to] = at
                waiting.append(to)
    path, at = [], sink if sink in before else source
    while at != source:
        path.append((before[at], at))
        at = before[at]
    return path
