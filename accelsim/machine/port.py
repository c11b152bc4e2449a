"""The port of an off-chip memory (or of the link before it): one queue, latency plus bandwidth.

At most one request is accepted per clock edge. Requests that meet at one edge are arbitrated after all events of that
instant: by the port's rule (loads or stores first), then by core and engine name. The losers try again at the next
edge. Accepted requests are served strictly in order and never interleaved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import simpy

from accelsim.machine.clock import Clock, transfer_fs

LATE = 2
"""SimPy priority below NORMAL: runs when every other event of the instant has run."""


def late(env: simpy.Environment, t_fs: int, decide: Callable[[], None]) -> None:
    """Call ``decide`` at ``t_fs``, after every ordinary event of that instant."""
    event = env.event()
    event._ok, event._value = True, None
    event.callbacks = [lambda _: decide()]
    env.schedule(event, priority=LATE, delay=t_fs - env.now)  # type: ignore[arg-type]


class Served(NamedTuple):
    """Times of one request, fs: acceptance, the edge before the first data beat, the last data beat."""

    accepted: int
    data: int
    end: int


@dataclass(frozen=True)
class Lane:
    """One direction of a port: how fast it moves data. ``energy`` lives in the ledger, not here."""

    bandwidth_Bps: float
    beat_B: int
    latency_fs: int
    pipelined: bool


class Port:
    """A shared port. ``lane`` gives its speed; ``request`` returns an event whose value is ``Served``."""

    def __init__(self, env: simpy.Environment, clock: Clock, lane: Lane) -> None:
        self._env, self._clock, self._lane = env, clock, lane
        self._pending: list[tuple[tuple[int, str], int, simpy.Event]] = []
        self._arbitrating = False
        self._accepting_fs = 0  # earliest time of the next acceptance
        self._free_fs = 0  # last data beat so far

    def request(self, rank: tuple[int, str], nbytes: int) -> simpy.Event:
        """Ask now (at an edge) for a transfer; the event fires at acceptance. Lower rank goes first."""
        accepted = self._env.event()
        self._pending.append((rank, nbytes, accepted))
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
        _, nbytes, accepted = self._pending.pop(0)
        accepted.succeed(self._serve(nbytes))
        self._accepting_fs = self._clock.at(self._clock.edge(int(self._env.now)) + 1)
        if self._pending:
            self._arbitrate()

    def _serve(self, nbytes: int) -> Served:
        lane, now = self._lane, int(self._env.now)
        if lane.pipelined:
            start = max(now + lane.latency_fs, self._free_fs)
        else:
            start = max(now, self._free_fs) + lane.latency_fs
        end = start + transfer_fs(nbytes, lane.beat_B, lane.bandwidth_Bps)
        self._free_fs = end
        return Served(now, start, end)
