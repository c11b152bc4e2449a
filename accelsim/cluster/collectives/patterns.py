"""Rounds that collectives are made of, for several groups of devices at once.

``members``: int64 ``[groups, n]``, the devices of each group in order. A group works on n blocks of one cell (around a
ring: of ``width`` cells) from cell ``base`` on (one entry per group); member i ends a reduce-scatter with block i, with
which it begins an all-gather.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from accelsim.cluster.collectives.program import Rounds, rounds
from accelsim.types import Ints


def whole(ranks: int) -> Ints:
    """All devices as one group."""
    return np.arange(ranks, dtype=np.int64)[None]


def origin(members: Ints) -> Ints:
    """Base 0 for all groups."""
    return np.zeros(len(members), np.int64)


def ring_scatter(members: Ints, base: Ints, width: int = 1) -> list[Rounds]:
    """Reduce-scatter around a ring: in round j, member i sends block i - 1 - j to the next, which adds its own."""
    return _ring(members, base, width, lag=1, reduces=True)


def ring_gather(members: Ints, base: Ints, width: int = 1) -> list[Rounds]:
    """All-gather around a ring: in round j, member i sends block i - j to the next."""
    return _ring(members, base, width, lag=0, reduces=False)


def _ring(members: Ints, base: Ints, width: int, lag: int, reduces: bool) -> list[Rounds]:
    many = members.shape[1]
    if many == 1:
        return []
    block = (np.arange(many) - lag) % many
    first = base[:, None] + block * width
    made = rounds(members.ravel(), np.roll(members, -1, 1).ravel(), first.ravel(), width, reduces)
    return [replace(made, times=many - 1, step=-width, period=many * width)]


def direct_scatter(members: Ints, base: Ints) -> list[Rounds]:
    """Reduce-scatter in one round: each member sends every other one its block."""
    return _direct(members, base, own=False)


def direct_gather(members: Ints, base: Ints) -> list[Rounds]:
    """All-gather in one round: each member sends its block to every other one."""
    return _direct(members, base, own=True)


def _direct(members: Ints, base: Ints, own: bool) -> list[Rounds]:
    many = members.shape[1]
    if many == 1:
        return []
    shift, index = (each.ravel() for each in np.meshgrid(np.arange(1, many), np.arange(many), indexing="ij"))
    other = (index + shift) % many
    first = base[:, None] + (index if own else other)
    return [rounds(members[:, index].ravel(), members[:, other].ravel(), first.ravel(), 1, not own)]


def settled(members: Ints, base: Ints) -> Rounds:
    """Each member waits until its block is complete: a message to itself, which takes no time. Those that wait for it
    need not wait for each of many senders."""
    first = base[:, None] + np.arange(members.shape[1])
    return rounds(members.ravel(), members.ravel(), first.ravel())


def halving(members: Ints, base: Ints) -> list[Rounds]:
    """Reduce-scatter among 2^k: with the member half as far away each time, half of what is left is exchanged."""
    return [_exchange(members, base, distance, True) for distance in _distances(members)]


def doubling(members: Ints, base: Ints) -> list[Rounds]:
    """All-gather among 2^k, the mirror image of ``halving``."""
    return [_exchange(members, base, distance, False) for distance in reversed([*_distances(members)])]


def _distances(members: Ints) -> Iterator[int]:
    distance = members.shape[1] // 2
    while distance:
        yield distance
        distance //= 2


def _exchange(members: Ints, base: Ints, distance: int, reduces: bool) -> Rounds:
    index = np.arange(members.shape[1])
    other = index ^ distance
    half = (other if reduces else index) // distance * distance
    first = base[:, None] + half
    return rounds(members.ravel(), members[:, other].ravel(), first.ravel(), distance, reduces)


def exchanges(members: Ints) -> list[Rounds]:
    """All-reduce among 2^k: everything, with the member twice as far away each time."""
    index = np.arange(members.shape[1])
    return [
        rounds(members.ravel(), members[:, index ^ distance].ravel(), 0, 1, True)
        for distance in reversed([*_distances(members)])
    ]


def folded(ranks: int, cells: int) -> tuple[list[Rounds], Ints, list[Rounds]]:
    """Return, for algorithms among 2^k devices, how others fold in before, the devices that stay, how results come
    back.

    Of the first 2(n - 2^k) devices each second one adds its whole buffer to that of the one before it.
    """
    power = 1 << (ranks.bit_length() - 1)
    out = np.arange(ranks - power) * 2 + 1
    if not len(out):
        return [], whole(ranks), []
    stay = np.setdiff1d(np.arange(ranks), out)[None]
    return [rounds(out, out - 1, 0, cells, True)], stay, [rounds(out - 1, out, 0, cells)]
