"""A service: requests that come, a router that hands them out, replicas that compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Many
from dataclasses import dataclass
from functools import cached_property, partial
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from accelsim.serving.clock import Call, Clock
from accelsim.serving.replica import Cost, Line, Replica
from accelsim.serving.requests import Done, Request, Sequence
from accelsim.serving.schedulers.base import Scheduler
from accelsim.serving.steps import Steps

Router = Callable[[Many[Replica], Sequence], Replica]
"""Choice of the replica that gets a request."""


@dataclass(frozen=True)
class Service:
    """Requests in the order in which they came, as they were served, and the steps of each replica; those for prompts
    come first. ``moved_s``, ``moved_J``: time and energy in which keys and values went from these to the others."""

    done: Done
    steps: tuple[Steps, ...]
    moved_s: float = 0.0
    moved_J: float = 0.0

    @cached_property
    def sequences(self) -> tuple[Sequence, ...]:
        """Every request as an object, for pages; ``done`` has them as columns."""
        return tuple(self.done)

    @cached_property
    def span_s(self) -> float:
        """End of the last step, s."""
        return max(float(steps.column("end_s")[-1]) for steps in self.steps if len(steps))

    @property
    def busy(self) -> float:
        """Share of the time that a replica computes, on average."""
        return sum(sum(steps.column("seconds").tolist()) for steps in self.steps) / self.span_s / len(self.steps)


class Second(NamedTuple):
    """Replicas that go on with requests whose prompts others have computed. ``move``: see ``split.Move``; what leaves
    one replica goes one after the other."""

    schedulers: Many[Scheduler]
    cost: Cost
    router: Router
    move: Callable[[int, int, int], tuple[float, float]]


class _Pools:
    """Replicas of a service, those of ``second`` behind the others, and the way between them; ``ended`` is told of each
    request that has all its tokens. ``until``: see ``Replica``; ``lines``: of the first ones, in turn."""

    def __init__(
        self,
        clock: Clock,
        first: tuple[Many[Scheduler], Cost, Router],
        second: Second | None,
        ended: Callable[[Sequence], None],
        until: Callable[[], float],
        lines: Many[Line],
    ) -> None:
        schedulers, cost, self._router = first
        self._clock, self._second, self._ended = clock, second, ended
        each_line = [lines[at % len(lines)] if lines else None for at in range(len(schedulers))]
        own = zip(schedulers, each_line, strict=True)
        self._first = [Replica(clock, each, cost, self._computed, until, line) for each, line in own]
        others = [(each, second.cost) for each in second.schedulers] if second else []
        self._later = [Replica(clock, each, cost, ended, until) for each, cost in others]
        for each in schedulers if second else ():
            each.prompts_only = True
        self._places, self._sent_s = dict[Sequence, int](), [0.0] * len(schedulers)
        self.moved_s = self.moved_J = 0.0

    @property
    def steps(self) -> tuple[Steps, ...]:
        """Steps of each replica."""
        return tuple(replica.steps for replica in (*self._first, *self._later))

    def take(self, sequence: Sequence) -> None:
        """Give a request to a replica."""
        chosen = self._router(self._first, sequence)
        if self._second is not None:
            self._places[sequence] = self._first.index(chosen)
        chosen.take(sequence)

    def _computed(self, sequence: Sequence) -> None:
        if self._second is not None and sequence.left:
            self._clock.soon(partial(self._go_on, self._second, sequence))
        else:
            self._ended(sequence)

    def _go_on(self, second: Second, sequence: Sequence) -> None:
        source, target, now_s = self._places.pop(sequence), second.router(self._later, sequence), self._clock.now
        seconds, joules = second.move(source, self._later.index(target), sequence.computed)
        self.moved_s, self.moved_J = self.moved_s + seconds, self.moved_J + joules
        self._sent_s[source] = max(self._sent_s[source], now_s) + seconds
        self._clock.at(now_s + (self._sent_s[source] - now_s), partial(target.take, sequence))


class _Users:
    """Users who send requests: at their arrivals, or, of ``clients`` in a closed loop, one after the other. ``take`` is
    told of each request behind its way ``way_s``."""

    def __init__(
        self, clock: Clock, requests: Iterable[Request], clients: int, think_s: float,
        way_s: Callable[[Request], float] | None,
    ) -> None:  # fmt: skip
        self._clock, self._left, self._think_s, self._way_s = clock, iter(requests), think_s, way_s
        self._clients, self.done = clients, Done()
        self.take: Callable[[Sequence], None]
        self._coming = list[float]()

    def begin(self) -> None:
        """Send the first requests."""
        for _ in range(self._clients or 1):
            self._clock.soon(self._think if self._clients else self._await)

    def next_s(self) -> float:
        """Return when the next request comes at the earliest, in an open loop, s."""
        return self._coming[0] if self._coming else inf

    def ended(self, sequence: Sequence) -> None:
        """Keep what became of a request; its client goes on."""
        self.done.end(sequence)
        if self._clients:
            self._clock.soon(self._think)

    def _later(self, time_s: float, call: Call) -> None:
        """Call something that brings a request, or makes one come later on."""

        def come() -> None:
            heappop(self._coming)
            call()

        heappush(self._coming, time_s)
        self._clock.at(time_s, come)

    def _await(self) -> None:
        if request := next(self._left, None):
            now_s = self._clock.now
            self._later(now_s + max(0.0, request.arrival_s - now_s), partial(self._arrive, request))

    def _arrive(self, request: Request) -> None:
        self._send(request)
        self._await()

    def _think(self) -> None:
        if self._think_s:
            self._clock.at(self._clock.now + self._think_s, self._ask)
        else:
            self._ask()

    def _ask(self) -> None:
        if request := next(self._left, None):
            self._send(request._replace(arrival_s=self._clock.now))

    def _send(self, request: Request) -> None:
        sequence = self.done.send(request)
        if self._way_s is None:
            self.take(sequence)
        else:
            self._later(self._clock.now + self._way_s(request), partial(self.take, sequence))


def simulate(
    requests: Iterable[Request],
    schedulers: Many[Scheduler],
    cost: Cost,
    router: Router,
    clients: int = 0,
    think_s: float = 0.0,
    second: Second | None = None,
    way_s: Callable[[Request], float] | None = None,
    lines: Many[Line] = (),
) -> Service:
    """Simulate a service until all requests have all their tokens.

    ``clients``: a closed loop: so many users, each of whom sends the next request ``think_s`` behind the last token of
    the one before, whatever their arrivals say; 0: an open loop, requests come at their arrivals. ``second``: replicas
    for all tokens but the first. ``way_s``: what lies between a user and the queue (None: nothing). ``lines``: stages
    of each replica, whose schedulers take turns.
    """
    clock = Clock()
    users = _Users(clock, requests, clients, think_s, way_s)
    alone = not clients and second is None
    until = users.next_s if alone else lambda: clock.next_s
    pools = _Pools(clock, (schedulers, cost, router), second, users.ended, until, lines)
    users.take = pools.take
    users.begin()
    clock.run()
    return Service(users.done, pools.steps, pools.moved_s, pools.moved_J)


def round_robin() -> Router:
    """Return a router that gives each replica one request after the other."""
    turn = -1

    def route(replicas: Many[Replica], sequence: Sequence) -> Replica:
        nonlocal turn
        turn = (turn + 1) % len(replicas)
        return replicas[turn]

    return route


def least_loaded() -> Router:
    """Return a router that prefers the replica with the fewest requests."""
    return lambda replicas, sequence: min(replicas, key=lambda each: each.scheduler.load)


ROUTERS: dict[str, Callable[[], Router]] = {"round-robin": round_robin, "least-loaded": least_loaded}
"""Routers by name."""
