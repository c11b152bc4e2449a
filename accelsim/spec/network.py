"""The network of a chip: topology, router pipeline, buffers, and what a byte costs on its way."""

from __future__ import annotations

from math import prod, sqrt
from typing import Literal

from accelsim.spec.base import Model
from accelsim.spec.counts import Flits, Hop, Parts, Queues
from accelsim.spec.declaring import Field, model_validator
from accelsim.spec.quantity import Hertz, JoulesPerByte, SquareMetres, Width
from accelsim.spec.status import Status

Topology = Literal["bus", "crossbar", "ring", "mesh", "torus", "tree", "fat-tree"]
SHAPES: dict[str, tuple[str, ...]] = {
    "bus": ("nodes",),
    "crossbar": ("nodes",),
    "ring": ("nodes",),
    "mesh": ("columns", "rows"),
    "torus": ("columns", "rows"),
    "tree": ("arity", "levels"),
    "fat-tree": ("arity", "levels"),
}
"""Topology -> what the numbers of its shape are."""
MOST_NODES = 1024
"""Nodes, and columns, rows, arity or levels, of the largest network: routes of all pairs of nodes are in memory."""


class Router(Model):
    """Clocks of a packet's head in a router and on wires, and input buffers."""

    injection: Hop = Field(1, description="clocks from a node into its router")
    ejection: Hop = Field(1, description="clocks to hand a flit to the node")
    ejection_link: Hop = Field(1, description="clocks from the last router to the node")
    routing: Hop = Field(1, description="clocks to find the output")
    vc_allocation: Hop = Field(1, description="clocks to get a virtual channel")
    switch_allocation: Hop = Field(1, description="clocks to get the crossbar")
    traversal: Hop = Field(1, description="clocks through the crossbar")
    link: Hop = Field(1, description="clocks per wire between routers")
    credit: Hop = Field(1, description="clocks until a freed place is known at the sender")
    virtual_channels: Queues = Field(4, description="queues at each input")
    buffer_flits: Flits = Field(8, description="flits that each queue holds")
    energy: JoulesPerByte = Field(0.0, description="per byte and router: buffers, crossbar, arbiters")
    energy_status: Status | None = Field(None, description="how far to trust it; absent: a guess")

    @property
    def pipeline(self) -> int:
        """Clocks from the arrival of a head to its turn on an output that is free."""
        return self.routing + self.vc_allocation + self.switch_allocation


class Wire(Model):
    """The wires between routers: one hop is as long as the side of a square node."""

    node_area: SquareMetres = Field(description="area per node with its router")
    energy_per_mm: JoulesPerByte = Field(description="per byte and millimetre of wire")
    energy_status: Status | None = Field(None, description="how far to trust it; absent: a guess")

    @property
    def length_mm(self) -> float:
        """Length of the wire of a hop, mm."""
        return sqrt(self.node_area) * 1e3


class Noc(Model):
    """A network on a chip: nodes that exchange packets of flits over shared links."""

    topology: Topology = Field(description="how the routers are connected")
    shape: list[Parts] = Field(
        min_length=1,
        max_length=2,
        description="[nodes] (bus, crossbar, ring); [columns, rows] (mesh, torus); [arity, levels] (tree)",
    )
    clock: Hertz = Field(description="routers and wires")
    flit: Width = Field(description="bytes of a link per clock and direction")
    router: Router = Field(Router.model_construct(), description="pipeline and buffers")
    wire: Wire | None = Field(None, description="wires; absent: they cost no energy")

    @model_validator(mode="after")
    def _shape_fits(self) -> Noc:
        """The shape has as many numbers as the topology asks for, and a torus can avoid deadlock."""
        named = SHAPES[self.topology]
        if len(self.shape) != len(named):
            wanted = ", ".join(named)
            raise ValueError(f"shape {self.shape} does not fit a {self.topology}; expected [{wanted}]")
        if max(self.shape) > MOST_NODES or self.nodes > MOST_NODES:
            raise ValueError(
                f"a {self.topology} of shape {self.shape} is too large; expected {MOST_NODES:,} nodes or fewer"
            )
        if self.topology in ("ring", "torus") and self.router.virtual_channels < 2:
            raise ValueError(f"a {self.topology} with 1 virtual channel can deadlock; expected 2 or more")
        return self

    @property
    def nodes(self) -> int:
        """Nodes that send and receive."""
        return self.shape[0] ** self.shape[1] if "levels" in SHAPES[self.topology] else prod(self.shape)
