"""A service: requests that come, a router that hands them out, replicas that compute them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from collections.abc import Sequence as Many
from dataclasses import dataclass

import simpy

from accelsim.serving.replica import Cost, Replica, Steps
from accelsim.serving.requests import Request, Sequence
from accelsim.serving.schedulers.base import Scheduler

Router = Callable[[Many[Replica], Sequence], Replica]
"""Choice of the replica that gets a request."""


@dataclass(frozen=True)
class Service:
    """Requests in the order in which they came, as they were served, and the steps of each replica."""

    sequences: tuple[Sequence, ...]
    steps: tuple[Steps, ...]


def simulate(
    requests: Many[Request],
    schedulers: Many[Scheduler],
    cost: Cost,
    router: Router,
    clients: int = 0,
    think_s: float = 0.0,
) -> Service:
    """Simulate a service until all requests have all their tokens.

    ``clients``: a closed loop: so many users, each of whom sends the next request ``think_s`` behind the last token of
    the one before, whatever their arrivals say; 0: an open loop, requests come at their arrivals.
    """
    env, sequences = simpy.Environment(), list[Sequence]()
    left = iter(requests)

    def send(request: Request) -> None:
        sequence = Sequence(len(sequences), request)
        sequences.append(sequence)
        router(replicas, sequence).take(sequence)

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

    replicas = [Replica(env, each, cost, ended) for each in schedulers]
    if clients:
        for _ in range(clients):
            env.process(client())
    else:
        env.process(arrivals())
    env.run()
    return Service(tuple(sequences), tuple(replica.steps for replica in replicas))


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
