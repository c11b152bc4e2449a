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


class Second(NamedTuple):
    """Replicas that go on with requests whose prompts others have computed. ``move``: see ``split.Move``; what leaves
    one replica goes one after the other."""

    schedulers: Many[Scheduler]
    cost: Cost
    router: Router
    move: Callable[[int, int, int], tuple[float, float]]


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
    env, sequences = simpy.Environment(), list[Sequence]()
    left = iter(requests)

    def send(request: Request) -> None:
        sequence = Sequence(len(sequences), request)
        sequences.append(sequence)
        if way_s is None:
            hand(sequence)
        else:
            env.timeout(way_s(request)).callbacks.append(lambda _: hand(sequence))

    def hand(sequence: Sequence) -> None:
        chosen = router(replicas, sequence)
        if second is not None:
            places[sequence] = replicas.index(chosen)
        chosen.take(sequence)

    def client() -> Generator[simpy.Event, None, None]:
        if think_s:
            yield env.timeout(think_s)
        if request := next(left, None):
            send(request._replace(arrival_s=env.now))

    def ended(sequence: Sequence) -> None:
        if second is not None and sequence.left:
            env.process(go_on(second, sequence))
        elif clients:
            env.process(client())

    def go_on(second: Second, sequence: Sequence) -> Generator[simpy.Event, None, None]:
        source, target = places.pop(sequence), second.router(later, sequence)
        seconds, joules = second.move(source, later.index(target), sequence.computed)
        moved[0], moved[1] = moved[0] + seconds, moved[1] + joules
        sent_s[source] = max(sent_s[source], env.now) + seconds
        yield env.timeout(sent_s[source] - env.now)
        target.take(sequence)

    def arrivals() -> Generator[simpy.Event, None, None]:
        for request in left:
            yield env.timeout(max(0.0, request.arrival_s - env.now))
            send(request)

    replicas, later = [Replica(env, each, cost, ended) for each in schedulers], list[Replica]()
    places, sent_s, moved = dict[Sequence, int](), [0.0] * len(schedulers), [0.0, 0.0]
    if second is not None:
        later = [Replica(env, each, second.cost, ended) for each in second.schedulers]
        for each in schedulers:
            each.prompts_only = True
    if clients:
        for _ in range(clients):
            env.process(client())
    else:
        env.process(arrivals())
    env.run()
    return Service(tuple(sequences), tuple(replica.steps for replica in (*replicas, *later)), *moved)


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
