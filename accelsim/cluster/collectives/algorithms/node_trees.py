"""Double binary trees between nodes, chains inside them; one pair of trees per device of a node, side by side.

Pair r enters each node at its device r, from which a chain leads through the others. So every device sends to another
node, over its own card. This is how NCCL lays its trees.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from accelsim.cluster.collectives.algorithms.hierarchical import nodes, several_nodes
from accelsim.cluster.collectives.algorithms.tree import along_trees, trees
from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.program import Program


def _program(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    many, per_node = inside.shape
    forest = []
    for entry in range(per_node):
        chains = np.roll(inside, -entry, 1)
        for between in trees(many):
            parents: list[int | None] = [None] * members.ranks
            for node, chain in enumerate(chains.tolist()):
                above = between[node]
                parents[chain[0]] = None if above is None else int(chains[above][0])
                for before, rank in pairwise(chain):
                    parents[rank] = before
            forest.append(parents)
    return along_trees(members.ranks, forest, chunks)


COLLECTIVE = Collective(
    "node_trees",
    "two binary trees between nodes, chains inside",
    ("all_reduce",),
    _program,
    several_nodes,
    True,
    count=lambda members, chunks: 4 * members.ranks * chunks * members.per_node,
)
