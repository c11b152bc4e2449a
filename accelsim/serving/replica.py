"""A replica: computes the steps that its scheduler plans, one after the other, and keeps what they were."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import simpy

from accelsim.serving.requests import Sequence
from accelsim.serving.schedulers.base import Batch, Scheduler

Seconds = Callable[[Batch], float]
"""Time of a step, s."""


def _floats() -> array[float]:
    return array("d")


def _counts() -> array[int]:
    return array("l")


@dataclass
class Steps:
    """Steps of a replica, in order: when each ends (s), what it takes (s), tokens of prompts, sequences that decode,
    and behind it the requests that run and wait and the blocks that are held."""

    end_s: array[float] = field(default_factory=_floats)
    seconds: array[float] = field(default_factory=_floats)
    prompt: array[int] = field(default_factory=_counts)
    decoding: array[int] = field(default_factory=_counts)
    running: array[int] = field(default_factory=_counts)
    waiting: array[int] = field(default_factory=_counts)
    held: array[int] = field(default_factory=_counts)

    def add(self, end_s: float, seconds: float, batch: Batch, scheduler: Scheduler) -> None:
        """Keep a step that has ended."""
        self.end_s.append(end_s)
        self.seconds.append(seconds)
        self.prompt.append(batch.tokens - batch.decoding)
        self.decoding.append(batch.decoding)
        self.running.append(len(scheduler.running))
        self.waiting.append(len(scheduler.waiting))
        self.held.append(scheduler.pool.size - scheduler.pool.free)


class Replica:
    """One process of a simulation; ``ended`` is told of each request that has all its tokens."""

    def __init__(
        self, env: simpy.Environment, scheduler: Scheduler, seconds: Seconds, ended: Callable[[Sequence], None]
    ) -> None:
        self._env, self._seconds, self._ended = env, seconds, ended
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
            for sequence, _ in batch.chunks:
                if sequence.begun_s < 0:
                    sequence.begun_s = env.now
            seconds = self._seconds(batch)
            yield env.timeout(seconds)
            ended = scheduler.complete(batch, env.now)
            self.steps.add(env.now, seconds, batch, scheduler)
            for sequence in ended:
                self._ended(sequence)
