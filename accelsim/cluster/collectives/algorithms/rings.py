"""Rings, hierarchies of rings, and exchanges with partners at distances that are powers of two.

``rings``: as many rings side by side as a node has devices, each with its part of the buffer. All pass the nodes in one
order; ring r enters each node at its device r. So every device sends to another node, over its own card, what one ring
alone would send over one. This is how NCCL lays its channels.

``hierarchical``: reduce-scatter inside each node, all-reduce between nodes on one part each, all-gather inside. Over
the slow links between nodes each device sends a part of the buffer only, as many parts as a node has devices: what
ASTRA-sim calls "local bandwidth aware". ``hierarchical_baseline`` reduces the whole buffer inside each node, and then
again between nodes.

``halving_doubling``, ``recursive_doubling``: Thakur, Rabenseifner and Gropp, Optimization of collective communication
(2005).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from accelsim.cluster.collectives.base import Collective, Members, power_of_two
from accelsim.cluster.collectives.rounds import Program, Rounds, doubling, exchanges, folded, halving, ring, whole
from accelsim.types import Ints

SCATTERED = ("all_reduce", "reduce_scatter", "all_gather")
"""Kinds that a reduce-scatter, an all-gather or both make up."""


def _both(kind: str, scatter: Sequence[Rounds], gather: Sequence[Rounds]) -> tuple[Rounds, ...]:
    return (*(() if kind == "all_gather" else scatter), *(() if kind == "reduce_scatter" else gather))


def nodes(members: Members) -> Ints:
    """Return devices by node: int64 ``[nodes, devices per node]``."""
    names, groups = dict.fromkeys(members.groups), np.array(members.groups)
    return np.array([np.flatnonzero(groups == name) for name in names], np.int64)


def several_nodes(kind: str, members: Members) -> str:
    """Return '' for several nodes with several devices each, equally many in each; else what is missing."""
    counts = {members.groups.count(name) for name in members.groups}
    fits = len(counts) == 1 and 1 < max(counts) < members.ranks
    return "" if fits else "several nodes with several devices each, as many in each"


def _ring(kind: str, members: Members, chunks: int) -> Program:
    everybody = whole(members.ranks)
    parts = _both(kind, ring(everybody, reduces=True), ring(everybody))
    return Program(members.ranks, members.ranks, parts)


RING = Collective("ring", "around a ring, one part per device", SCATTERED, _ring)


def _rings(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    rings = np.stack([np.roll(inside, -entry, 1).ravel() for entry in range(inside.shape[1])])
    base, count = np.arange(len(rings)) * members.ranks, len(rings)
    own = (rings * count + np.arange(count)[:, None]).ravel()  # so that each device's parts lie together
    made = _both(kind, ring(rings, base, reduces=True), ring(rings, base))
    return Program(members.ranks, rings.size, tuple(replace(each, names=own) for each in made))


RINGS = Collective(
    "rings",
    "one ring per device of a node, side by side",
    SCATTERED,
    _rings,
    several_nodes,
    count=lambda members, chunks: 2 * members.ranks**2 * members.per_node * chunks,
)


def _hierarchical(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    many, per_node = inside.shape
    across, part = inside.T.copy(), np.arange(per_node) * many
    between = ring(across, part, reduces=True) + ring(across, part)
    made = (*ring(inside, 0, many, reduces=True), *between, *ring(inside, 0, many))
    return Program(members.ranks, inside.size, made)


def _by_levels(members: Members, chunks: int) -> int:
    return 2 * members.ranks * (members.per_node + members.ranks // members.per_node) * chunks


HIERARCHICAL = Collective(
    "hierarchical",
    "inside nodes, then between them on a part each, then inside",
    ("all_reduce",),
    _hierarchical,
    several_nodes,
    count=_by_levels,
)


def _baseline(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    levels = (inside, inside.shape[0]), (inside.T.copy(), inside.shape[1])
    made = [ring(level, 0, width, reduces=adds) for level, width in levels for adds in (True, False)]
    return Program(members.ranks, inside.size, tuple(each for part in made for each in part))


BASELINE = Collective(
    "hierarchical_baseline",
    "the whole buffer inside nodes, then between them",
    ("all_reduce",),
    _baseline,
    several_nodes,
    count=_by_levels,
)


def _by_powers(members: Members, chunks: int) -> int:
    return 2 * members.ranks * members.ranks.bit_length() * chunks


def _halving_doubling(kind: str, members: Members, chunks: int) -> Program:
    power = 1 << (members.ranks.bit_length() - 1)
    before, stay, after = folded(members.ranks, power)
    return Program(members.ranks, power, (*before, *_both(kind, halving(stay), doubling(stay)), *after))


def _any_number_of_all_reduce(kind: str, members: Members) -> str:
    return "" if kind == "all_reduce" else power_of_two(kind, members)


HALVING_DOUBLING = Collective(
    "halving_doubling",
    "recursive halving, then doubling; of a number that is no power of two, some fold in before",
    SCATTERED,
    _halving_doubling,
    _any_number_of_all_reduce,
    count=_by_powers,
)


def _recursive_doubling(kind: str, members: Members, chunks: int) -> Program:
    before, stay, after = folded(members.ranks, 1)
    return Program(members.ranks, 1, (*before, *exchanges(stay), *after))


RECURSIVE_DOUBLING = Collective(
    "recursive_doubling",
    "whole buffers exchanged, log2 of the devices times",
    ("all_reduce",),
    _recursive_doubling,
    count=_by_powers,
)
