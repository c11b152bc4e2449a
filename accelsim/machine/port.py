"""The port of an off-chip memory (or of the link before it): one queue, whose requests a memory model serves.

At most one request is accepted per clock edge. Requests that meet at one edge are arbitrated after all events of that
instant: by the port's rule (loads or stores first), then by core and engine name. The losers try again at the next
edge. Accepted requests are served strictly in order; how long that takes is up to the model (``memory_models``).
"""

from __future__ import annotations

from typing import Protocol

import simpy

from accelsim.engines.device import Asked, Served, late
from accelsim.time import Clock


class MemoryModel(Protocol):
    """What serves the requests of a port, in order of acceptance; it keeps whatever state that takes."""

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Times of a request that is accepted at ``at_fs``; that never falls from one request to the next."""


class Port:
    """A shared port; ``request`` returns an event whose value is ``Served``."""

    def __init__(self, env: simpy.Environment, clock: Clock, model: MemoryModel) -> None:
        self._env, self._clock, self._model = env, clock, model
        self._pending: list[tuple[tuple[int, str], Asked, simpy.Event]] = []
        self._arbitrating = False
        self._accepting_fs = 0  # earliest time of the next acceptance

    def request(self, rank: tuple[int, str], asked: Asked) -> simpy.Event:
        """Ask now (at an edge) for a transfer; the event fires at acceptance. Lower rank goes first."""
        accepted = self._env.event()
        self._pending.append((rank, asked, accepted))
        if not self._arbitrating:
            self._arbitrate()
        return accepted

    def _arbitrate(self) -> None:
        self._arbitrating = True
        late(self._env, max(self._accepting_fs, int(self._env.now)), self._decide)

    def _decide(self) -> None:
        self._arbitrating = False
        if len(self._pending) > 1:
            self._pending.sort(key=lambda entry: entry[0])
        _, asked, accepted = self._pending.pop(0)
        now = int(self._env.now)
        accepted.succeed(self._model.serve(asked, now))
        self._accepting_fs = self._clock.at(self._clock.edge(now) + 1)
        if self._pending:
            self._arbitrate()
