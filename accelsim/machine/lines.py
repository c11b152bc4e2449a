"""Lines of a set-associative cache: which are there, which make room. No time, no values.

In each set the line that was used longest ago makes room (LRU). Many lines are looked up at once: those of different
sets do not know of each other, so the first ones of all sets are one operation on arrays, then the second ones, ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accelsim.machine.bursts import Addresses, starts_of
from accelsim.program.addresses import Runs

Flags = NDArray[np.bool_]
NOBODY = -1
"""Tag of a place without a line."""


class Pieces(NamedTuple):
    """What a transfer touches, in its order: numbers of lines, and how many bytes of each."""

    lines: Addresses
    nbytes: Addresses


def pieces(runs: Sequence[Runs], line_B: int, lines: int) -> Pieces:
    """The lines of some runs; those behind each other are one access. Numbers wrap round at ``lines``."""
    found = [_pieces(run, line_B) for run in runs]
    if not found:
        return Pieces(np.zeros(0, np.int64), np.zeros(0, np.int64))
    numbers, nbytes = (np.concatenate(column) for column in zip(*found, strict=True))
    first = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    return Pieces(numbers[first] % lines, np.add.reduceat(nbytes, first))


def _pieces(run: Runs, line_B: int) -> tuple[Addresses, Addresses]:
    starts = starts_of(run)
    ends = starts + run.length_B
    first, last = starts // line_B, (ends - 1) // line_B
    counts = last - first + 1
    behind = np.cumsum(counts)
    numbers = np.repeat(first, counts) + np.arange(int(behind[-1])) - np.repeat(behind - counts, counts)
    begin = np.maximum(numbers * line_B, np.repeat(starts, counts))
    end = np.minimum((numbers + 1) * line_B, np.repeat(ends, counts))
    return numbers, end - begin


class Touched(NamedTuple):
    """What came of some accesses: which hit, which lines were fetched, which had to be written back and whose they
    were, in the order of the accesses that made them."""

    hit: Flags
    fetched: Addresses
    written_back: Addresses
    owners: Addresses


class Lines:
    """The lines of a cache, none at first. ``write_back``: stores make room and stay; else they pass, and change only
    what is there."""

    def __init__(self, sets: int, ways: int, write_back: bool = True) -> None:
        self._sets, self._write_back = sets, write_back
        self._tags = np.full((sets, ways), NOBODY, np.int64)
        self._used = np.zeros((sets, ways), np.int64)  # number of the access that used it last
        self._dirty = np.zeros((sets, ways), np.bool_)
        self._owner = np.zeros((sets, ways), np.int64)
        self._accesses = 0

    @property
    def dirty(self) -> int:
        """How many lines the memory behind does not have yet."""
        return int(np.count_nonzero(self._dirty))

    def access(self, lines: Addresses, write: bool, whole: Flags, owner: int = 0) -> Touched:
        """Look up lines, one after the other. ``whole``: of a store, whether all of the line is written, so that it
        need not be fetched; ``owner``: who is asked for when what is stored is written back."""
        hit = np.zeros(len(lines), np.bool_)
        gone = [_Gone(lines[:0], lines[:0], lines[:0])]
        for index in self._rounds(lines):
            hit[index], left = self._round(index, lines[index], write, owner)
            gone.append(left)
        self._accesses += len(lines)
        order, tags, owners = (np.concatenate(column) for column in zip(*gone, strict=True))
        turn = np.argsort(order, kind="stable")
        if write:
            missing = ~hit & ~whole & self._write_back
        else:
            missing = ~hit
        return Touched(hit, lines[missing], tags[turn], owners[turn])

    def _rounds(self, lines: Addresses) -> Iterator[Addresses]:
        """Indices of accesses to different sets, those of one set in their order from round to round."""
        if not len(lines):
            return
        sets = lines % self._sets
        order = np.argsort(sets, kind="stable")
        ranked = sets[order]
        begins = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
        turn = np.arange(len(lines)) - np.repeat(begins, np.diff(np.append(begins, len(lines))))
        yield from np.split(order[np.argsort(turn, kind="stable")], np.cumsum(np.bincount(turn))[:-1])

    def _round(self, index: Addresses, lines: Addresses, write: bool, owner: int) -> tuple[Flags, _Gone]:
        """Which of some lines of different sets hit, and what they made leave."""
        sets = lines % self._sets
        same = self._tags[sets] == lines[:, None]
        hit: Flags = same.any(axis=1)
        ways = np.where(hit, same.argmax(axis=1), self._used[sets].argmin(axis=1))
        keeps = hit | (self._write_back or not write)
        leaves = keeps & ~hit & self._dirty[sets, ways]
        left = sets[leaves], ways[leaves]
        gone = _Gone(index[leaves], self._tags[left], self._owner[left])
        there = sets[keeps], ways[keeps]
        self._tags[there], self._used[there] = lines[keeps], self._accesses + index[keeps] + 1
        if write and self._write_back:
            self._dirty[there], self._owner[there] = True, owner
        else:
            self._dirty[there] &= hit[keeps]
        return hit, gone


class _Gone(NamedTuple):
    """Dirty lines that made room: by which access, their numbers, their owners."""

    by: Addresses
    lines: Addresses
    owners: Addresses
