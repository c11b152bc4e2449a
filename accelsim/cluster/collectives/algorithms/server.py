"""Gather to one: everybody sends its buffer to the first device, which sends the sum back: a parameter server.

Its message to itself takes no time; it stands for "all have come".
"""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.program import Program, rounds


def _program(kind: str, members: Members, chunks: int) -> Program:
    others = np.arange(1, members.ranks)
    up, down = rounds(others, others * 0, 0, 1, True), rounds(others * 0, others)
    return Program(members.ranks, 1, (up, rounds([0], [0]), down))


SERVER = Collective(
    "server",
    "all to the first device, which adds and sends back",
    ("all_reduce",),
    _program,
    count=lambda members, chunks: 2 * members.ranks * chunks,
)
