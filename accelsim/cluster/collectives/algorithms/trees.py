"""Trees: double binary, in chunks. Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast (2009).

Each tree reduces half of the buffer to its root and broadcasts it back. A device that passes things on in one tree is a
leaf of the other, so both directions of each port are used.

``node_trees`` has such trees between nodes and chains inside them, one pair of trees per device of a node, side by
side. Pair r enters each node at its device r, from which a chain leads through the others. So every device sends to
another node, over its own card. This is how NCCL lays its trees.

In the binomial tree, who has it passes it on, each time to one device twice as far away. Thakur et al. (2005).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from accelsim.cluster.collectives.algorithms.rings import nodes, several_nodes
from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.rounds import Program, rounds


def along_trees(
    ranks: int, forest: Sequence[Sequence[int | None]], chunks: int, up: bool = True, down: bool = True
) -> Program:
    """Send sums up and results down each tree of ``forest`` (the parent of each device), each on a part of the buffer.

    ``up``, ``down``: both for an all-reduce, one for a reduction to the root or a broadcast from it.
    """
    slots: dict[int, list[tuple[int, int, int, bool]]] = defaultdict(list)
    for tree, parents in enumerate(forest):
        depths = [_depth(parents, rank) for rank in range(ranks)]
        edges = [(rank, parent) for rank, parent in enumerate(parents) if parent is not None]
        deepest = max(depths)
        for chunk in range(chunks):
            cell = tree * chunks + chunk
            for rank, parent in edges if up else ():
                slots[deepest - depths[rank] + chunk].append((rank, parent, cell, True))
            for rank, parent in edges if down else ():
                slots[deepest * up + depths[parent] + chunk].append((parent, rank, cell, False))
    made = []
    for _, messages in sorted(slots.items()):
        source, target, cells, reduces = zip(*messages, strict=True)
        made.append(rounds(source, target, cells, 1, reduces))
    return Program(ranks, len(forest) * chunks, tuple(made))


def trees(ranks: int) -> tuple[list[int | None], list[int | None]]:
    """Return the parents of all devices in both trees; None for the root.

    The first tree: a device's depth follows its lowest set bit, odd ones are leaves. The second is its mirror image, or
    among an odd number the first one moved on by one device.
    """
    first = [_parent(rank, ranks) for rank in range(ranks)]
    if ranks % 2 == 0:
        moved = [ranks - 1 - rank for rank in range(ranks)]
    else:
        moved = [(rank + 1) % ranks for rank in range(ranks)]
    second: list[int | None] = [None] * ranks
    for rank, parent in enumerate(first):
        second[moved[rank]] = None if parent is None else moved[parent]
    return first, second


def _parent(rank: int, ranks: int) -> int | None:
    if rank == 0:
        return None
    bit = rank & -rank
    up = (rank ^ bit) | (bit << 1)
    return up if up < ranks else rank ^ bit


def _depth(parents: Sequence[int | None], rank: int) -> int:
    depth, at = 0, parents[rank]
    while at is not None:
        depth, at = depth + 1, parents[at]
    return depth


TREE = Collective(
    "tree",
    "two binary trees, in chunks",
    ("all_reduce",),
    lambda kind, members, chunks: along_trees(members.ranks, trees(members.ranks), chunks),
    pipelined=True,
    count=lambda members, chunks: 4 * members.ranks * chunks,
)


def _node_trees(kind: str, members: Members, chunks: int) -> Program:
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


NODE_TREES = Collective(
    "node_trees",
    "two binary trees between nodes, chains inside",
    ("all_reduce",),
    _node_trees,
    several_nodes,
    True,
    lambda members, chunks: 4 * members.ranks * chunks * members.per_node,
)


def _binomial(kind: str, members: Members, chunks: int) -> Program:
    ranks, steps = members.ranks, []
    for power in range((ranks - 1).bit_length()):
        near = np.arange(min(1 << power, ranks - (1 << power)))
        far = near + (1 << power)
        steps.append(rounds(far, near, 0, 1, True) if kind == "reduce" else rounds(near, far))
    return Program(ranks, 1, tuple(steps[::-1] if kind == "reduce" else steps), blocking=True)


BINOMIAL = Collective(
    "binomial",
    "a binomial tree",
    ("broadcast", "reduce"),
    _binomial,
    count=lambda members, chunks: members.ranks * chunks,
)


WAYS = {"broadcast": (False,), "reduce": (True,), "all_reduce": (True, False)}
"""Kind -> passes of each chunk, whether they lead to the first device and add."""


def _chain(kind: str, members: Members, chunks: int) -> Program:
    hops, ways, turns = members.ranks - 1, WAYS[kind], []
    for turn in range(hops * len(ways) + chunks - 1):  # chunk ``turn - h`` passes hop h, counted through all passes
        hop = np.arange(max(0, turn - chunks + 1), min(hops * len(ways), turn + 1))
        inwards, along = np.array(ways)[hop // hops], hop % hops
        source = np.where(inwards, hops - along, along)
        target = np.where(inwards, source - 1, source + 1)
        turns.append(rounds(source, target, turn - hop, 1, inwards))
    return Program(members.ranks, chunks, tuple(turns), blocking=True)


CHAIN = Collective(
    "chain",
    "along a chain, in chunks",
    tuple(WAYS),
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
    lambda members, chunks: members.ranks * chunks * members.per_node,
)
