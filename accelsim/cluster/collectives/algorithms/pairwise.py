"""Pairwise exchange: in round k, each device sends its part for the one k places on, and waits for both messages."""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.algorithms.direct import exchange
from accelsim.cluster.collectives.base import Collective, Members
from accelsim.cluster.collectives.program import Program


def _program(kind: str, members: Members, chunks: int) -> Program:
    many = members.ranks
    turns = tuple(exchange(many, np.array([shift])) for shift in range(many))
    return Program(many, many, turns, 2, blocking=True)


COLLECTIVE = Collective("pairwise", "one partner after the other", ("all_to_all",), _program)
