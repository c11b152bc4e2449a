"""Hierarchical: inside each node, then between nodes.

``hierarchical``: reduce-scatter inside each node, all-reduce between nodes on one part each, all-gather inside. Over
the slow links between nodes each device sends a part of the buffer only, as many parts as a node has devices: what
ASTRA-sim calls "local bandwidth aware". ``hierarchical_baseline`` reduces the whole buffer inside each node, and then
again between nodes.
"""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.patterns import origin, ring_gather, ring_scatter
from accelsim.cluster.collectives.program import Program, Rounds
from accelsim.types import Ints


def _hierarchical(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    many, per_node = inside.shape
    across, part = inside.T.copy(), np.arange(per_node) * many
    within = ring_scatter(inside, origin(inside), many)
    between = ring_scatter(across, part) + ring_gather(across, part)
    back = ring_gather(inside, origin(inside), many)
    return Program(members.ranks, many * per_node, (*within, *between, *back))


def nodes(members: Members) -> Ints:
    """Devices by node: int64 ``[nodes, devices per node]``."""
    names = list(dict.fromkeys(members.groups))
    return np.array(
        [[rank for rank, group in enumerate(members.groups) if group == name] for name in names], np.int64
    )


def several_nodes(kind: str, members: Members) -> str:
    """Several nodes, as many devices in each as in the others, and more than one."""
    counts = {members.groups.count(name) for name in members.groups}
    fits = len(counts) == 1 and 1 < max(counts) < members.ranks
    return "" if fits else "several nodes with several devices each, as many in each"


HIERARCHICAL = Collective(
    "hierarchical",
    "inside nodes, then between them on a part each, then inside",
    ("all_reduce",),
    _hierarchical,
    several_nodes,
    count=lambda members, chunks: (
        2 * members.ranks * (members.per_node + members.ranks // members.per_node) * chunks
    ),
)


def _baseline(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    many, per_node = inside.shape
    within, between = _all_reduce(inside, many), _all_reduce(inside.T.copy(), per_node)
    return Program(members.ranks, many * per_node, (*within, *between))


def _all_reduce(members: Ints, width: int) -> list[Rounds]:
    return ring_scatter(members, origin(members), width) + ring_gather(members, origin(members), width)


BASELINE = Collective(
    "hierarchical_baseline",
    "the whole buffer inside nodes, then between them",
    ("all_reduce",),
    _baseline,
    several_nodes,
    count=lambda members, chunks: (
        2 * members.ranks * (members.per_node + members.ranks // members.per_node) * chunks
    ),
)
