"""Rings: one over all devices, or as many side by side as a node has devices, each with its part of the buffer.

Side by side all pass the nodes in one order; ring r enters each node at its device r. So every device sends to another
node, over its own card, what one ring alone would send over one. This is how NCCL lays its channels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from accelsim.cluster.collectives.algorithms.hierarchical import nodes, several_nodes
from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.patterns import origin, ring_gather, ring_scatter, whole
from accelsim.cluster.collectives.program import Program


def _ring(kind: str, members: Members, chunks: int) -> Program:
    everybody = whole(members.ranks)
    scatter, gather = ring_scatter(everybody, origin(everybody)), ring_gather(everybody, origin(everybody))
    parts = {"all_reduce": scatter + gather, "reduce_scatter": scatter, "all_gather": gather}
    return Program(members.ranks, members.ranks, tuple(parts[kind]))


RING = Collective(
    "ring", "around a ring, one part per device", ("all_reduce", "reduce_scatter", "all_gather"), _ring
)


def _rings(kind: str, members: Members, chunks: int) -> Program:
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


RINGS = Collective(
    "rings",
    "one ring per device of a node, side by side",
    ("all_reduce", "reduce_scatter", "all_gather"),
    _rings,
    several_nodes,
    count=lambda members, chunks: 2 * members.ranks**2 * members.per_node * chunks,
)
