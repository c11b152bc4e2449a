"""Fewer spans where there are too many for a page: neighbours of one row become one, by a rule that can be stated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.types import Ints

FINEST = 2**24
"""Parts of the run below which gaps are closed first, where there are too many spans."""


class Spans(NamedTuple):
    """Spans of time, fs, sorted by row and start; those of a row do not overlap. ``kind``: only equal ones are joined;
    ``first``: index of the first of those that each stands for, ``many``: how many."""

    row: Ints
    start: Ints
    end: Ints
    kind: Ints
    first: Ints
    many: Ints

    @property
    def joined(self) -> int:
        """Return how many spans there were before any were joined."""
        return int(self.many.sum())


def spans(row: Ints, start: Ints, end: Ints, kind: Ints) -> Spans:
    """Spans in the order of row and start; ``first`` is the index in the arrays given."""
    order = np.lexsort((start, row))
    ones = np.ones(len(order), np.int64)
    return Spans(row[order], start[order], end[order], kind[order], order, ones)


def thinned(found: Spans, most: int, whole_fs: int) -> tuple[Spans, int]:
    """At most ``most`` spans, and the gap in fs up to which neighbours of one row and kind were joined (0: none).

    The gap is doubled until they are few enough; where gaps as long as the run do not suffice, kinds are joined too,
    each span counting as the first of them.
    """
    gap, result = 0, found
    step = max(1, whole_fs // FINEST)
    while len(result.row) > most and gap <= whole_fs:
        gap = gap * 2 or step
        result = _joined(found, gap, True)
    gap = min(gap, whole_fs)
    mixed = step
    while len(result.row) > most and mixed <= 2 * whole_fs:
        result, gap, mixed = _joined(found, mixed, False), mixed, mixed * 2
    return result, gap


def _joined(found: Spans, gap: int, alike: bool) -> Spans:
    apart = (found.row[1:] != found.row[:-1]) | (found.start[1:] - found.end[:-1] > gap)
    if alike:
        apart |= found.kind[1:] != found.kind[:-1]
    begins = np.flatnonzero(np.concatenate(([True], apart)))
    ends = np.maximum.reduceat(found.end, begins)
    counts = np.add.reduceat(found.many, begins)
    return Spans(
        found.row[begins], found.start[begins], ends, found.kind[begins], found.first[begins], counts
    )


def deltas(values: Ints) -> list[int]:
    """The first value, then the differences: small numbers, which pack well."""
    return [int(each) for each in np.diff(values, prepend=0)] if len(values) else []
