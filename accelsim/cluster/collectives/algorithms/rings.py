"""Rings: one over all devices, or as many side by side as a node has devices, each with its part of the buffer.

Side by side all pass the nodes in one order; ring r enters each node at its device r. So every device sends to another
node, over its own card, what one ring alone would send over one. This is how NCCL lays its channels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from accelsim.cluster.collectives.base import Collective, Members, power_of_two
from accelsim.cluster.collectives.rounds import (
    Program,
    Rounds,
    doubling,
    exchanges,
    folded,
    halving,
    origin,
    ring_gather,
    ring_scatter,
    whole,
)
from accelsim.types import Ints


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


def _hierarchical(kind: str, members: Members, chunks: int) -> Program:
    inside = nodes(members)
    many, per_node = inside.shape
    across, part = inside.T.copy(), np.arange(per_node) * many
    within = ring_scatter(inside, origin(inside), many)
    between = ring_scatter(across, part) + ring_gather(across, part)
    back = ring_gather(inside, origin(inside), many)
    return Program(members.ranks, many * per_node, (*within, *between, *back))


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


def _halving_doubling(kind: str, members: Members, chunks: int) -> Program:
    power = 1 << (members.ranks.bit_length() - 1)
    before, stay, after = folded(members.ranks, power)
    scatter, gather = halving(stay, origin(stay)), doubling(stay, origin(stay))
    parts = {"all_reduce": before + scatter + gather + after, "reduce_scatter": scatter, "all_gather": gather}
    return Program(members.ranks, power, tuple(parts[kind]))


def _rule(kind: str, members: Members) -> str:
    return "" if kind == "all_reduce" else power_of_two(kind, members)


HALVING_DOUBLING = Collective(
    "halving_doubling",
    "recursive halving, then doubling; of a number that is no power of two, some fold in before",
    ("all_reduce", "reduce_scatter", "all_gather"),
    _halving_doubling,
    _rule,
    count=lambda members, chunks: 2 * members.ranks * members.ranks.bit_length() * chunks,
)


def _recursive_doubling(kind: str, members: Members, chunks: int) -> Program:
    before, stay, after = folded(members.ranks, 1)
    return Program(members.ranks, 1, (*before, *exchanges(stay), *after))


RECURSIVE_DOUBLING = Collective(
    "recursive_doubling",
    "whole buffers exchanged, log2 of the devices times",
    ("all_reduce",),
    _recursive_doubling,
    count=lambda members, chunks: 2 * members.ranks * members.ranks.bit_length() * chunks,
)
