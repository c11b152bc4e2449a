"""Recursive halving, then doubling; or recursive doubling alone, of whole buffers.

Thakur, Rabenseifner and Gropp, Optimization of collective communication (2005).
"""

from __future__ import annotations

from accelsim.cluster.collectives.base import Collective, Members, power_of_two
from accelsim.cluster.collectives.patterns import doubling, exchanges, folded, halving, origin
from accelsim.cluster.collectives.program import Program


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
