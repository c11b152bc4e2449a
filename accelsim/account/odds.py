"""Odds: how sure it is that one prediction is really below another, or within a limit.

A prediction is believed to be lognormal. Its median is the middle of its 90 % interval in logarithms: where the ends
are not equally far from the predicted figure, as for kernels that a host launches, measurements lie to one side of it.
Two beliefs have errors that go together (``shared``), except for the part of each that is its own (``alone``), as the
spread of a price over providers.
"""

from __future__ import annotations

from math import erf, exp, hypot, log, sqrt
from statistics import NormalDist
from typing import NamedTuple

from accelsim.fit.validation import LEVEL

ENDS = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""Standard deviations from the median to the ends of an interval that holds ``LEVEL``."""
SHARED = 0.40
"""Correlation of the errors of two predictions of one model on two chips.

Under it the ratios of 293 pairs of chips in MLPerf inference, offline, are likeliest (0.61 by ResNet-50 alone, 0.21 by
BERT alone; 0.72 on dies of one design, 0.33 on others). ``accelsim validate ranking`` fits it again.
"""


class Belief(NamedTuple):
    """A figure > 0 with its 90 % interval, in any unit; without spread where all three are equal.

    ``alone``: standard deviation of the logarithm that comes of what no other belief shares, part of the interval.
    """

    value: float
    low: float
    high: float
    alone: float = 0.0

    @property
    def middle(self) -> float:
        """Logarithm of the median."""
        return (log(self.low) + log(self.high)) / 2

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return log(self.high / self.low) / (2 * ENDS)

    @property
    def common(self) -> float:
        """Standard deviation of the logarithm but for what it has alone."""
        return sqrt(max(0.0, self.sigma**2 - self.alone**2))


def odds_below(a: Belief, b: Belief, shared: float = SHARED) -> float:
    """Return the probability that ``a`` is really below ``b``; ``shared``: correlation of their errors."""
    return _normal(*log_ratio(a, b, shared))


def log_ratio(a: Belief, b: Belief, shared: float = SHARED) -> tuple[float, float]:
    """Return mean and standard deviation of the logarithm of ``b`` over ``a``."""
    apart = a.common**2 + b.common**2 - 2 * shared * a.common * b.common
    return b.middle - a.middle, hypot(a.alone, b.alone, sqrt(max(0.0, apart)))


def odds_within(a: Belief, limit: float) -> float:
    """Return the probability that ``a`` is really at most ``limit``; 1 without spread at the limit itself."""
    if a.low == a.high:
        return float(a.value <= limit)
    return _normal(log(limit) - a.middle, a.sigma)


def times(belief: Belief, factor: float) -> Belief:
    """Return a belief in ``factor`` times the figure: seconds times USD per second, say."""
    return belief._replace(value=belief.value * factor, low=belief.low * factor, high=belief.high * factor)


def with_own(belief: Belief, factor: Belief) -> Belief:
    """Return a belief in the product of two independent figures; nothing shares the spread of ``factor``."""
    middle = belief.middle + factor.middle
    half = ENDS * hypot(belief.sigma, factor.sigma)
    value, alone = belief.value * factor.value, hypot(belief.alone, factor.sigma)
    return Belief(value, exp(middle - half), exp(middle + half), alone) if half else Belief(value, value, value)


def _normal(distance: float, sigma: float) -> float:
    """Return the probability that a normal number of mean 0 is at most ``distance``; without spread 0, 0.5 or 1."""
    if not sigma:
        return (1 + (distance > 0) - (distance < 0)) / 2
    return (1 + erf(distance / (sigma * sqrt(2)))) / 2
