"""Binomial tree: who has it passes it on, each time to one device twice as far away. Thakur et al. (2005)."""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.program import Program, Rounds, rounds


def _program(kind: str, members: Members, chunks: int) -> Program:
    steps = [
        _step(members.ranks, 1 << power, kind == "reduce")
        for power in range((members.ranks - 1).bit_length())
    ]
    return Program(members.ranks, 1, tuple(reversed(steps) if kind == "reduce" else steps), blocking=True)


def _step(ranks: int, distance: int, reduces: bool) -> Rounds:
    near = np.arange(min(distance, ranks - distance))
    far = near + distance
    return rounds(far, near, 0, 1, True) if reduces else rounds(near, far)


BINOMIAL = Collective(
    "binomial",
    "a binomial tree",
    ("broadcast", "reduce"),
    _program,
    count=lambda members, chunks: members.ranks * chunks,
)
