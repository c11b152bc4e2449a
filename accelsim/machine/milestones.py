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

    def available(self, waits: Iterable[Wait], why: str = "") -> Waiting:
        """Wait until all release times are known (with ``why``: only of those that wait for this).

        Returns the time (fs) from which on all can be acquired (0 when there is nothing to wait for) and the one that
        was released last.
        """
        latest, last = 0, None
        for wait in waits:
            if why and wait.why != why:
                continue
            known = self._times[wait.phase]
            if wait.command not in known:
                key = (wait.command, wait.phase)
                waiter = self._waiters.get(key)
                if waiter is None:
                    waiter = self._waiters[key] = self._env.event()
                yield waiter
            released = known[wait.command] + self._delay_fs
            if released > latest:
                latest, last = released, wait
        return latest, last
