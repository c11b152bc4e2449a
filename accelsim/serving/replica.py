"""A replica: computes the steps that its scheduler plans, one after the other, and keeps what they were."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from collections.abc import Sequence as Sequence_
from functools import partial
from itertools import accumulate
from typing import TypeAlias

from accelsim.serving.clock import Clock
from accelsim.serving.requests import Sequence
from accelsim.serving.schedulers.base import Batch, Scheduler
from accelsim.serving.steps import Steps

Cost = Callable[[Batch], tuple[float, ...]]
"""Time (s) and energy (J) of a step, and perhaps the share of both that prompts add."""


Row: TypeAlias = "array[float]"
"""Times (s) or energies (J) of steps, one after the other."""
TINY_S = 1e-12
"""A time in place of none, s."""


class Line:
    """Stages of a pipeline, which several schedulers of a replica use one after the other, each with requests of its
    own. ``stages_s``: work -> time of each stage, s."""

    def __init__(self, stages_s: Callable[[Batch], Sequence_[float]]) -> None:
        self._stages_s = stages_s
        self._free_s = dict[int, float]()

    def end_s(self, begin_s: float, batch: Batch, alone_s: float) -> float:
        """Return when work that begins ends, s. ``alone_s``: its time in an empty pipeline, in which the host comes
        before the first stage."""
        times = [*self._stages_s(batch)]
        times[0] += alone_s - sum(times)
        for stage, seconds in enumerate(times):
            begin_s = self._free_s[stage] = max(begin_s, self._free_s.get(stage, 0.0)) + seconds
        return begin_s


class Replica:
    """Computes steps on a clock; ``ended`` is told of each request that has all its tokens. Nobody gives it a request
    before ``until()``, s, so that it need not look at the clock in steps that end before. ``line``: the stages that it
    shares with others."""

    def __init__(
        self, clock: Clock, scheduler: Scheduler, cost: Cost, ended: Callable[[Sequence], None],
        until: Callable[[], float], line: Line | None = None,
    ) -> None:  # fmt: skip
        self._line = line
        self._clock, self._cost, self._ended, self._until = clock, cost, ended, until
        self.scheduler, self.steps = scheduler, Steps()
        self._idle = False
        self._costs: Callable[[Batch, int], tuple[Row, Row]] = getattr(cost, "alike", self._one)
        clock.soon(self._begin)

    def take(self, sequence: Sequence) -> None:
        """Give a request to the replica."""
        self.scheduler.add(sequence)
        if self._idle:
            self._idle = False
            self._clock.at(self._clock.now, self._begin)

    def _begin(self) -> None:
        batch = self.scheduler.begin()
        self._idle = batch is None
        if batch is not None and self._line is not None:
            now_s, (alone_s, *others) = self._clock.now, self._cost(batch)
            end_s = self._line.end_s(now_s, batch, alone_s)
            self._clock.at(end_s, partial(self._end, end_s, batch, (end_s - now_s, *others)))
        elif batch is not None:
            batch, begin_s = self._alike(batch) if not batch.chunks else (batch, self._clock.now)
            cost = self._cost(batch)
            end_s = begin_s + cost[0]
            self._clock.at(end_s, partial(self._end, end_s, batch, cost))

    def _alike(self, batch: Batch) -> tuple[Batch, float]:
        """Compute steps that only add a token to all that decode, as long as it is certain that they follow each other.
        Return the one behind them and its begin, s."""
        most, end_s = self.scheduler.alike(batch), self._clock.now
        if not most:
            return batch, end_s
        until_s, decoding, ends_s, every = self._until(), batch.decoding, list[float](), (array("d"), array("d"))
        while most > 0:
            costs = self._costs(batch, most)
            near = int(min(most, 2 + (until_s - end_s) / (costs[0][0] or TINY_S)))
            times_s = [*accumulate(costs[0][:near], initial=end_s)]
            count = bisect_left(times_s, until_s, 1) - 1
            most = most - count if 0 < count == len(times_s) - 1 else 0
            ends_s += times_s[1 : count + 1]
            for column, more in zip(every, costs, strict=True):
                column += more[:count]
            end_s = times_s[count]
            batch = batch._replace(context=batch.context + count * decoding)
        if ends_s:
            self.steps.add_alike(ends_s, every, batch, self.scheduler)
            self.scheduler.skip(len(ends_s), end_s)
        return batch, end_s

    def _one(self, batch: Batch, _: int) -> tuple[Row, Row]:
        """Return time and energy of one step alone, for costs without neighbours."""
        seconds, joules, *_more = self._cost(batch)
        return array("d", [seconds]), array("d", [joules])

    def _end(self, end_s: float, batch: Batch, cost: tuple[float, ...]) -> None:
        self.steps.add(end_s, cost, batch, self.scheduler)
        for sequence in self.scheduler.complete(batch, end_s):
            self._ended(sequence)
        self._begin()
