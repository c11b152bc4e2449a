"""Chain: from device to device, in chunks that follow each other; each device sends one chunk at a time each way."""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.program import Program, Rounds, rounds

WAYS = {"broadcast": (False,), "reduce": (True,), "all_reduce": (True, False)}
"""Kind -> passes of each chunk, whether they lead to the first device and add."""


def _program(kind: str, members: Members, chunks: int) -> Program:
    hops, ways = members.ranks - 1, WAYS[kind]
    turns = tuple(_turn(turn, hops, chunks, ways) for turn in range(hops * len(ways) + chunks - 1))
    return Program(members.ranks, chunks, turns, blocking=True)


def _turn(turn: int, hops: int, chunks: int, ways: tuple[bool, ...]) -> Rounds:
    """One turn: chunk ``turn - h`` passes hop h, counted through all passes."""
    hop = np.arange(max(0, turn - chunks + 1), min(hops * len(ways), turn + 1))
    inwards, along = np.array(ways)[hop // hops], hop % hops
    source = np.where(inwards, hops - along, along)
    return rounds(source, np.where(inwards, source - 1, source + 1), turn - hop, 1, inwards)


COLLECTIVE = Collective(
    "chain",
    "along a chain, in chunks",
    ("broadcast", "reduce", "all_reduce"),
    _program,
    pipelined=True,
    count=lambda members, chunks: 2 * members.ranks * chunks,
)
