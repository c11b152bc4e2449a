"""Networks of a cluster: wires between devices, NICs and switches; who sends over which wires, how long one takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

from accelsim.cluster.network.routing import Routes
from accelsim.errors import Problem, UsageError
from accelsim.time import FS_PER_S

HASHED = 64
"""Wires that a topology is hashed by; two that differ in later ones alone are told apart when they are compared."""

Router = Callable[[int, int], Iterable[int]]
"""(source device, target device) -> numbers of the wires on the way."""


class Wire(NamedTuple):
    """One direction of one link: a resource that takes messages one after the other, first come first served.

    ``source``, ``target``: vertices, devices first (0 to ranks - 1), then NICs, switches and hosts. ``latency_fs``:
    until the first byte is at the other end; it does not occupy the wire. ``rate``: bytes per second, exact.
    ``link``: its name in the spec, for tables and pictures.
    """

    source: int
    target: int
    latency_fs: int
    rate: Fraction
    energy_J_per_B: float
    link: str


@dataclass(frozen=True)
class Topology:
    """Devices and what lies between them, as a directed graph of wires.

    ``labels``: one per vertex ('node0.gpu3', 'leaf1'), devices first. ``groups``: number of the node of each device.
    ``forwarding``: with 'cut-through' the head of a message moves on after the latency of a hop, with
    'store-and-forward' when all of it has arrived. ``overhead_fs``: of the software, once per message, before its first
    wire, which it does not occupy. ``router``: optional rule; else fewest hops, of these the fastest wire, ties
    spread by (a + b) mod n. ``summing``: switches that add up what their ends send (NVLS, SHARP).
    """

    name: str
    ranks: int
    labels: tuple[str, ...]
    wires: tuple[Wire, ...]
    groups: tuple[int, ...]
    forwarding: Literal["cut-through", "store-and-forward"] = "cut-through"
    overhead_fs: int = 0
    router: Router | None = field(default=None)
    summing: frozenset[int] = frozenset()

    def route(self, a: int, b: int) -> tuple[int, ...]:
        """Numbers of the wires from device ``a`` to device ``b``; none where they are the same.

        UsageError, with both labels, where no way leads there.
        """
        known = self._ways.get((a, b))
        if known is None:
            known = self._ways[a, b] = self._way(a, b)
        return known

    def route_kind(self, a: int, b: int) -> int:
        """Return a number, equal for routes over equal wires in equal order."""
        way = tuple([self._wire_kinds[wire] for wire in self.route(a, b)])
        return self._route_kinds.setdefault(way, len(self._route_kinds))

    def with_faster(self, link: str, times: int) -> Topology:
        """Return the topology with the wires of a link so many times as fast.

        Routes that are known stay known unless wires of several links competed for one by their rates.
        """
        wires = tuple(
            wire._replace(rate=wire.rate * times) if wire.link == link else wire for wire in self.wires
        )
        made = replace(self, wires=wires)
        ties = () if self.router else self._routes.ties
        if all(len({self.wires[wire].link for wire in tie}) == 1 for tie in ties):
            vars(made).update(_ways=dict(self._ways))
        return made

    def occupancy_fs(self, wire: int, nbytes: int) -> int:
        """Return how long so many bytes occupy a wire, fs, rounded down."""
        rate = self.wires[wire].rate
        return nbytes * FS_PER_S * rate.denominator // rate.numerator

    def message_fs(self, a: int, b: int, nbytes: int) -> int:
        """Time of a message that meets no other, fs: overhead, latencies, and the slowest wire or (store and forward)
        all of them; 0 from a device to itself."""
        way = self.route(a, b)
        if not way:
            return 0
        busy = [self.occupancy_fs(wire, nbytes) for wire in way]
        latency = self.overhead_fs + sum(self.wires[wire].latency_fs for wire in way)
        return latency + (max(busy) if self.forwarding == "cut-through" else sum(busy))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        ends = tuple(wire[:3] for wire in self.wires[:HASHED])
        return hash((self.name, self.ranks, len(self.wires), ends, self.forwarding, self.overhead_fs))

    @cached_property
    def rates_Bps(self) -> list[float]:
        """Rate of each wire as a float."""
        return [float(wire.rate) for wire in self.wires]

    @cached_property
    def _wire_kinds(self) -> list[int]:
        """A number for each wire, equal for wires of one link, rate and latency."""
        known: dict[object, int] = {}
        found = []
        for wire in self.wires:
            key = (wire.rate.numerator, wire.rate.denominator, wire.latency_fs, wire.link)
            found.append(known.setdefault(key, len(known)))
        return found

    @cached_property
    def _route_kinds(self) -> dict[tuple[int, ...], int]:
        return {}

    @cached_property
    def _ways(self) -> dict[tuple[int, int], tuple[int, ...]]:
        return {}

    @cached_property
    def _routes(self) -> Routes:
        ends = [(wire.source, wire.target) for wire in self.wires]
        return Routes(len(self.labels), ends, [wire.rate for wire in self.wires])

    def _way(self, a: int, b: int) -> tuple[int, ...]:
        wrong = [rank for rank in (a, b) if not 0 <= rank < self.ranks]
        if wrong:
            raise UsageError(
                [Problem(f"no device {rank}", self.name, f"0 to {self.ranks - 1}") for rank in wrong]
            )
        way = tuple(self.router(a, b)) if self.router and a != b else self._routes.way(a, b)
        if way is None:
            raise UsageError(
                Problem(
                    f"no way leads from {self.labels[a]} to {self.labels[b]}", self.name, "links between them"
                )
            )
        return way
