"""Times at which each command has passed each phase. Engines publish; engines that depend on it wait.

A time is published as soon as it is certain, which may be before it has come: a tile that has started to stream ends
at a known edge. Whoever waits continues when the time is known, and starts at the first edge at which it has passed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import get_args

import simpy

from accelsim.program.commands import Phase, Wait

Waiting = Generator[simpy.Event, object, tuple[int, Wait | None]]


class Milestones:
    """Release times in fs by phase and command; ``delay_fs`` passes before a release may be acquired."""

    def __init__(self, env: simpy.Environment, delay_fs: int) -> None:
        self._env = env
        self._delay_fs = delay_fs
        self._times: dict[Phase, dict[int, int]] = {phase: {} for phase in get_args(Phase)}
        self._waiters: dict[tuple[int, Phase], simpy.Event] = {}

    def publish(self, command: int, phase: Phase, t_fs: int) -> None:
        """Command passes the phase at ``t_fs`` (now or later)."""
        self._times[phase][command] = t_fs
        if self._waiters and (waiter := self._waiters.pop((command, phase), None)) is not None:
            waiter.succeed()

    def known(self, command: int, phase: Phase) -> int | None:
        """The time, if it is known yet."""
        return self._times[phase].get(command)

    def released(self, waits: Iterable[Wait], why: str = "") -> tuple[int, Wait | None] | None:
        """Time (fs) from which on all can be acquired (0 when there is nothing to wait for), and the one that was
        released last; with ``why`` only of those that wait for this. None while a time is not known."""
        latest, last, times, delay_fs = 0, None, self._times, self._delay_fs
        for wait in waits:
            command, phase, reason = wait
            if why and reason != why:
                continue
            known = times[phase].get(command)
            if known is None:
                return None
            if known + delay_fs > latest:
                latest, last = known + delay_fs, wait
        return latest, last

    def available(self, waits: Iterable[Wait], why: str = "") -> Waiting:
        """Wait until all release times are known; see ``released``."""
        for command, phase, reason in waits:
            if (not why or reason == why) and command not in self._times[phase]:
                yield self._waiters.setdefault((command, phase), simpy.Event(self._env))
        found = self.released(waits, why)
        assert found is not None
        return found
