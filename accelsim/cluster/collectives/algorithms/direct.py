"""Direct: each device sends every other one what is for it, all at once, or pairwise, one partner after the other.

In round k of the pairwise exchange each device sends its part to its k-th partner, and waits for both messages.
Partners follow each other so that each round is a permutation, all of whose messages stay in a node or none do: no two
meet at the card of a device. On nodes of unequal size, the partner is k places on.
To ``server`` everybody sends its buffer, and the first device sends the sum back; its message to itself takes no time
and stands for "all have come".
"""

from __future__ import annotations

import numpy as np

from accelsim.cluster.collectives.base import KINDS, Collective, Members, areas
from accelsim.cluster.collectives.rounds import Program, Rounds, direct, rounds, settled, whole
from accelsim.types import Ints


def _direct(kind: str, members: Members, chunks: int) -> Program:
    many, everybody = members.ranks, whole(members.ranks)
    scatter, gather = direct(everybody, reduces=True), direct(everybody)
    others = np.arange(1, many)
    parts: dict[str, list[Rounds]] = {
        "all_reduce": [*scatter, settled(everybody), *gather],
        "reduce_scatter": scatter,
        "all_gather": gather,
        "broadcast": [rounds(others * 0, others, 0, many)],
        "reduce": [rounds(others, others * 0, 0, many, True)],
        "all_to_all": [exchange(np.arange(many), partners(members).ravel())],
        "send_recv": [rounds(others - 1, others, 0, many, into=np.full(many - 1, many))],
    }
    return Program(many, many, tuple(parts[kind]), areas(kind))


def partners(members: Members) -> Ints:
    """Return the partner of each device in each round of an exchange, itself in the first: int64 ``[rounds,
    devices]``."""
    many, each = members.ranks, members.per_node
    index = np.arange(many)
    if any(members.groups.count(node) != each for node in set(members.groups)):
        return (index + index[:, None]) % many
    place = np.argsort(np.array(members.groups), kind="stable")  # devices by node, in the order of the group
    node, inside = np.divmod(index, each)
    further, next_to = np.divmod(index[:, None], each)
    other = (node + further) % (many // each) * each + (inside + next_to) % each
    found = np.empty((many, many), np.int64)
    found[:, place] = place[other]
    return found


def exchange(index: Ints, other: Ints) -> Rounds:
    """Return one round in which each device sends each ``other`` one its part. ``index``: the devices, once for each
    round of partners."""
    many = len(index)
    source = np.tile(index, len(other) // many)
    return rounds(source, other, other, into=many + source)


DIRECT = Collective("direct", "each to each at once", tuple(KINDS), _direct)


def _pairwise(kind: str, members: Members, chunks: int) -> Program:
    many = members.ranks
    turns = tuple(exchange(np.arange(many), row) for row in partners(members))
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
