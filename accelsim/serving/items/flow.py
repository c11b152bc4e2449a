"""Items on their way through a service: work on the host, a batch on a chip, work on the host."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from math import inf
from typing import NamedTuple

import simpy

from accelsim.serving.items.batcher import Batch, Batcher, Cost, Dynamic
from accelsim.serving.items.cores import Cores, Stage
from accelsim.serving.items.line import RANKS, Arrival, Item, Line

Work = Callable[[int], float]
"""Seconds that a core needs for the item of a number."""


def nothing(number: int) -> float:
    """No work."""
    return 0.0


class Host(NamedTuple):
    """Work of the host for an item, before and after the chip, on alike ``cores``; ``queue``: items that wait for them
    at most; ``timeout_s``: age from which on no work begins for an item."""

    before: Work = nothing
    after: Work = nothing
    cores: int = 1
    queue: float = inf
    timeout_s: float = inf


@dataclass(frozen=True)
class Flow:
    """A service as it was simulated: items in order of arrival, batches in order of start, busy seconds of cores.
    ``sizes``: items of each request, in that order; empty where each has one."""

    items: tuple[Item, ...]
    batches: tuple[Batch, ...]
    core_s: float
    sizes: tuple[int, ...] = ()

    @property
    def span_s(self) -> float:
        """Time until the last item left, s."""
        return max(each.end_s for each in self.items)

    @property
    def answered(self) -> list[Item]:
        """Requests with an answer, each as the item that left last."""
        return [each for each in self.requests if not each.lost]

    @cached_property
    def requests(self) -> tuple[Item, ...]:
        """Each request as that of its items that left last; if some got no answer, as the first of these."""
        if not self.sizes:
            return self.items
        left = iter(self.items)
        groups = ([*islice(left, size)] for size in self.sizes)
        return tuple(next((e for e in group if e.lost), max(group, key=lambda e: e.end_s)) for group in groups)


def simulate(
    arrivals: Iterable[Arrival],
    rules: Dynamic,
    cost: Callable[[int], Cost],
    host: Host = Host(),  # noqa: B008 - a tuple
    chips: int = 1,
    clients: int = 0,
    think_s: float = 0.0,
    ranks: int = RANKS,
) -> Flow:
    """Simulate a service until all items have left it. ``cost``: that of a batch of a size; ``ranks``: classes.

    ``clients``: a closed loop: so many users, each of whom sends the next item ``think_s`` after the one before has
    left, whatever arrivals say; 0: an open loop.
    """
    env, items, sizes, left = simpy.Environment(), list[Item](), list[int](), iter(arrivals)

    def leave(item: Item, why: str = "") -> None:
        item.end_s, item.lost = env.now, why
        if clients:
            env.process(client())

    def send(arrival: Arrival) -> None:
        sizes.append(arrival.items)
        if arrival.items == 1:
            add(arrival)
            return
        with batcher.together():
            for _ in range(arrival.items):
                add(arrival)

    def add(arrival: Arrival) -> None:
        items.append(Item(len(items), arrival))
        cores.take(items[-1], before)

    def client() -> Generator[simpy.Event, None, None]:
        yield env.timeout(think_s)
        if arrival := next(left, None):
            send(arrival._replace(arrival_s=env.now))

    def openly() -> Generator[simpy.Event, None, None]:
        for arrival in left:
            yield env.timeout(max(0.0, arrival.arrival_s - env.now))
            send(arrival)

    cores = Cores(env, host.cores, Line(env, leave, host.queue, host.timeout_s, ranks))
    done = Stage(host.after, "after_s", leave)
    batcher = Batcher(
        env, rules, cost, chips, Line(env, leave, rules.queue, host.timeout_s, ranks),
        lambda item: cores.take(item, done),
    )  # fmt: skip
    before = Stage(host.before, "before_s", lambda item: (batcher.take if item.arrival.kept else leave)(item))
    for process in [client] * clients or [openly]:
        env.process(process())
    env.run()
    many = tuple(sizes) if len(items) > len(sizes) else ()
    return Flow(tuple(items), tuple(batcher.batches), cores.busy_s, many)
