"""Simulated time: integer femtoseconds, derived from exact rational clock periods and never from rounded sums."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

    def cut_off(self, times_fs: NDArray[np.int64], den: int) -> NDArray[np.int64]:
        """Return what the times of edges lack to the exact ones, in parts ``1 / den`` of a femtosecond, of which a
        period is a whole number; -1 for a time that is none of an edge."""
        import numpy as np

        wide = int(times_fs.max(initial=0)) * self._den >= 1 << 62
        times = times_fs.astype(object) if wide else times_fs
        exact = -(-times * self._den // self._num) * self._num
        cut: NDArray[np.int64] = (exact % self._den * (den // self._den)).astype(np.int64)
        return np.where(exact // self._den == times, cut, -1)

    def at(self, cycle: int) -> int:
        """Time of an edge, fs."""
        return cycle * self._num // self._den

    def at_all(self, cycles: NDArray[np.int64]) -> NDArray[np.int64]:
        """Times of many edges, fs."""
        import numpy as np

        if self._num * self._den >= 1 << 62:
            return np.array([self.at(int(cycle)) for cycle in cycles.flat], np.int64).reshape(cycles.shape)
        whole, rest = np.divmod(cycles, self._den)  # so that no product is larger than the time itself
        times: NDArray[np.int64] = whole * self._num + rest * self._num // self._den
        return times

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
