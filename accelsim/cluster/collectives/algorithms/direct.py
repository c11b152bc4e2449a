"""Direct: each device sends every other one what is for it, all at once, or pairwise, one partner after the other.

In round k of the pairwise exchange each device sends its part for the one k places on, and waits for both messages.
To ``server`` everybody sends its buffer, and the first device sends the sum back; its message to itself takes no time
and stands for "all have come".
"""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.base import Collective, Members, areas
from accelsim.cluster.collectives.patterns import direct_gather, direct_scatter, origin, settled, whole
from accelsim.cluster.collectives.program import Program, Rounds, rounds


def _direct(kind: str, members: Members, chunks: int) -> Program:
    many, everybody = members.ranks, whole(members.ranks)
    scatter, gather = (
        direct_scatter(everybody, origin(everybody)),
        direct_gather(everybody, origin(everybody)),
    )
    others = np.arange(1, many)
    parts: dict[str, list[Rounds]] = {
        "all_reduce": [*scatter, settled(everybody, origin(everybody)), *gather],
        "reduce_scatter": scatter,
        "all_gather": gather,
        "broadcast": [rounds(others * 0, others, 0, many)],
        "reduce": [rounds(others, others * 0, 0, many, True)],
        "all_to_all": [exchange(many, np.arange(many))],
        "send_recv": [rounds(others - 1, others, 0, many, into=np.full(many - 1, many))],
    }
    return Program(many, many, tuple(parts[kind]), areas(kind))


def exchange(many: int, shifts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Rounds:
    """Part i + shift of each device i's input to part i of the output of device i + shift, in one round."""
    shift, index = (each.ravel() for each in np.meshgrid(shifts, np.arange(many), indexing="ij"))
    other = (index + shift) % many
    return rounds(index, other, other, into=many + index)


DIRECT = Collective(
    "direct",
    "each to each at once",
    ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "send_recv"),
    _direct,
)


def _pairwise(kind: str, members: Members, chunks: int) -> Program:
    many = members.ranks
    turns = tuple(exchange(many, np.array([shift])) for shift in range(many))
    return Program(many, many, turns, 2, blocking=True)


PAIRWISE = Collective("pairwise", "one partner after the other", ("all_to_all",), _pairwise)


def _server(kind: str, members: Members, chunks: int) -> Program:
    others = np.arange(1, members.ranks)
    up, down = rounds(others, others * 0, 0, 1, True), rounds(others * 0, others)
    return Program(members.ranks, 1, (up, rounds([0], [0]), down))


SERVER = Collective(
    "server",
    "all to the first device, which adds and sends back",
    ("all_reduce",),
    _server,
    count=lambda members, chunks: 2 * members.ranks * chunks,
)
