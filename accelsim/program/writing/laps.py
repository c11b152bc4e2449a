"""Laps of a tile loop: once some of them did the same, those that follow are left out but for the last few
(``accelsim.program.rolled``).

What the next lap does depends on its tiles, on the slots whose turn it is, and on who wrote and read last what it
touches. Tiles of alike laps differ in their place alone. What a unit of laps touches it leaves behind as the unit
before did, if it did the same, and what it does not touch stays as it is. So where the same slots have their turn again
and several units did the same, the next does so too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from accelsim.program.commands import Command, Tile, Use
from accelsim.program.repeated import Span
from accelsim.program.rolled import Loop
from accelsim.program.tiles import Exec, Lap
from accelsim.program.writing.builder import Builder

LONGEST = 4
"""Laps of a unit at the most: so many may pass until it is the turn of the same slots again."""


class Least(NamedTuple):
    """Alike units that are written before and behind a cut at least, and commands, where units are small."""

    before: int
    behind: int
    many: int
    few: int


RECURS = Least(4, 2, 96, 48)
"""Where the machine must see its state recur, and what begins early behind a unit must be what begins early behind the
others."""
FOLLOWS = Least(3, 1, 0, 0)
"""Where times follow from those before, whatever they are: two units must be alike, and the last one is written."""


class Result(Protocol):
    """What a step counts while it is written."""

    written: int


class _Seen(NamedTuple):
    """Before a lap: how many commands there are, which slots are next, how much of the result is written."""

    commands: int
    turns: Hashable
    written: int


class Laps:
    """Follows the laps of one step. ``turns``: which slots are next, in the terms of the step; ``result``: where it
    counts what it has written; ``regular``: whether the machine can be expected to do the same in each lap."""

    def __init__(
        self, builder: Builder, turns: Callable[[], Hashable], result: Result, regular: bool
    ) -> None:
        self._builder, self._turns, self._result = builder, turns, result
        self._rolls = builder.rolls and (regular or builder.paced)
        self._least = FOLLOWS if builder.paced else RECURS
        self._seen: list[_Seen] = []

    def passes(self, laps: Iterator[Lap]) -> Iterator[Exec]:
        """Passes of all laps that are to be written."""
        for lap in laps:
            skipped = self._left_out(lap.like) if self._rolls else 0
            for _ in range(skipped):
                lap = next(laps)
            yield from lap.passes

    def _left_out(self, like: int) -> int:
        """Return how many laps from this one on are left out, of ``like`` that differ in their place alone."""
        if like == 1:  # those behind it are others
            self._seen = []
            return 0
        self._seen.append(_Seen(len(self._builder.commands), self._turns(), self._result.written))
        for laps in range(1, LONGEST + 1):
            if (loop := self._loop(laps, like)) is not None:
                self._builder.loops.append(loop)
                self._result.written += loop.span.times * (
                    self._seen[-1].written - self._seen[-1 - laps].written
                )
                self._seen = []
                return laps * loop.span.times
        return 0

    def _loop(self, laps: int, like: int) -> Loop | None:
        """The cut here where units of so many laps are alike, and enough of them are left."""
        units = self._seen[::-1][::laps][::-1]
        least = self._least
        if len(units) <= least.before or units[-1].turns != units[-2].turns:
            return None
        size = units[-1].commands - units[-2].commands
        before, behind = max(least.before, -(-least.many // size)), max(least.behind, -(-least.few // size))
        times = like // laps - behind
        if len(units) <= before or times < before:
            return None
        span, first = Span(units[-1].commands, size, times), units[-1 - before].commands
        moved = _moved(self._builder.commands[first : span.end], first, size)
        return Loop(span, first, behind, *moved) if moved is not None else None


def _moved(commands: Sequence[Command], first: int, size: int) -> tuple[Tile, dict[int, int]] | None:
    """Return how far tiles, and versions of regions, move on from unit to unit; None where the units are not alike."""
    if len(commands) % size:
        return None
    tiles, versions = set[Tile](), dict[int, int]()
    for earlier, later in pairwise(
        commands[start : start + size] for start in range(size, len(commands), size)
    ):
        for one, other in zip(earlier, later, strict=True):
            if not (_alike(one, other) and _waits_move(one, other, first, size)):
                return None
            if one.effect.tile is not None and other.effect.tile is not None:
                moved = (b - a for a, b in zip(one.effect.tile, other.effect.tile, strict=True))
                tiles.add(Tile(*moved))
            for a, b in zip((*one.reads, *one.writes), (*other.reads, *other.writes), strict=True):
                if versions.setdefault(a.region, b.version - a.version) != b.version - a.version:
                    return None
    return (tiles.pop(), versions) if len(tiles) == 1 else None


def _alike(one: Command, other: Command) -> bool:
    """Return whether two commands differ in numbers and places alone."""
    return (
        (one.engine, one.op, one.label, one.work, one.actions, one.effect._replace(tile=None))
        == (other.engine, other.op, other.label, other.work, other.actions, other.effect._replace(tile=None))
        and (one.effect.tile is None) == (other.effect.tile is None)
        and _touched(one.reads) == _touched(other.reads)
        and _touched(one.writes) == _touched(other.writes)
    )


def _touched(uses: Sequence[Use]) -> list[tuple[int, str]]:
    return [(use.region, use.role) for use in uses]


def _waits_move(one: Command, other: Command, first: int, size: int) -> bool:
    """Return whether each waits for the same of its own laps, or for the same that is older than command ``first``."""
    return len(one.waits) == len(other.waits) and all(
        (a.phase, a.why) == (b.phase, b.why)
        and b.command == (a.command if b.command < first else a.command + size)
        for a, b in zip(one.waits, other.waits, strict=True)
    )
