"""Elements that a sliding window touches: exact counts of {stride * p + dilation * r} and of what two of them share."""

from __future__ import annotations

from math import gcd

import numpy as np

from accelsim.types import Bools, Ints


def touched(coefficients: tuple[int, ...], extents: tuple[Ints, ...], *, gaps: bool = False) -> Ints:
    """Distinct values of sum(coefficient * index), each index below its extent; at most two terms.

    Two terms, made coprime: (p + d, r) and (p, r + s) are the same value, so values are points less those that have
    such a neighbour inside the box. Any shape of ``extents`` (they broadcast); 0 where an extent is 0. ``gaps``:
    count what lies between the values of two terms too.
    """
    if len(extents) == 1:
        return extents[0]
    p, r = extents
    if gaps:
        step, hop = coefficients
        return np.asarray(np.where(p * r == 0, 0, step * (p - 1) + hop * (r - 1) + 1), np.int64)
    s, d = coprime(*coefficients)
    return np.asarray(p * r - np.maximum(p - d, 0) * np.maximum(r - s, 0), np.int64)


def coprime(s: int, d: int) -> tuple[int, int]:
    """Both divided by what they have in common: the same count of distinct values."""
    common = gcd(s, d)
    return s // common, d // common


def shared(
    coefficients: tuple[int, int], before: tuple[Ints, Ints], after: tuple[Ints, Ints], shift: Ints,
    *, gaps: bool = False,
) -> Ints:  # fmt: skip
    """Values in both {s p + d r} of ``before`` and ``shift`` + {s p + d r} of ``after`` (extents of p and r).

    All arrays have one shape (rows). Sets without gaps are intervals; the few others are written out. ``gaps``: count
    what lies between the values too, so that all are intervals.
    """
    s, d = coefficients if gaps else coprime(*coefficients)
    shift = shift if gaps else shift // gcd(*coefficients)
    low = np.maximum(shift, 0)
    ends = [s * (p - 1) + d * (r - 1) for p, r in (before, after)]
    high = np.minimum(ends[0], shift + ends[1])
    empty = (before[0] * before[1] == 0) | (after[0] * after[1] == 0)
    found = np.where(empty, 0, np.maximum(high - low + 1, 0))
    if gaps:
        return found
    torn = (found > 0) & ~(_gapless(s, d, *before) & _gapless(s, d, *after))
    if torn.any():
        rows = np.stack([column[torn] for column in (*before, *after, shift)], axis=1)
        keys, places = np.unique(rows, axis=0, return_inverse=True)
        counts = np.array([_written_out(s, d, *key) for key in keys.tolist()], np.int64)
        found[torn] = counts[places.reshape(-1)]
    return found


def _gapless(s: int, d: int, p: Ints, r: Ints) -> Bools:
    one = (p == 1) & (r == 1)
    along_r = ((r >= s) | (p == 1)) if d == 1 else np.zeros(p.shape, bool)
    along_p = ((p >= d) | (r == 1)) if s == 1 else np.zeros(p.shape, bool)
    return np.asarray(one | along_r | along_p, np.bool_)


def _written_out(s: int, d: int, p: int, r: int, p2: int, r2: int, shift: int) -> int:
    before = np.unique(s * np.arange(p)[:, None] + d * np.arange(r))
    after = np.unique(s * np.arange(p2)[:, None] + d * np.arange(r2)) + shift
    return len(np.intersect1d(before, after, assume_unique=True))
