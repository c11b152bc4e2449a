"""Hierarchical without division: the whole buffer is reduced inside each node, and then again between nodes."""

from __future__ import annotations

from accelsim.cluster.collectives.algorithms.hierarchical import nodes, several_nodes
from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.patterns import origin, ring_gather, ring_scatter
from accelsim.cluster.collectives.program import Program, Rounds
from accelsim.types import Ints


def _program(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    many, per_node = inside.shape
    within, between = _all_reduce(inside, many), _all_reduce(inside.T.copy(), per_node)
    return Program(members.ranks, many * per_node, (*within, *between))


def _all_reduce(members: Ints, width: int) -> list[Rounds]:
    return ring_scatter(members, origin(members), width) + ring_gather(members, origin(members), width)


COLLECTIVE = Collective(
    "hierarchical_baseline",
    "the whole buffer inside nodes, then between them",
    ("all_reduce",),
    _program,
    several_nodes,
    count=lambda members, chunks: (
        2 * members.ranks * (members.per_node + members.ranks // members.per_node) * chunks
    ),
)
