"""A cluster: nodes of chips, the fabrics inside a node, the networks between nodes and what joins these.

In the order of the file: kinds of nodes by name, each with kinds of devices by name. Ranks count through them, node by
node; ``node0.gpu3`` is the fourth device ``gpu`` of the first node of the kind ``node``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from accelsim.spec.base import Model
from accelsim.spec.collectives import Collectives
from accelsim.spec.counts import Name, Parts, Words, once
from accelsim.spec.declaring import NAME, Field
from accelsim.spec.link import Link
from accelsim.spec.quantity import Bytes, BytesPerSecond, Seconds, Watts

MOST_DIRECT = 256
"""Ends of the largest fabric in which each is wired to each other."""
ShapeName = Literal[
    "fully-connected", "switch", "ring", "pcie-tree", "hybrid-cube-mesh", "torus", "pairs", "leaf-spine", "list"
]
Dimension = Annotated[int, Field(ge=0, le=2)]
"""A dimension of a torus, counted from 0."""
Speed = Annotated[float, Field(ge=0.001, le=1000)]
"""Pace of a device, 0.001 to 1,000 times that of its chip."""
Passed = Annotated[float, Field(ge=0.1, le=1)]
"""Efficiency of a power supply: power out per power in, 0.1 to 1."""
Ratio = Annotated[float, Field(ge=1, le=1000)]
"""Ratio of one side to the other, 1 to 1,000."""
Label = Annotated[str, Field(pattern=NAME, max_length=200)]
"""A device or a switch as pictures and routes call it."""


class ShapeOf(NamedTuple):
    """A shape of a fabric: what it is, which of the optional fields of a fabric it takes, and which it must have."""

    title: str
    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


SHAPES: dict[str, ShapeOf] = {
    "fully-connected": ShapeOf("a wire between any two", ("links",)),
    "switch": ShapeOf("all at one switch that never blocks", ("links", "switch_latency", "sums")),
    "ring": ShapeOf("each wired to the next, the last to the first", ("links",)),
    "pcie-tree": ShapeOf(
        "devices below PCIe switches, these below the root complexes of processors",
        ("members", "roots", "uplink", "root_link", "switch_latency"),
    ),
    "hybrid-cube-mesh": ShapeOf("the eight of a DGX-1: two squares with diagonals, joined corner by corner"),
    "torus": ShapeOf(
        "a grid of two or three dimensions whose edges meet, but for open ones",
        ("dims", "links", "along", "open"),
        ("dims",),
    ),
    "pairs": ShapeOf("bridges between the first and the second, the third and the fourth", ("links",)),
    "leaf-spine": ShapeOf(
        "leaves that hold some each, spines that join the leaves",
        ("members", "spines", "uplink", "oversubscription", "switch_latency"),
        ("members",),
    ),
    "list": ShapeOf("the wires that are listed", ("wires", "switches"), ("wires",)),
}
"""Shape of a fabric -> what it is and which fields it takes; ``accelsim/cluster/shapes`` builds them."""
OPTIONAL = tuple(dict.fromkeys(name for shape in SHAPES.values() for name in shape.takes))
"""Fields of a fabric that belong to some shapes only."""


class Join(Model):
    """A link of an explicit list, between two devices or switches."""

    ends: Annotated[list[Label], once] = Field(
        min_length=2, max_length=2, description="two ends: devices (`gpu0`) or listed switches"
    )
    link: Link | None = Field(None, description="absent: the fabric's link")
    links: Parts | None = Field(None, description="links of the bundle; absent: all")


class Fabric(Model):
    """Wiring of ends: devices of a node, nodes of a network, or sites. Each wire has its link's payload
    rate. Through a switch the first and last wire have half the link's latency each."""

    shape: ShapeName = Field(description="how the ends are wired")
    link: Link = Field(description="the link of an end")
    links: Parts | None = Field(None, description="links of `link`'s bundle per wire; absent: all")
    dims: list[Parts] | None = Field(
        None, min_length=1, max_length=3, description="ends per torus dimension, quickest first"
    )
    along: list[Link] | None = Field(
        None, min_length=1, max_length=3, description="link along each dimension of a torus; absent: `link`"
    )
    open: Annotated[list[Dimension], once] = Field(
        [], description="dimensions without links between their edges (slices of a pod), counted from 0"
    )
    members: Parts | None = Field(
        None, description="ends of a leaf; devices below a PCIe switch (absent: at the root complexes)"
    )
    roots: Parts = Field(1, description="root complexes of a PCIe tree")
    uplink: Link | None = Field(None, description="link to the next higher switch; absent: that of an end")
    root_link: Link | None = Field(None, description="link between root complexes, if several")
    spines: Parts = Field(1, description="spine switches; one: a perfect spread")
    oversubscription: Ratio = Field(1.0, description="bandwidth of a leaf's ends over its uplinks'")
    switch_latency: Seconds = Field(0.0, description="added per wire between switches")
    sums: bool = Field(False, description="the switch sums what its ends send (NVLS, SHARP)")
    switches: Annotated[list[Name], once] = Field([], description="switches of the listed wires")
    wires: list[Join] | None = Field(None, min_length=1, description="wires of an explicit list")

    @property
    def torus_links(self) -> list[Link]:
        """Return the link along each dimension of a torus."""
        return self.along or [self.link] * len(self.dims or ())


class Devices(Model):
    """Devices of one kind in a node: a chip, how many, how fast."""

    chip: Words = Field(description="a chip's name, or the path of its YAML file")
    count: Parts = Field(1, description="how many in each node")
    speed: Speed = Field(1.0, description="pace, as a share of the chip's")
    settings: list[str] = Field([], description="changes of the chip as in `--set`: path=value")


class Nics(Model):
    """Network cards of a node, over which devices are spread in order. Absent: devices are ends of the
    network."""

    count: Parts = Field(description="cards, or ports of devices, per node")
    link: Link | None = Field(None, description="card to its switch; absent: the network's")
    pcie: Link | None = Field(None, description="device to its card; absent: ports are on the device. Adds no latency")


class NodePower(Model):
    """Power of a node beside its devices; each device that takes part has an even share."""

    idle: Watts = Field(description="host, fans, switches and cards of the whole node, all the time")
    supply: Passed = Field(1.0, description="share of wall power that the supplies pass on")


class HostMemory(Model):
    """Host memory of a node, which its devices share."""

    capacity: Bytes = Field(description="all sockets together")
    bandwidth: BytesPerSecond = Field(description="all channels of all sockets, reads or writes")


class Node(Model):
    """A kind of nodes: how many, and what each holds."""

    count: Parts = Field(1, description="how many of them")
    devices: dict[Name, Devices] = Field(min_length=1, description="devices by name, in the order of ranks")
    fabrics: dict[Name, Fabric] = Field({}, description="wiring inside the node, by name")
    nics: Nics | None = Field(None, description="network cards")
    network: Name | None = Field(None, description="its network; absent: the only one")
    host: HostMemory | None = Field(None, description="host memory; absent: each chip's, which holds 'host'")
    power: NodePower | None = Field(None, description="power beside devices; absent: unknown, no figure at the wall")

    @property
    def size(self) -> int:
        """Number of devices in one such node."""
        return sum(each.count for each in self.devices.values())


class ClusterSpec(Model):
    """Many chips on a network: nodes of devices, fabrics inside, networks between, sites."""

    name: Name = Field(description="short name, that of its file")
    title: Words = Field(description="name for tables")
    counts: Literal["nodes", "devices"] = Field(
        "nodes", description="what a number before the name counts: `16x-dgx-a100`"
    )
    nodes: dict[Name, Node] = Field(min_length=1, description="kinds of nodes by name, in the order of ranks")
    networks: dict[Name, Fabric] = Field(
        {}, description="networks between nodes, one per site; not built for a single node"
    )
    wide_area: Fabric | None = Field(None, description="what joins the networks of several sites")
    forwarding: Literal["cut-through", "store-and-forward"] = Field(
        "cut-through", description="whether a switch forwards a message before it has all"
    )
    speeds: dict[Label, Speed] = Field(
        {}, description="pace of single devices (`node0.gpu3: 0.5`), times their kind's: stragglers"
    )
    collectives: Collectives = Field(
        Collectives.model_construct(title="none: software costs nothing"), description="the communication library"
    )
    libraries: dict[Name, Collectives] = Field({}, description="others, for `--library` of `accelsim collective`")

    @property
    def size(self) -> int:
        """Number of devices in all nodes: the ranks."""
        return sum(node.count * node.size for node in self.nodes.values())

    def each_node(self) -> Iterator[tuple[str, Node]]:
        """(label, node) of every node, in the order of ranks: 'node0', 'node1'."""
        for kind, node in self.nodes.items():
            for index in range(node.count):
                yield f"{kind}{index}", node

    def network_of(self, node: Node) -> str:
        """The network that a node is on, '' for none."""
        return node.network or next(iter(self.networks), "")


def device_labels(node: Node, label: str = "") -> list[str]:
    """'node0.gpu0', ... of a node called ``label``, in the order of ranks; without it 'gpu0', ..."""
    before = f"{label}." if label else ""
    return [f"{before}{name}{index}" for name, each in node.devices.items() for index in range(each.count)]


def bundled(link: Link) -> int:
    """Physical links that a link stands for: 12 of NVLink 3, 1 of what says nothing."""
    return link.packets.links if link.packets is not None else 1
