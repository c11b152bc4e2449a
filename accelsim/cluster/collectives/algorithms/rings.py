"""Rings side by side: as many as a node has devices, each with its part of the buffer.

All pass the nodes in one order; ring r enters each node at its device r. So every device sends to another node, over
its own card, what one ring alone would send over one. This is how NCCL lays its channels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from accelsim.cluster.collectives.algorithms.hierarchical import nodes, several_nodes
from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.patterns import ring_gather, ring_scatter
from accelsim.cluster.collectives.program import Program


def _program(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    rings = np.stack([np.roll(inside, -ring, 1).ravel() for ring in range(inside.shape[1])])
    base = np.arange(len(rings)) * members.ranks
    own = (
        rings * len(rings) + np.arange(len(rings))[:, None]
    ).ravel()  # so that each device's parts lie together
    scatter, gather = (
        [replace(each, names=own) for each in made]
        for made in (ring_scatter(rings, base), ring_gather(rings, base))
    )
    parts = {"all_reduce": scatter + gather, "reduce_scatter": scatter, "all_gather": gather}
    return Program(members.ranks, rings.size, tuple(parts[kind]))


COLLECTIVE = Collective(
    "rings",
    "one ring per device of a node, side by side",
    ("all_reduce", "reduce_scatter", "all_gather"),
    _program,
    several_nodes,
    count=lambda members, chunks: 2 * members.ranks**2 * members.per_node * chunks,
)
