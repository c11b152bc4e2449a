"""Simulated time: integer femtoseconds, derived from exact rational clock periods and never from rounded sums."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

FS_PER_S = 10**15
FS = 1e-15
"""Femtoseconds of a second; seconds of a femtosecond."""
NEVER = 1 << 62
"""Beyond every simulated time, fs (4,611 s): the sum of two times still fits into 64 bits."""


class Clock:
    """A clock domain. Edge ``n`` rises at ``at(n)``; edge 1 is the first at which anything can happen."""

    def __init__(self, frequency_Hz: float) -> None:
        period = FS_PER_S / Fraction(frequency_Hz)
        self._num, self._den = period.numerator, period.denominator
        self.frequency_Hz = frequency_Hz

    @property
    def exact(self) -> bool:
        """Return whether a period is a whole number of femtoseconds."""
        return self._den == 1

    @property
    def period(self) -> Fraction:
        """Exact, fs."""
        return Fraction(self._num, self._den)

    def at(self, cycle: int) -> int:
        """Time of an edge, fs."""
        return cycle * self._num // self._den

    def edge(self, t_fs: int) -> int:
        """Number of the first edge at or after a time."""
        return -(-t_fs * self._den // self._num)

    def nearest(self, duration_fs: int) -> Fraction:
        """The whole number of clocks that is nearest to a duration, in exact fs."""
        period = Fraction(self._num, self._den)
        return round(duration_fs / period) * period

    def cycles(self, duration_fs: int) -> float:
        """A duration in clocks (for reports only)."""
        return duration_fs * self._den / self._num


def transfer_fs(nbytes: int, beat_B: int, bytes_per_second: float) -> int:
    """Time that a port needs for so many bytes, in whole beats; parts of a femtosecond are dropped as in ``Clock.at``,
    so that a transfer of a whole number of clocks ends at the edge and not just behind it.
    """
    num, den = _beat_fs(beat_B, bytes_per_second)
    beats = -(-nbytes // beat_B)
    return beats * num // den


@lru_cache(maxsize=1024)
def _beat_fs(beat_B: int, bytes_per_second: float) -> tuple[int, int]:
    """Time of one beat as a fraction of femtoseconds."""
    rate = Fraction(bytes_per_second)
    return beat_B * FS_PER_S * rate.denominator, rate.numerator


@lru_cache(maxsize=64)
def clock_of(frequency_Hz: float) -> Clock:
    """The clock of a frequency; clocks are immutable, so those of one frequency are one."""
    return Clock(frequency_Hz)
