"""A clock: calls in the order of their times."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf

Call = Callable[[], object]


class Clock:
    """Calls at points in time (s), instead of after delays: a sum of these would round, and a replica knows when the
    last of many steps ends.

    Of equal times those that are urgent go first, then those that were asked for first.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._queue = list[tuple[float, bool, int, Call]]()
        self._asked = count()

    @property
    def next_s(self) -> float:
        """Time of the next call; infinity without one."""
        return self._queue[0][0] if self._queue else inf

    def at(self, time_s: float, call: Call, urgent: bool = False) -> None:
        """Call something at a time."""
        heappush(self._queue, (time_s, not urgent, next(self._asked), call))

    def soon(self, call: Call) -> None:
        """Call something at the present time, before all else."""
        self.at(self.now, call, urgent=True)

    def run(self) -> None:
        """Make all calls, and those that they ask for."""
        while self._queue:
            self.now, _, _, call = heappop(self._queue)
            call()
