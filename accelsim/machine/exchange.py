"""Messages between devices on one clock: who waits for whom, and the links that they share on the way."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import simpy

from accelsim.engines.device import Delivery
from accelsim.errors import Problem, UsageError, nearest
from accelsim.program.work import Meet, Message
from accelsim.spec.link import Link
from accelsim.time import FS_PER_S
from accelsim.types import Array

if TYPE_CHECKING:
    from accelsim.network.shared import Fabric

Route = tuple[str, ...]


class Exchange:
    """The links of a system, the messages on them, the barriers, and the mail: message -> its values.

    ``routes``: (from, to) -> names of ``links`` in order; a leading '-' means against the direction in which others
    cross that link. The way back is the same way against all of them, unless it is given. A full-duplex link has a
    channel each way, a half-duplex one a single channel for both.
    """

    def __init__(
        self, env: simpy.Environment, links: Mapping[str, Link], routes: Mapping[tuple[str, str], Sequence[str]]
    ) -> None:
        self._env, self._links = env, dict(links)
        self._routes: dict[tuple[str, str], Route] = {
            (end, start): tuple(_turned(name) for name in reversed(route)) for (start, end), route in routes.items()
        } | {ends: tuple(route) for ends, route in routes.items()}
        self._check(routes)
        self._ready: dict[tuple[str, str, str], Delivery] = {}
        self._met: dict[str, tuple[set[str], simpy.Event]] = {}
        self.mail: dict[str, Array] = {}

    @cached_property
    def _fabric(self) -> Fabric:
        from accelsim.network.link import lane
        from accelsim.network.shared import Fabric

        capacities = {
            self._channel(way + name): lane(link, bool(way)).bandwidth_Bps
            for name, link in self._links.items()
            for way in ("", "-")
        }
        return Fabric(self._env, capacities)

    def _check(self, routes: Mapping[tuple[str, str], Sequence[str]]) -> None:
        known = ", ".join(self._links)
        problems = [
            Problem(f"no link {name!r}", f"route from {start} to {end}", known, nearest(name, self._links))
            for (start, end), route in routes.items()
            for name in (step.removeprefix("-") for step in route)
            if name not in self._links
        ]
        problems += [
            Problem("a route without links", f"from {start} to {end}", "one or more links")
            for (start, end), route in routes.items()
            if not route
        ]
        UsageError.raise_for(problems)

    def _channel(self, step: str) -> str:
        name = step.removeprefix("-")
        return self._links[name].channel(name, "back" if step.startswith("-") else "forth")

    def links_between(self, start: str, end: str) -> tuple[Link, ...]:
        """The links on the way. UsageError when there is no route."""
        if (start, end) not in self._routes:
            known = ", ".join(f"{a} to {b}" for a, b in sorted(self._routes)) or "none"
            raise UsageError(f"no route from {start} to {end}", "routes", f"one of: {known}")
        return tuple(self._links[step.removeprefix("-")] for step in self._routes[start, end])

    def ready(self, device: str, message: Message, send: bool) -> Delivery:
        """One side is ready; the second of the two begins the message."""
        start, end = (device, message.peer) if send else (message.peer, device)
        self.links_between(start, end)
        key = (start, end, message.tag)
        if key in self._ready:
            delivery = self._ready.pop(key)
            delivery.begun.succeed()
            self._env.process(self._move(start, end, message, delivery))
            return delivery
        self._ready[key] = Delivery(self._env.event(), self._env.event())
        return self._ready[key]

    def _move(self, start: str, end: str, message: Message, delivery: Delivery) -> Generator[simpy.Event, object, None]:
        from accelsim.network.link import lane

        ways = [lane(link, False) for link in self.links_between(start, end)]
        path = [self._channel(step) for step in self._routes[start, end]]
        yield self._fabric.transfer(path, max(1, max(way.wire_B(message.nbytes) for way in ways)))
        delivery.done.succeed(int(self._env.now) + int(sum(way.latency_s for way in ways) * FS_PER_S))

    def meet(self, device: str, barrier: Meet) -> simpy.Event:
        """A device has come to a barrier; all go on when the last of its parties has come."""
        came, event = self._met.setdefault(barrier.name, (set(), self._env.event()))
        came.add(device)
        if came >= set(barrier.parties):
            del self._met[barrier.name]
            event.succeed()
        return event


def _turned(step: str) -> str:
    return step.removeprefix("-") if step.startswith("-") else f"-{step}"
