"""A replica: computes the steps that its scheduler plans, one after the other, and keeps what they were."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import simpy

from accelsim.serving.requests import Sequence
from accelsim.serving.schedulers.base import Batch, Scheduler

Cost = Callable[[Batch], tuple[float, ...]]
"""Time (s) and energy (J) of a step, and perhaps the share of both that prompts add."""


def _floats() -> array[float]:
    return array("d")


def _counts() -> array[int]:
    return array("l")


@dataclass
class Steps:
    """Steps of a replica, in order: when each ends (s), what it takes (s, J), sequences that decode, and, before those
    that end leave, the requests that run and wait and the blocks that are held. ``gaps_s``: times between two tokens,
    each of ``gaps`` sequences. ``prompts``: the share of a step that prompts add. ``entered``: numbers of sequences
    that compute more than a next token in step ``entered_at``; ``lost``: of those that lost their blocks before step
    ``lost_at``."""

    end_s: array[float] = field(default_factory=_floats)
    seconds: array[float] = field(default_factory=_floats)
    joules: array[float] = field(default_factory=_floats)
    decoding: array[int] = field(default_factory=_counts)
    running: array[int] = field(default_factory=_counts)
    waiting: array[int] = field(default_factory=_counts)
    held: array[int] = field(default_factory=_counts)
    gaps_s: array[float] = field(default_factory=_floats)
    gaps: array[int] = field(default_factory=_counts)
    prompts: array[float] = field(default_factory=_floats)
    entered: array[int] = field(default_factory=_counts)
    entered_at: array[int] = field(default_factory=_counts)
    lost: array[int] = field(default_factory=_counts)
    lost_at: array[int] = field(default_factory=_counts)

    def add(self, end_s: float, cost: tuple[float, ...], batch: Batch, scheduler: Scheduler) -> None:
        """Keep a step that has been computed, before the scheduler completes it."""
        self._keep_chunks(batch)
        self.prompts.append(cost[2] if len(cost) > 2 else float(not batch.decoding))
        self.end_s.append(end_s)
        self.seconds.append(cost[0])
        self.joules.append(cost[1])
        self.decoding.append(batch.decoding)
        self.running.append(len(scheduler.running))
        self.waiting.append(len(scheduler.waiting))
        self.held.append(scheduler.pool.size - scheduler.pool.free)
        self._keep_gaps(end_s, batch, scheduler)

    def _keep_chunks(self, batch: Batch) -> None:
        """Keep which sequences compute prompts (or what they lost), and which lost their blocks."""
        step = len(self.end_s)
        for sequence, tokens in batch.chunks:
            if sequence.first_s < 0 or tokens > batch.width:
                self.entered.append(sequence.number)
                self.entered_at.append(step)
        for sequence in batch.preempted:
            self.lost.append(sequence.number)
            self.lost_at.append(step)

    def _keep_gaps(self, end_s: float, batch: Batch, scheduler: Scheduler) -> None:
        """Keep the times since the last tokens of all that get one, but their first."""
        dates = [*scheduler.decoding.dates.items()] if batch.decoding else []
        for sequence, tokens in batch.chunks:
            if sequence.first_s >= 0 and sequence.computed + tokens == sequence.total:
                dates.append((sequence.last_s, 1))
        if batch.decoding and scheduler.decoding.more:
            dates.append((end_s, scheduler.decoding.more))
        for last_s, count in dates:
            self.gaps_s.append(end_s - last_s)
            self.gaps.append(count)


class Replica:
    """One process of a simulation; ``ended`` is told of each request that has all its tokens."""

    def __init__(
        self, env: simpy.Environment, scheduler: Scheduler, cost: Cost, ended: Callable[[Sequence], None]
    ) -> None:
        self._env, self._cost, self._ended = env, cost, ended
        self.scheduler, self.steps = scheduler, Steps()
        self._idle: simpy.Event | None = None
        env.process(self._run())

    def take(self, sequence: Sequence) -> None:
        """Give a request to the replica."""
        self.scheduler.add(sequence)
        if self._idle is not None:
            self._idle.succeed()
            self._idle = None

    def _run(self) -> Generator[simpy.Event, None, None]:
        env, scheduler = self._env, self.scheduler
        while True:
            batch = scheduler.plan()
            if batch is None:
                self._idle = env.event()
                yield self._idle
                continue
            cost = self._cost(batch)
            yield env.timeout(cost[0])
            self.steps.add(env.now, cost, batch, scheduler)
            for sequence in scheduler.complete(batch, env.now):
                self._ended(sequence)
