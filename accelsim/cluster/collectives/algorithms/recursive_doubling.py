"""Recursive doubling: whole buffers, with a partner twice as far away each time. Thakur et al. (2005)."""

from __future__ import annotations

from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.patterns import exchanges, folded
from accelsim.cluster.collectives.program import Program


def _program(kind: str, members: Members, chunks: int) -> Program:
    before, stay, after = folded(members.ranks, 1)
    return Program(members.ranks, 1, (*before, *exchanges(stay, 1), *after))


COLLECTIVE = Collective(
    "recursive_doubling",
    "whole buffers exchanged, log2 of the devices times",
    ("all_reduce",),
    _program,
    count=lambda members, chunks: 2 * members.ranks * members.ranks.bit_length() * chunks,
)
