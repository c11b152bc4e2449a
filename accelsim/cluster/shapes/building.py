"""Cluster spec -> topology: nodes with their fabrics, cards, networks, what joins these; its chips and their pace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.draft import Built, Draft, End, fs_of
from accelsim.cluster.shapes.registry import SHAPES
from accelsim.cluster.shapes.routes import ClusterRouter, Torus
from accelsim.errors import Problem, SpecError
from accelsim.spec.chip import Chip
from accelsim.spec.cluster import ClusterSpec, Fabric, Node, device_labels
from accelsim.spec.yaml.chips import load_chip

WIDE_AREA = "wide-area"
"""How the wires of the wide area are called."""


def build(cluster: ClusterSpec) -> Topology:
    """The topology of a cluster whose laws hold. Devices come first, in the order of ranks, then what joins them."""
    draft, tori, cards = Draft(), list[Torus](), list[int]()
    groups = _devices(draft, cluster)
    ends: dict[str, list[End]] = {name: [] for name in cluster.networks}
    rank = 0
    for label, node in cluster.each_node():
        own = [End(vertex, device) for vertex, device in enumerate(device_labels(node), start=rank)]
        rank += len(own)
        for name, fabric in node.fabrics.items():
            _wire(draft, fabric, own, f"{label}.{name}", name, tori)
        if _needed(cluster, cluster.network_of(node)):
            ends[cluster.network_of(node)] += _outside(draft, node, label, own, cards)
    sites = [
        (name, _wire(draft, fabric, ends[name], name, name, tori))
        for name, fabric in cluster.networks.items()
        if ends[name]
    ]
    if cluster.wide_area is not None:
        gates = [End(built.hubs[0], name) for name, built in sites]
        SHAPES[cluster.wide_area.shape](draft, cluster.wide_area, gates, WIDE_AREA)
    return _topology(cluster, draft, groups, tori, cards)


def _devices(draft: Draft, cluster: ClusterSpec) -> list[int]:
    """A vertex per device; the number of the node of each."""
    groups = []
    for number, (label, node) in enumerate(cluster.each_node()):
        draft.labels += device_labels(node, label)
        groups += [number] * node.size
    return groups


def _wire(
    draft: Draft, fabric: Fabric, ends: Sequence[End], label: str, name: str, tori: list[Torus]
) -> Built:
    """Wire the ends of one fabric; note its torus, if it is one of devices."""
    first = len(draft.wires)
    built = SHAPES[fabric.shape](draft, fabric, ends, label)
    draft.wires[first:] = [wire._replace(link=name) for wire in draft.wires[first:]]
    if built.torus:
        tori.append(Torus(tuple(fabric.dims or ()), tuple(end.vertex for end in ends), built.torus))
    return built


def _needed(cluster: ClusterSpec, network: str) -> bool:
    """Return whether a network has anything to join: several nodes, or its site to others."""
    if not network:
        return False
    count = sum(node.count for node in cluster.nodes.values() if cluster.network_of(node) == network)
    return count > 1 or cluster.wide_area is not None


def _outside(draft: Draft, node: Node, label: str, own: Sequence[End], shared: list[int]) -> list[End]:
    """Return what a node shows to its network: its cards, each with a wire to its devices, or the devices themselves.

    Cards that several devices share are noted in ``shared``.
    """
    nics = node.nics
    named = [end._replace(label=f"{label}.{end.label}") for end in own]
    if nics is None:
        return named
    ports = max(1, nics.count // len(own))
    if nics.pcie is None:
        return [end._replace(ports=ports, link=nics.link) for end in named]
    cards = min(nics.count, len(own))
    made: list[End] = []
    for index in range(cards):
        card = f"{label}.nic{index}"
        made.append(End(draft.vertex(card), card, ports, nics.link))
    for index, end in enumerate(own):
        draft.join(end.vertex, made[index * cards // len(own)].vertex, "pcie", nics.pcie, latency_fs=0)
    shared += [end.vertex for end in made] if cards < len(own) else []
    return made


def _topology(
    cluster: ClusterSpec, draft: Draft, groups: list[int], tori: Sequence[Torus], cards: Sequence[int]
) -> Topology:
    alone = len(set(groups)) == 1 and len(tori) == 1 and len(tori[0].places) == len(groups)
    if alone:  # of one torus that is a node, the rows
        groups = [rank // tori[0].dims[0] for rank in range(len(groups))]
    return Topology(
        cluster.name,
        len(groups),
        tuple(draft.labels),
        tuple(draft.wires),
        tuple(groups),
        cluster.forwarding,
        fs_of(cluster.collectives.message),
        ClusterRouter(tori, len(draft.labels), draft.wires, cards) if tori or cards else None,
        frozenset(draft.summing),
    )


def devices(cluster: ClusterSpec) -> tuple[Chip, ...]:
    """The chip of each rank, equal ones the same object. SpecError with the problems of all chips at once."""
    loaded: dict[tuple[str, ...], Chip] = {}
    problems: list[Problem] = []
    for node in cluster.nodes.values():
        for each in node.devices.values():
            key = (each.chip, *each.settings)
            try:
                loaded[key] = loaded.get(key) or load_chip(each.chip, each.settings)
            except SpecError as error:
                problems += error.problems
    if problems:
        raise SpecError(dict.fromkeys(problems))
    return tuple(
        loaded[each.chip, *each.settings]
        for _, node in cluster.each_node()
        for each in node.devices.values()
        for _ in range(each.count)
    )


class Share(NamedTuple):
    """Share of a device in the memory of its host: bytes per second, bytes."""

    rate_Bps: float
    capacity_B: int


def hosts(cluster: ClusterSpec) -> tuple[Share | None, ...]:
    """The share of each rank in the memory of its host, None where the cluster does not say."""
    return tuple(share for _, node in cluster.each_node() for share in (_share(node),) * node.size)


def _share(node: Node) -> Share | None:
    if node.host is None:
        return None
    return Share(float(node.host.bandwidth) / node.size, node.host.capacity // node.size)


def speeds(cluster: ClusterSpec) -> tuple[float, ...]:
    """Pace of each rank as a share of that of its chip: of its kind of device times its own."""
    return tuple(
        each.speed * cluster.speeds.get(f"{label}.{name}{index}", 1.0)
        for label, node in cluster.each_node()
        for name, each in node.devices.items()
        for index in range(each.count)
    )
