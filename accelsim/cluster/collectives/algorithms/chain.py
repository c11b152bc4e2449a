"""Chains, in chunks that follow each other: one over all devices, or one per device of a node, side by side.

In one chain each device sends one chunk at a time each way. Side by side each chain has its part of the buffer, and all
pass the nodes in one order; chain r enters each node at its device r, and begins (or ends, where it adds) at the first
device. This is how NCCL's rings broadcast and reduce.
"""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.algorithms.hierarchical import nodes, several_nodes
from accelsim.cluster.collectives.algorithms.tree import along_trees
from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.program import Program, Rounds, rounds

WAYS = {"broadcast": (False,), "reduce": (True,), "all_reduce": (True, False)}
"""Kind -> passes of each chunk, whether they lead to the first device and add."""


def _chain(kind: str, members: Members, chunks: int) -> Program:
    hops, ways = members.ranks - 1, WAYS[kind]
    turns = tuple(_turn(turn, hops, chunks, ways) for turn in range(hops * len(ways) + chunks - 1))
    return Program(members.ranks, chunks, turns, blocking=True)


def _turn(turn: int, hops: int, chunks: int, ways: tuple[bool, ...]) -> Rounds:
    """One turn: chunk ``turn - h`` passes hop h, counted through all passes."""
    hop = np.arange(max(0, turn - chunks + 1), min(hops * len(ways), turn + 1))
    inwards, along = np.array(ways)[hop // hops], hop % hops
    source = np.where(inwards, hops - along, along)
    return rounds(source, np.where(inwards, source - 1, source + 1), turn - hop, 1, inwards)


CHAIN = Collective(
    "chain",
    "along a chain, in chunks",
    ("broadcast", "reduce", "all_reduce"),
    _chain,
    pipelined=True,
    count=lambda members, chunks: 2 * members.ranks * chunks,
)


def _chains(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    forest = []
    for entry in range(inside.shape[1]):
        ring = np.roll(inside, -entry, 1).ravel().tolist()
        order = ring[ring.index(0) :] + ring[: ring.index(0)]
        before: dict[int, int | None] = dict(zip(order, [None, *order[:-1]], strict=True))
        forest.append([before[rank] for rank in range(members.ranks)])
    return along_trees(members.ranks, forest, chunks, up=kind == "reduce", down=kind == "broadcast")


CHAINS = Collective(
    "chains",
    "one chain per device of a node, side by side",
    ("broadcast", "reduce"),
    _chains,
    several_nodes,
    True,
    count=lambda members, chunks: members.ranks * chunks * members.per_node,
)
