"""Intervals around predictions that hold: split-conformal, from residuals of rows that no fit had seen.

A residual is the logarithm of measured over predicted. Of exchangeable rows the next one lies within the quantile of
``(n + 1) 0.9 / n`` of the sizes of n others with a probability of 0.9 at the least (Vovk et al. 2005; Lei et al.
2018). Rows that behave alike (a *regime*) have a quantile of their own where there are enough of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, exp
from typing import NamedTuple

import numpy as np

from accelsim.types import Array, Floats, Ints

LEVEL = 0.9
"""Share of rows that an interval is to hold."""
ENOUGH = 50
"""Rows of a regime from which it has an interval of its own."""
POOLED = "all"
"""Name of the interval of everything that has none of its own."""


class Interval(NamedTuple):
    """Predicted times and divided by ``factor``; from so many ``rows``."""

    factor: float
    rows: int


def quantile(sizes: Floats, level: float = LEVEL) -> float:
    """The conformal quantile of sizes of residuals: the ceil((n + 1) level)-th smallest, the largest of few."""
    rank = min(len(sizes), ceil((len(sizes) + 1) * level))
    return float(np.sort(sizes)[rank - 1])


def intervals(
    predicted: Floats, measured: Floats, regime: Array, level: float = LEVEL
) -> dict[str, Interval]:
    """Regime -> interval, ``POOLED`` with it, from predictions of rows that were left out of their fit."""
    sizes = np.abs(np.log(measured / predicted))
    found = {POOLED: Interval(exp(quantile(sizes, level)), len(sizes))}
    for name in sorted(set(regime.tolist())):
        own = sizes[regime == name]
        if len(own) >= ENOUGH:
            found[name] = Interval(exp(quantile(own, level)), len(own))
    return found


def factors(found: Mapping[str, Interval], regime: Array) -> Floats:
    """The factor of each row."""
    pooled = found[POOLED]
    return np.array([found.get(name, pooled).factor for name in regime.tolist()])


class Coverage(NamedTuple):
    """Share of rows within their intervals, of how many, and the median factor."""

    share: float
    rows: int
    factor: float


def coverage(
    predicted: Floats, measured: Floats, regime: Array, part: Ints, level: float = LEVEL
) -> Coverage:
    """Return how many rows lie within intervals that come of the other ``part``s of the rows."""
    inside, taken = np.zeros(len(predicted), bool), np.ones(len(predicted))
    for number in np.unique(part):
        out = part == number
        known = intervals(predicted[~out], measured[~out], regime[~out], level)
        taken[out] = factors(known, regime[out])
        inside[out] = np.abs(np.log(measured[out] / predicted[out])) <= np.log(taken[out])
    return Coverage(float(inside.mean()), len(inside), float(np.median(taken)))
