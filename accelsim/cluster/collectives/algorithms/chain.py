"""Chain: from device to device, in chunks that follow each other; each device sends one chunk at a time."""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.program import Program, Rounds, rounds


def _program(kind: str, members: Members, chunks: int) -> Program:
    hops = members.ranks - 1
    turns = tuple(_turn(turn, hops, chunks, kind == "reduce") for turn in range(hops + chunks - 1))
    return Program(members.ranks, chunks, turns, blocking=True)


def _turn(turn: int, hops: int, chunks: int, reduces: bool) -> Rounds:
    """Chunk ``turn - h`` passes hop h: of a broadcast counted from the first device on, of a reduction towards it."""
    hop = np.arange(max(0, turn - chunks + 1), min(hops, turn + 1))
    if reduces:
        return rounds(hops - hop, hops - hop - 1, turn - hop, 1, True)
    return rounds(hop, hop + 1, turn - hop)


COLLECTIVE = Collective(
    "chain", "along a chain, in chunks", ("broadcast", "reduce"), _program, pipelined=True
)
