"""Links that transfers share fairly, in closed form between one change and the next.

Switches and root ports serve the packets of the transfers in turns. Over many packets this is max-min fairness
(Bertsekas, Gallager, "Data Networks", 1992, section 6.5.2): nobody can get more unless somebody who has no more gets
less. Rates are whole bytes per second and amounts whole numbers, so that nothing is lost or sent twice; there is one
event per transfer that begins or ends, whatever its size.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import simpy

from accelsim.errors import Problem, UsageError, nearest
from accelsim.time import FS_PER_S


class Piece(NamedTuple):
    """A stretch of a transfer at one rate: from ``start`` to ``end`` (fs), ``moved`` in B x fs/s (B x
    10^15)."""

    transfer: int
    start: int
    end: int
    moved: int


class Served(NamedTuple):
    """A transfer: its number, when it began and when its last byte was through, fs."""

    transfer: int
    start: int
    end: int


@dataclass
class _Flow:
    number: int
    path: tuple[str, ...]
    left: int  # B x 10^15
    start: int
    done: simpy.Event
    rate_Bps: int = 0


def max_min_fair(capacities: Mapping[str, int], paths: Sequence[Sequence[str]]) -> list[int]:
    """Return the rate of each path in whole B/s: fair, and in sum within the capacity of everything that they cross.

    ``capacities``: B/s by name. Rates are rounded down, so that less than one B/s per path is left unused. Raises
    KeyError for a name without a capacity.
    """
    rates, left = [0] * len(paths), dict(capacities)
    waiting = {index: frozenset(path) for index, path in enumerate(paths)}
    while waiting:
        crossing = {name: sum(name in path for path in waiting.values()) for name in left}
        share, bottleneck = min(
            (left[name] // count, name) for name, count in crossing.items() if count
        )  # ties: by name
        for index in [index for index, path in waiting.items() if bottleneck in path]:
            rates[index] = share
            for name in waiting.pop(index):
                left[name] -= share
    return rates


class Fabric:
    """Channels of given capacity that transfers share. ``pieces`` records what moved when, if asked to."""

    def __init__(self, env: simpy.Environment, capacities_Bps: Mapping[str, float], record: bool = False) -> None:
        self.env, self.capacities = env, {name: int(rate) for name, rate in capacities_Bps.items()}
        self.pieces: list[Piece] | None = [] if record else None
        self._flows: list[_Flow] = []
        self._count = self._wakes = self._last_fs = 0

    def transfer(self, path: Sequence[str], wire_B: int) -> simpy.Event:
        """Move so many bytes through all channels of ``path`` at once, from now on; the event's value is ``Served``.

        Raises UsageError for an unknown channel, an empty path, or less than a byte.
        """
        unknown = [name for name in path if name not in self.capacities]
        if unknown or not path or wire_B < 1:
            problems = [Problem(f"no channel {name!r}", "", "", nearest(name, self.capacities)) for name in unknown]
            raise UsageError(
                problems or Problem(f"{wire_B} B over {len(path)} channels", expected="at least 1 of each")
            )
        now, done = int(self.env.now), self.env.event()
        self._advance(now)
        self._flows.append(_Flow(self._count, tuple(path), wire_B * FS_PER_S, now, done))
        self._count += 1
        self._share()
        return done

    def _advance(self, now: int) -> None:
        """Move what the rates since the last change have moved; what is through leaves."""
        for flow in self._flows:
            moved = min(flow.left, flow.rate_Bps * (now - self._last_fs))
            flow.left -= moved
            if moved and self.pieces is not None:
                self.pieces.append(Piece(flow.number, self._last_fs, now, moved))
        self._last_fs = now
        for flow in [flow for flow in self._flows if not flow.left]:
            self._flows.remove(flow)
            flow.done.succeed(Served(flow.number, flow.start, now))

    def _share(self) -> None:
        """New rates, and a wake-up when the first transfer will be through."""
        for flow, rate in zip(
            self._flows, max_min_fair(self.capacities, [flow.path for flow in self._flows]), strict=True
        ):
            flow.rate_Bps = rate
        self._wakes += 1
        if self._flows:
            wait = min(-(-flow.left // flow.rate_Bps) for flow in self._flows if flow.rate_Bps)
            self.env.process(self._wake(wait, self._wakes))

    def _wake(self, wait_fs: int, number: int) -> Generator[simpy.Event, None, None]:
        yield self.env.timeout(wait_fs)
        if number == self._wakes:  # else the rates have changed since
            self._advance(int(self.env.now))
            self._share()
