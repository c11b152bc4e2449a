"""Shapes of fabrics: how each wires its ends, into a draft of a topology."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import prod
from typing import NamedTuple

from accelsim.cluster.network.topology import Wire
from accelsim.spec.cluster import Fabric, bundled
from accelsim.spec.link import Link, payload_Bps
from accelsim.time import FS_PER_S


class End(NamedTuple):
    """An end that a fabric wires: a vertex, its label, the ports that stand for one wire, and its own link or None."""

    vertex: int
    label: str
    ports: int = 1
    link: Link | None = None


class Built(NamedTuple):
    """Results of a shape besides wires. ``hubs``: switches that a wide-area link may join; ``torus``: wires of a grid
    by (end, dimension, direction), {} for other shapes."""

    hubs: tuple[int, ...] = ()
    torus: dict[tuple[int, int, int], int] = {}  # noqa: RUF012 (a default that nobody writes to)


@dataclass
class Draft:
    """A topology in the making: labels of vertices, devices first, wires so far, and the switches that add up."""

    labels: list[str] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    summing: list[int] = field(default_factory=list)
    _rates: dict[tuple[int, int], Fraction] = field(default_factory=dict)
    _links: list[Link] = field(default_factory=list)

    def vertex(self, label: str) -> int:
        """Add a vertex; return its number."""
        self.labels.append(label)
        return len(self.labels) - 1

    def join(
        self, a: int, b: int, name: str, link: Link, *, rate: Fraction | None = None, latency_fs: int | None = None
    ) -> tuple[int, int]:
        """Add a wire in each direction; return their numbers. ``rate`` and ``latency_fs`` default to those of the
        link."""
        Bps = self.rate(link) if rate is None else rate
        delay_fs = latency_of(link) if latency_fs is None else latency_fs
        first = len(self.wires)
        self.wires.append(Wire(a, b, delay_fs, Bps, float(link.energy), name))
        self.wires.append(Wire(b, a, delay_fs, Bps, float(link.energy), name))
        return first, first + 1

    def rate(self, link: Link, links: int | None = None) -> Fraction:
        """Return payload bytes per second of ``links`` of the links that a link bundles, by default of all."""
        key = id(link), bundled(link) if links is None else links
        if key not in self._rates:
            self._links.append(link)  # an id is that of the link only while it lives
            self._rates[key] = exact_Bps(link) * Fraction(key[1], bundled(link))
        return self._rates[key]


def exact_Bps(link: Link) -> Fraction:
    """Return the payload bytes per second of one direction: that of its packets, exactly, or the stated bandwidth."""
    protocol = link.protocol
    if protocol is not None and link.bandwidth == payload_Bps(protocol):
        return max(protocol.framing(write).payload_Bps for write in (False, True))
    return Fraction(str(link.bandwidth))


@cache
def fs_of(seconds: float) -> int:
    """Return a time of a spec, fs, rounded down."""
    return int(Fraction(str(seconds)) * FS_PER_S)


def latency_of(link: Link) -> int:
    """Return the latency of a link, fs."""
    return fs_of(link.latency)


def fully_connected(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Wire any two ends by ``links`` of the link."""
    for a, b in combinations(ends, 2):
        draft.join(a.vertex, b.vertex, name, fabric.link, rate=draft.rate(fabric.link, fabric.links))
    return Built()


def ring(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Wire each end to the next, the last to the first. Two ends have one wire each way between them, not two."""
    rate = draft.rate(fabric.link, fabric.links)
    for index in range(len(ends) if len(ends) > 2 else len(ends) - 1):
        draft.join(ends[index].vertex, ends[(index + 1) % len(ends)].vertex, name, fabric.link, rate=rate)
    return Built()


def pairs(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Wire the first end to the second, the third to the fourth, as NVLink bridges over PCIe cards do. Other pairs need
    another fabric."""
    rate = draft.rate(fabric.link, fabric.links)
    for a, b in zip(ends[::2], ends[1::2], strict=True):
        draft.join(a.vertex, b.vertex, name, fabric.link, rate=rate)
    return Built()


def listed(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Wire what a spec lists: a wire each way per entry, with all of the latency of its link."""
    known = {end.label: end.vertex for end in ends}
    switches = {each: draft.vertex(f"{name}.{each}") for each in fabric.switches}
    known |= switches
    for wire in fabric.wires or ():
        a, b = (known[label] for label in wire.ends)
        link = wire.link or fabric.link
        draft.join(a, b, name, link, rate=draft.rate(link, wire.links))
    return Built(tuple(switches.values()))


SQUARE = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
MESH = (*SQUARE, *((a + 4, b + 4) for a, b in SQUARE), *((corner, corner + 4) for corner in range(4)))
"""Pairs that a wire joins: 16, four at each GPU."""
DOUBLED = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
"""Pairs with two links where a GPU has six (V100), so that each GPU has all of them in use."""


def hybrid_cube_mesh(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Wire a hybrid cube mesh: one link per pair where a GPU has four (P100); with six, two between the pairs of
    ``DOUBLED``."""
    more = bundled(fabric.link) > 4
    for a, b in MESH:
        rate = draft.rate(fabric.link, 1 + (more and (a, b) in DOUBLED))
        draft.join(ends[a].vertex, ends[b].vertex, name, fabric.link, rate=rate)
    return Built()


def single(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Join all ends to one switch that never blocks: NVSwitch, a small Ethernet switch.

    Each end has a wire up and one down, with half of the latency of its link, and the switch adds its own on the
    way down and up evenly.
    """
    hub = draft.vertex(f"{name}.switch")
    if fabric.sums:
        draft.summing.append(hub)
    for end in ends:
        at_switch(draft, fabric, end, hub, name, fs_of(fabric.switch_latency) // 2)
    return Built((hub,))


def at_switch(draft: Draft, fabric: Fabric, end: End, hub: int, name: str, more_fs: int = 0) -> None:
    """Join an end to a switch: all its ports, half of the latency of its link and ``more_fs``."""
    link = end.link or fabric.link
    rate = draft.rate(link, fabric.links if end.link is None else None) * end.ports
    draft.join(end.vertex, hub, name, link, rate=rate, latency_fs=latency_of(link) // 2 + more_fs)


def leaf_spine(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Join ends to leaf switches, and these to spine switches.

    The uplinks of a leaf carry what ``members`` ends can send, divided by the oversubscription, spread evenly over
    the spines. One leaf needs no spine.
    """
    assert fabric.members is not None  # a law of the spec
    leaves = [draft.vertex(f"{name}.leaf{index}") for index in range(-(-len(ends) // fabric.members))]
    for index, end in enumerate(ends):
        at_switch(draft, fabric, end, leaves[index // fabric.members], name)
    if len(leaves) == 1:
        return Built(tuple(leaves))
    spines = [draft.vertex(f"{name}.spine{index}") for index in range(fabric.spines)]
    uplink = fabric.uplink or fabric.link
    rate = fabric.members * draft.rate(ends[0].link or fabric.link) * ends[0].ports
    rate /= Fraction(str(fabric.oversubscription)) * fabric.spines
    for leaf in leaves:
        for spine in spines:
            draft.join(leaf, spine, name, uplink, rate=rate, latency_fs=fs_of(fabric.switch_latency))
    return Built(tuple(spines))


def pcie_tree(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Join devices to PCIe switches, these to the root complexes of the processors, which a link joins.

    ``members`` per switch and switches evenly over ``roots``; without members the ends are at the roots.
    """
    roots = [draft.vertex(f"{name}.root{index}") for index in range(fabric.roots)]
    between_fs = fs_of(fabric.switch_latency)
    parts = -(-len(ends) // fabric.members) if fabric.members else len(ends)
    for part in range(parts):
        root = roots[part * fabric.roots // parts]
        if fabric.members is None:
            at_switch(draft, fabric, ends[part], root, name)
            continue
        switch = draft.vertex(f"{name}.switch{part}")
        draft.join(switch, root, name, fabric.uplink or fabric.link, latency_fs=between_fs)
        for end in ends[part * fabric.members : (part + 1) * fabric.members]:
            at_switch(draft, fabric, end, switch, name)
    for a, b in combinations(roots, 2):
        assert fabric.root_link is not None  # a law of the spec
        draft.join(a, b, name, fabric.root_link)
    return Built(tuple(roots))


FORTH, BACK = 1, -1


def torus(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """Join each end to its neighbours; along a dimension of two there is one neighbour, and one link to it. The edges
    of an open dimension are not joined.

    Ends count along the first dimension quickest.
    """
    assert fabric.dims is not None  # a law of the spec
    torus: dict[tuple[int, int, int], int] = {}
    for index in range(len(ends)):
        for dimension, size, stride in strides(fabric.dims):
            at = index // stride % size
            if size == 1 or (at == size - 1 and (size == 2 or dimension in fabric.open)):
                continue
            other = index + ((at + 1) % size - at) * stride
            link = fabric.torus_links[dimension]
            rate = draft.rate(link, fabric.links)
            forth, back = draft.join(ends[index].vertex, ends[other].vertex, name, link, rate=rate)
            torus[index, dimension, FORTH], torus[other, dimension, BACK] = forth, back
            if size == 2:
                torus[index, dimension, BACK], torus[other, dimension, FORTH] = forth, back
    return Built(torus=torus)


def strides(dims: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (dimension, ends along it, distance of neighbours in numbers) of each dimension."""
    return ((dimension, size, prod(dims[:dimension])) for dimension, size in enumerate(dims))


def steps(dims: Sequence[int], a: int, b: int, unjoined: Sequence[int] = ()) -> Iterator[tuple[int, int, int]]:
    """Yield the dimension-order route from end ``a`` to ``b``: (end, dimension, direction) of each wire.

    It takes the shorter direction along each dimension; of equal ones, forth from even places and back from odd ones;
    along one of ``unjoined``, whose edges do not meet, the only direction.
    """
    at = a
    for dimension, size, stride in strides(dims):
        place, target = at // stride % size, b // stride % size
        ahead = (target - place) % size
        shorter = ahead < size - ahead if 2 * ahead != size else place % 2 == 0
        if dimension in unjoined:
            shorter, ahead = target > place, abs(target - place)
        direction = FORTH if shorter else BACK
        for _ in range(ahead if dimension in unjoined else min(ahead, size - ahead)):
            yield at, dimension, direction
            moved = (place + direction) % size
            at += (moved - place) * stride
            place = moved


Shape = Callable[[Draft, Fabric, Sequence[End], str], Built]
"""Adds the switches and the wires of a fabric, whose laws hold, to a draft; the text begins the labels of switches."""

SHAPES: dict[str, Shape] = {
    "fully-connected": fully_connected,
    "hybrid-cube-mesh": hybrid_cube_mesh,
    "leaf-spine": leaf_spine,
    "list": listed,
    "pairs": pairs,
    "pcie-tree": pcie_tree,
    "ring": ring,
    "switch": single,
    "torus": torus,
}
