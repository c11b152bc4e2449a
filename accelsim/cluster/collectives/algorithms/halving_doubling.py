"""Recursive halving, then doubling. Thakur, Rabenseifner and Gropp, Optimization of collective communication (2005)."""

from __future__ import annotations

from accelsim.cluster.collectives.base import Collective, Members, power_of_two
from accelsim.cluster.collectives.patterns import doubling, folded, halving, origin
from accelsim.cluster.collectives.program import Program


def _program(kind: str, members: Members, chunks: int) -> Program:
    power = 1 << (members.ranks.bit_length() - 1)
    before, stay, after = folded(members.ranks, power)
    scatter, gather = halving(stay, origin(stay)), doubling(stay, origin(stay))
    parts = {
        "all_reduce": before + scatter + gather + after,
        "reduce_scatter": scatter,
        "all_gather": gather,
    }
    return Program(members.ranks, power, tuple(parts[kind]))


def _rule(kind: str, members: Members) -> str:
    return "" if kind == "all_reduce" else power_of_two(kind, members)


COLLECTIVE = Collective(
    "halving_doubling",
    "recursive halving, then doubling; of a number that is no power of two, some fold in before",
    ("all_reduce", "reduce_scatter", "all_gather"),
    _program,
    _rule,
    count=lambda members, chunks: 2 * members.ranks * members.ranks.bit_length() * chunks,
)
