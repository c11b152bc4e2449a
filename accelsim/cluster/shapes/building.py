"""Topology and devices of a cluster, and routes that the rule of the fewest hops alone would not find.

Between two devices of one torus the route follows the dimensions. A card that several devices share is the end of each
of them, so no route leads through it from one to another where there is any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from accelsim.cluster.network.topology import Routes, Topology, Wire
from accelsim.cluster.shapes.wiring import SHAPES, Built, Draft, End, fs_of, steps
from accelsim.errors import Problem, SpecError
from accelsim.spec.chip import Chip
from accelsim.spec.cluster import ClusterSpec, Fabric, Node, device_labels
from accelsim.spec.yaml.chips import load_chip


class Torus:
    """A torus of devices: its dimensions, the ranks at its places, its wires by (place, dimension, direction), and the
    dimensions whose edges do not meet."""

    def __init__(
        self,
        dims: tuple[int, ...],
        ranks: tuple[int, ...],
        wires: dict[tuple[int, int, int], int],
        unjoined: tuple[int, ...] = (),
    ) -> None:
        self.dims, self.wires, self.unjoined = dims, wires, unjoined
        self.places = {rank: place for place, rank in enumerate(ranks)}

    def path(self, a: int, b: int) -> tuple[int, ...]:
        """Return the wires from rank ``a`` to rank ``b``."""
        return tuple(self.wires[step] for step in steps(self.dims, self.places[a], self.places[b], self.unjoined))


class ClusterRouter:
    """The router of a cluster with tori, or with cards that devices share (see ``Topology.router``)."""

    def __init__(self, tori: Iterable[Torus], vertices: int, wires: Iterable[Wire], cards: Iterable[int]) -> None:
        self.tori = tuple(tori)
        self._of = {rank: torus for torus in self.tori for rank in torus.places}
        self._vertices, self._wires, self._cards = vertices, tuple(wires), frozenset(cards)
        self._rates = [wire.rate for wire in self._wires]

    def __call__(self, a: int, b: int) -> tuple[int, ...]:
        """Wires from rank ``a`` to rank ``b``, between which there is a route."""
        torus = self._of.get(a)
        if torus is not None and b in torus.places:
            return torus.path(a, b)
        path = self._inside.path(a, b) or self._all.path(a, b)
        assert path is not None  # a law of the spec
        return path

    def __eq__(self, other: object) -> bool:
        """Routers of equal wires are equal: the route depends on nothing else."""
        return isinstance(other, ClusterRouter) and self._wires == other._wires

    def __hash__(self) -> int:
        return hash(self._wires)

    @cached_property
    def _all(self) -> Routes:
        return Routes(self._vertices, [(wire.source, wire.target) for wire in self._wires], self._rates)

    @cached_property
    def _inside(self) -> Routes:
        """Ways without cards; wires of these lead from nowhere to nowhere, so that the others keep their numbers."""
        nowhere = self._vertices
        kept = [(nowhere, nowhere) if self._cards.intersection(wire[:2]) else wire[:2] for wire in self._wires]
        return Routes(self._vertices + 1, kept, self._rates)


def tori_of(router: object) -> tuple[Torus, ...]:
    """Return the tori whose dimensions a router follows; () for other routers."""
    return router.tori if isinstance(router, ClusterRouter) else ()


WIDE_AREA = "wide-area"
"""Name of the wires of the wide area."""


def build(cluster: ClusterSpec) -> Topology:
    """Build the topology of a valid cluster. Devices come first, in the order of ranks, then switches."""
    draft, tori, cards, groups = Draft(), list[Torus](), list[int](), list[int]()
    for number, (label, node) in enumerate(cluster.each_node()):
        draft.labels += device_labels(node, label)
        groups += [number] * node.size
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


def _wire(draft: Draft, fabric: Fabric, ends: Sequence[End], label: str, name: str, tori: list[Torus]) -> Built:
    """Wire the ends of one fabric; note its torus, if it is one of devices."""
    first = len(draft.wires)
    built = SHAPES[fabric.shape](draft, fabric, ends, label)
    draft.wires[first:] = [wire._replace(link=name) for wire in draft.wires[first:]]
    if built.torus:
        tori.append(Torus(tuple(fabric.dims or ()), tuple(end.vertex for end in ends), built.torus, tuple(fabric.open)))
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
    single = len(set(groups)) == 1 and len(tori) == 1 and len(tori[0].places) == len(groups)
    if single:  # of one torus that is a node, the rows
        groups = [rank // tori[0].dims[0] for rank in range(len(groups))]
    router = ClusterRouter(tori, len(draft.labels), draft.wires, cards) if tori or cards else None
    parts = (tuple(draft.labels), tuple(draft.wires), tuple(groups))
    how = (cluster.forwarding, fs_of(cluster.collectives.message), router)
    return Topology(cluster.name, len(groups), *parts, *how, frozenset(draft.summing))


def devices(cluster: ClusterSpec) -> tuple[Chip, ...]:
    """Return the chip of each rank, equal ones as one object. Raises SpecError with the problems of all chips at
    once."""
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
    """A device's share of the memory of its host: bytes per second, bytes."""

    rate_Bps: float
    capacity_B: int


def hosts(cluster: ClusterSpec) -> tuple[Share | None, ...]:
    """Return each rank's share of the memory of its host, None where the cluster does not say."""
    found: list[Share | None] = []
    for _, node in cluster.each_node():
        host, size = node.host, node.size
        share = None if host is None else Share(float(host.bandwidth) / size, host.capacity // size)
        found += [share] * size
    return tuple(found)


def speeds(cluster: ClusterSpec) -> tuple[float, ...]:
    """Return the pace of each rank as a share of its chip's: of its kind of device times its own."""
    return tuple(
        each.speed * cluster.speeds.get(f"{label}.{name}{index}", 1.0)
        for label, node in cluster.each_node()
        for name, each in node.devices.items()
        for index in range(each.count)
    )
