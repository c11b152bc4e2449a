"""The shapes of fabrics, by name as in specs (the keys of ``accelsim.spec.cluster.SHAPES``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accelsim.cluster.shapes import direct, hybrid_cube_mesh, switched, torus
from accelsim.cluster.shapes.draft import Built, Draft, End
from accelsim.spec.cluster import Fabric

Shape = Callable[[Draft, Fabric, Sequence[End], str], Built]
"""Adds the switches and the wires of a fabric, whose laws hold, to a draft; the text begins the labels of switches."""

SHAPES: dict[str, Shape] = {
    "fully-connected": direct.fully_connected,
    "hybrid-cube-mesh": hybrid_cube_mesh.build,
    "leaf-spine": switched.leaf_spine,
    "list": direct.listed,
    "pairs": direct.pairs,
    "pcie-tree": switched.pcie_tree,
    "ring": direct.ring,
    "switch": switched.single,
    "torus": torus.build,
}
