"""A service: requests that come, a router that hands them out, replicas that compute them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from collections.abc import Sequence as Many
from dataclasses import dataclass
from typing import NamedTuple

import simpy

from accelsim.serving.replica import Cost, Replica, Steps
from accelsim.serving.requests import Request, Sequence
from accelsim.serving.schedulers.base import Scheduler

Router = Callable[[Many[Replica], Sequence], Replica]
"""Choice of the replica that gets a request."""


@dataclass(frozen=True)
class Service:
    """Requests in the order in which they came, as they were served, and the steps of each replica; those for prompts
    come first. ``moved_s``, ``moved_J``: time and energy in which keys and values went from these to the others."""

    sequences: tuple[Sequence, ...]
    steps: tuple[Steps, ...]
    moved_s: float = 0.0
    moved_J: float = 0.0

    @property
    def span_s(self) -> float:
        """End of the last step, s."""
        return max(steps.end_s[-1] for steps in self.steps if steps.end_s)

    @property
    def busy(self) -> float:
        """Share of the time that a replica computes, on average."""
        return sum(sum(steps.seconds) for steps in self.steps) / self.span_s / len(self.steps)


class Second(NamedTuple):
    """Replicas that go on with requests whose prompts others have computed. ``move``: see ``split.Move``; what leaves
    one replica goes one after the other."""

    schedulers: Many[Scheduler]
    cost: Cost
    router: Router
    move: Callable[[int, int, int], tuple[float, float]]


class _Pools:
    """Replicas of a service, those of ``second`` behind the others, and the way between them; ``ended`` is told of each
    request that has all its tokens."""

    def __init__(
        self,
        env: simpy.Environment,
        first: tuple[Many[Scheduler], Cost, Router],
        second: Second | None,
        ended: Callable[[Sequence], None],
    ) -> None:
        schedulers, cost, self._router = first
        self._env, self._second, self._ended = env, second, ended
        self._first = [Replica(env, each, cost, self._computed) for each in schedulers]
        self._later = [Replica(env, each, second.cost, ended) for each in second.schedulers] if second else []
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
            self._env.process(self._go_on(self._second, sequence))
        else:
            self._ended(sequence)

    def _go_on(self, second: Second, sequence: Sequence) -> Generator[simpy.Event, None, None]:
        source, target = self._places.pop(sequence), second.router(self._later, sequence)
        seconds, joules = second.move(source, self._later.index(target), sequence.computed)
        self.moved_s, self.moved_J = self.moved_s + seconds, self.moved_J + joules
        self._sent_s[source] = max(self._sent_s[source], self._env.now) + seconds
        yield self._env.timeout(self._sent_s[source] - self._env.now)
        target.take(sequence)


def simulate(
    requests: Many[Request],
    schedulers: Many[Scheduler],
    cost: Cost,
    router: Router,
    clients: int = 0,
    think_s: float = 0.0,
    second: Second | None = None,
    way_s: Callable[[Request], float] | None = None,
) -> Service:
    """Simulate a service until all requests have all their tokens.

    ``clients``: a closed loop: so many users, each of whom sends the next request ``think_s`` behind the last token of
    the one before, whatever their arrivals say; 0: an open loop, requests come at their arrivals. ``second``: replicas
    for all tokens but the first. ``way_s``: what lies between a user and the queue (None: nothing).
    """
    env, sequences, left = simpy.Environment(), list[Sequence](), iter(requests)

    def send(request: Request) -> None:
        sequence = Sequence(len(sequences), request)
        sequences.append(sequence)
        if way_s is None:
            pools.take(sequence)
        else:
            env.timeout(way_s(request)).callbacks.append(lambda _: pools.take(sequence))

    def client() -> Generator[simpy.Event, None, None]:
        if think_s:
            yield env.timeout(think_s)
        if request := next(left, None):
            send(request._replace(arrival_s=env.now))

    def ended(sequence: Sequence) -> None:
        if clients:
            env.process(client())

    def arrivals() -> Generator[simpy.Event, None, None]:
        for request in left:
            yield env.timeout(max(0.0, request.arrival_s - env.now))
            send(request)

    pools = _Pools(env, (schedulers, cost, router), second, ended)
    for process in [client] * clients or [arrivals]:
        env.process(process())
    env.run()
    return Service(tuple(sequences), pools.steps, pools.moved_s, pools.moved_J)


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
