"""Figures of a service: percentiles with the interval that finitely many requests leave."""

from __future__ import annotations

from math import ceil, floor, sqrt
from typing import NamedTuple

import numpy as np

from accelsim.types import Array

Z = 1.645
"""Standard normal quantile of 95 %: the ends of an interval of 90 %."""


class Figure(NamedTuple):
    """A figure with the 90 % interval of its estimate from finitely many requests; ends are None where these are too
    few to say."""

    value: float
    low: float | None
    high: float | None


def percentile(values: Array, share: float) -> Figure:
    """Return a percentile by linear interpolation between ranks, and its interval by order statistics (binomial ranks
    n p +- 1.645 sqrt(n p (1 - p)); David and Nagaraja, Order Statistics, 7.1)."""
    ordered = np.sort(values)
    count = len(ordered)
    middle, spread = count * share, Z * sqrt(count * share * (1 - share))
    low, high = floor(middle - spread), ceil(middle + spread)
    ends = [float(ordered[at - 1]) if 1 <= at <= count else None for at in (low, high)]
    return Figure(float(np.quantile(ordered, share)), *ends)


def mean(values: Array, batches: int = 20) -> Figure:
    """Return a mean over requests in order of arrival, and its interval by the means of ``batches`` equal parts, since
    neighbours share a queue (Law and Kelton, Simulation Modeling and Analysis, 9.5.3)."""
    found = float(np.mean(values))
    if len(values) < 2 * batches:
        return Figure(found, None, None)
    size = len(values) // batches
    parts = values[: size * batches].reshape(batches, size).mean(axis=1)
    half = STUDENT[batches] * float(np.std(parts, ddof=1)) / sqrt(batches)
    return Figure(found, found - half, found + half)


STUDENT = {20: 1.729}
"""Batches -> quantile of 95 % of Student's distribution with one degree of freedom less."""
