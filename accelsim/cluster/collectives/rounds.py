"""Rounds of messages on cells (equal parts of a buffer of any size), from which collectives are built.

Patterns work for several groups of devices at once. ``members``: int64 ``[groups, n]``, the devices of each group in
order. A group works on n blocks of one cell (around a ring: of ``width`` cells) from cell ``base`` on; member i ends a
reduce-scatter with block i, with which it begins an all-gather.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from accelsim.types import Bools, Ints


@dataclass(frozen=True, eq=False)
class Rounds:
    """Equal rounds, ``times`` of them. In each, message i goes from ``source[i]`` to ``target[i]``.

    It carries ``width[i]`` cells, in the first round from ``first[i]`` on; from round to round that moves by ``step``,
    around within its block of ``period`` cells; where there are ``names``, these are the cells so numbered. They go to
    cells ``into`` (None: the same) and are added there where ``reduces[i]``.
    """

    source: Ints
    target: Ints
    first: Ints
    width: Ints
    reduces: Bools
    times: int = 1
    step: int = 0
    period: int = 1
    into: Ints | None = None
    names: Ints | None = None

    def cells(self, number: int) -> Ints:
        """Return the first cell of each message in round ``number``."""
        cell = self.first
        if self.step:
            block = self.first // self.period * self.period
            cell = block + (self.first - block + self.step * number) % self.period
        return cell if self.names is None else self.names[cell]


def rounds(
    source: Iterable[int] | Ints,
    target: Iterable[int] | Ints,
    first: Iterable[int] | Ints | int = 0,
    width: Iterable[int] | Ints | int = 1,
    reduces: Iterable[bool] | Bools | bool = False,
    into: Ints | None = None,
) -> Rounds:
    """Make one round from lists, arrays, or one value for all messages."""
    sources = _ints(source)
    many = len(sources)
    flags = np.broadcast_to(np.array(reduces if isinstance(reduces, bool) else list(reduces), bool), many)
    targets, firsts, widths = (np.broadcast_to(_ints(each), many).copy() for each in (target, first, width))
    return Rounds(sources, targets, firsts, widths, flags, into=into)


def _ints(values: Iterable[int] | Ints | int) -> Ints:
    plain = values if isinstance(values, int | np.ndarray) else list(values)
    return np.asarray(plain, np.int64)


@dataclass(frozen=True, eq=False)
class Program:
    """A collective among ``ranks`` devices, on buffers of ``cells`` cells in each of ``areas`` (input, and output).

    A message waits for whatever wrote the cells that it carries at its sender. ``blocking``: also for the last message
    that its sender sent, and for the last that came to it, in earlier rounds, as calls that return when all is done.
    """

    ranks: int
    cells: int
    rounds: tuple[Rounds, ...]
    areas: int = 1
    blocking: bool = False


def chunked(program: Program, chunks: int) -> Program:
    """Return the program run on ``chunks`` shares of the buffer at once. Chunks share the wires."""
    if chunks == 1:
        return program
    cells = program.cells
    return replace(
        program, cells=cells * chunks, rounds=tuple(_chunked(each, cells, chunks) for each in program.rounds)
    )


def _chunked(block: Rounds, cells: int, chunks: int) -> Rounds:
    many = len(block.source)
    area, inside = np.divmod(np.tile(block.first, chunks), cells)
    shift = np.repeat(np.arange(chunks) * cells, many)
    into = None
    if block.into is not None:
        into_area, into_inside = np.divmod(np.tile(block.into, chunks), cells)
        into = into_area * cells * chunks + shift + into_inside
    names = block.names
    if names is not None:
        names = np.concatenate([names + chunk * cells for chunk in range(chunks)])
    return replace(
        block,
        source=np.tile(block.source, chunks),
        target=np.tile(block.target, chunks),
        first=area * cells * chunks + shift + inside,
        width=np.tile(block.width, chunks),
        reduces=np.tile(block.reduces, chunks),
        into=into,
        names=names,
    )


def whole(ranks: int) -> Ints:
    """Return all devices as one group: int64 ``[1, ranks]``."""
    return np.arange(ranks, dtype=np.int64)[None]


def _first(members: Ints, base: Ints | int, cells: Ints) -> Ints:
    return (np.broadcast_to(base, len(members))[:, None] + cells).ravel()


def ring(members: Ints, base: Ints | int = 0, width: int = 1, *, reduces: bool = False) -> list[Rounds]:
    """Return an all-gather around a ring: in round j, member i sends block i - j to the next. With ``reduces``, return
    a reduce-scatter: block i - 1 - j, to which the next adds its own."""
    many = members.shape[1]
    if many == 1:
        return []
    first = _first(members, base, (np.arange(many) - reduces) % many * width)
    made = rounds(members.ravel(), np.roll(members, -1, 1).ravel(), first, width, reduces)
    return [replace(made, times=many - 1, step=-width, period=many * width)]


def direct(members: Ints, *, reduces: bool = False) -> list[Rounds]:
    """Return an all-gather in one round: each member sends its block to every other one. With ``reduces``, return a
    reduce-scatter: each member sends every other one that one's block."""
    many = members.shape[1]
    if many == 1:
        return []
    shift, index = (each.ravel() for each in np.meshgrid(np.arange(1, many), np.arange(many), indexing="ij"))
    other = (index + shift) % many
    first = _first(members, 0, other if reduces else index)
    return [rounds(members[:, index].ravel(), members[:, other].ravel(), first, 1, reduces)]


def settled(members: Ints) -> Rounds:
    """Return a round in which each member sends itself a message when its block is complete, which takes no time.
    Others then wait for one message instead of many senders."""
    return rounds(members.ravel(), members.ravel(), _first(members, 0, np.arange(members.shape[1])))


def halving(members: Ints) -> list[Rounds]:
    """Return a reduce-scatter among 2^k members: each time, half of the rest is exchanged with the member half as far
    away."""
    return [_exchange(members, distance, True) for distance in _distances(members)]


def doubling(members: Ints) -> list[Rounds]:
    """Return an all-gather among 2^k members, the mirror image of ``halving``."""
    return [_exchange(members, distance, False) for distance in reversed(_distances(members))]


def _distances(members: Ints) -> list[int]:
    return [1 << power for power in reversed(range(members.shape[1].bit_length() - 1))]


def _exchange(members: Ints, distance: int, reduces: bool) -> Rounds:
    index = np.arange(members.shape[1])
    other = index ^ distance
    first = _first(members, 0, (other if reduces else index) // distance * distance)
    return rounds(members.ravel(), members[:, other].ravel(), first, distance, reduces)


def exchanges(members: Ints) -> list[Rounds]:
    """Return an all-reduce among 2^k members: each time, whole buffers are exchanged with the member twice as far
    away."""
    index = np.arange(members.shape[1])
    return [
        rounds(members.ravel(), members[:, index ^ distance].ravel(), 0, 1, True)
        for distance in reversed(_distances(members))
    ]


def folded(ranks: int, cells: int) -> tuple[list[Rounds], Ints, list[Rounds]]:
    """Return, for algorithms among 2^k devices, the rounds in which the others add their buffers before, the devices
    that stay, and the rounds in which results come back.

    Of the first 2(n - 2^k) devices each second one adds its whole buffer to that of the one before it.
    """
    power = 1 << (ranks.bit_length() - 1)
    out = np.arange(ranks - power) * 2 + 1
    if not len(out):
        return [], whole(ranks), []
    stay = np.setdiff1d(np.arange(ranks), out)[None]
    return [rounds(out, out - 1, 0, cells, True)], stay, [rounds(out - 1, out, 0, cells)]
