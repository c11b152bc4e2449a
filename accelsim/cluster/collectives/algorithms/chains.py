"""Chains side by side, one per device of a node, each with its part of the buffer, in chunks.

All pass the nodes in one order; chain r enters each node at its device r, and begins (or ends, where it adds) at the
first device. This is how NCCL's rings broadcast and reduce.
"""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.algorithms.hierarchical import nodes, several_nodes
from accelsim.cluster.collectives.algorithms.tree import along_trees
from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.program import Program


def _program(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    forest = []
    for entry in range(inside.shape[1]):
        ring = np.roll(inside, -entry, 1).ravel().tolist()
        order = ring[ring.index(0) :] + ring[: ring.index(0)]
        before: dict[int, int | None] = dict(zip(order, [None, *order[:-1]], strict=True))
        forest.append([before[rank] for rank in range(members.ranks)])
    return along_trees(members.ranks, forest, chunks, up=kind == "reduce", down=kind == "broadcast")


COLLECTIVE = Collective(
    "chains",
    "one chain per device of a node, side by side",
    ("broadcast", "reduce"),
    _program,
    several_nodes,
    True,
    count=lambda members, chunks: members.ranks * chunks * members.per_node,
)
