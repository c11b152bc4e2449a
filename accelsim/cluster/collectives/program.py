"""Rounds of a collective on cells: equal parts of a buffer, however large that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from accelsim.types import Bools, Ints


@dataclass(frozen=True, eq=False)
class Rounds:
    """Rounds alike, ``times`` of them; in each, message i goes from ``source[i]`` to ``target[i]``.

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
        """First cell of each message in the round of that number."""
        cell = self.first
        if self.step:
            block = self.first // self.period * self.period
            cell = block + (self.first - block + self.step * number) % self.period
        return cell if self.names is None else self.names[cell]


def rounds(
    source: Iterable[int] | Ints, target: Iterable[int] | Ints, first: Iterable[int] | Ints | int = 0,
    width: Iterable[int] | Ints | int = 1, reduces: Iterable[bool] | Bools | bool = False, into: Ints | None = None,
) -> Rounds:  # fmt: skip
    """One round, of lists, arrays or (for all messages) one value each."""
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
    """Return the same ``chunks`` times at once, each on its share of the buffer; chunks share the wires."""
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
        block, source=np.tile(block.source, chunks), target=np.tile(block.target, chunks),
        first=area * cells * chunks + shift + inside, width=np.tile(block.width, chunks),
        reduces=np.tile(block.reduces, chunks), into=into, names=names,
    )  # fmt: skip
