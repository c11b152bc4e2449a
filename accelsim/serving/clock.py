"""A clock: calls in the order of their times."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush

from simpy import Environment, Event
from simpy.events import NORMAL, URGENT

Call = Callable[[], object]


class Clock(Environment):
    """SimPy's environment (s) with calls at points in time, instead of after delays: a sum of these would round, and a
    replica knows when the last of many steps ends.

    Of equal times those that are urgent go first, then those that were asked for first.
    """

    @property
    def next_s(self) -> float:
        """Time of the next call; infinity without one."""
        return float(self.peek())

    def at(self, time_s: float, call: Call, urgent: bool = False) -> None:
        """Call something at a time."""
        heappush(self._queue, (time_s, URGENT if urgent else NORMAL, next(self._eid), _Called(self, call)))

    def soon(self, call: Call) -> None:
        """Call something at the present time, before all else."""
        self.at(self.now, call, urgent=True)


class _Called(Event):
    """An event that calls something."""

    def __init__(self, env: Environment, call: Call) -> None:
        self.env, self._ok, self._value, self._call = env, True, None, call
        self.callbacks = [self._go]

    def _go(self, _: Event) -> None:
        self._call()
