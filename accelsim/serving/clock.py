"""A clock: calls in the order of their times."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf

Call = Callable[[], object]


class Clock:
    """Simulated time, s. Of equal times those that are urgent go first, then those that were asked for first."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, bool, int, Call]] = []
        self._numbers = count()

    @property
    def next_s(self) -> float:
        """Time of the next call; infinity without one."""
        return self._calls[0][0] if self._calls else inf

    def at(self, time_s: float, call: Call, urgent: bool = False) -> None:
        """Call something at a time."""
        heappush(self._calls, (time_s, not urgent, next(self._numbers), call))

    def soon(self, call: Call) -> None:
        """Call something at the present time, before all else."""
        self.at(self.now, call, urgent=True)

    def run(self) -> None:
        """Call everything, until nothing is left."""
        while self._calls:
            self.now, _, _, call = heappop(self._calls)
            call()
