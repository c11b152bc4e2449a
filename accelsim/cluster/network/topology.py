"""Networks as graphs of wires, and their routes: fewest hops, then the fastest wire, ties spread by a fixed rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple

from accelsim.errors import Gather, UsageError
from accelsim.time import FS_PER_S

KEPT = 1024
"""Vertices whose surroundings are remembered: more than a simulated all-to-all has, few enough for any memory."""

Neighbours = Sequence[set[int]]
"""For each vertex those one hop from it in one direction."""


class Routes:
    """Routes with the fewest hops through a directed graph, searched from both ends.

    A table of distances per target would have as many entries as there are pairs of vertices. ``ties``: wires that
    competed for a route so far.
    """

    def __init__(self, vertices: int, ends: Sequence[tuple[int, int]], rates: Sequence[Fraction | int] = ()) -> None:
        self._rates = rates
        self._wires: dict[tuple[int, int], list[int]] = {}
        after: list[set[int]] = [set() for _ in range(vertices)]
        before: list[set[int]] = [set() for _ in range(vertices)]
        for number, (source, target) in enumerate(ends):
            self._wires.setdefault((source, target), []).append(number)
            after[source].add(target)
            before[target].add(source)
        self.ties: set[frozenset[int]] = set()
        self._next = after
        self._after = _Known(after)
        self._before = self._after if after == before else _Known(before)

    def path(self, a: int, b: int) -> tuple[int, ...] | None:
        """Return the wires from ``a`` to ``b``; None where no route leads there.

        At each vertex the fastest of the wires that lead one hop closer stand in order of their numbers; of n the
        route takes number (a + b) mod n.
        """
        layers = _layers(self._after[a], self._before[b])
        if layers is None:
            return None
        path: list[int] = []
        at = a
        for layer in layers:
            steps = self._steps(at, layer)
            wire, at = steps[(a + b) % len(steps)]
            path.append(wire)
        return tuple(path)

    def _steps(self, at: int, layer: Set[int]) -> list[tuple[int, int]]:
        """Return the fastest wires from a vertex into the next layer, each with its end."""
        steps = [(wire, to) for to in self._next[at] & layer for wire in self._wires[at, to]]
        if len(steps) > 1:
            self.ties.add(frozenset(wire for wire, _ in steps))
            if self._rates:  # two devices at one card have a faster link of their own
                most = max(self._rates[wire] for wire, _ in steps)
                steps = [step for step in steps if self._rates[step[0]] == most]
            steps.sort()
        return steps


class _Rings:
    """Vertices round one: ``rings[n]`` are those ``n`` hops from it."""

    def __init__(self, beyond: Neighbours, middle: int) -> None:
        self.beyond = beyond
        self.rings: list[Set[int]] = [{middle}]
        self.depth = 0
        self._reached = {middle}

    def grow(self) -> bool:
        """Add the next ring; False where the last one is empty already."""
        last = self.rings[-1]
        if last:
            ring = set[int]().union(*[self.beyond[at] for at in last]) - self._reached
            self._reached |= ring
            self.rings.append(ring)
            self.depth += 1
        return bool(last)


class _Known(dict[int, _Rings]):
    """Rings round the vertices that were asked for last."""

    def __init__(self, beyond: Neighbours) -> None:
        self._beyond = beyond

    def __missing__(self, middle: int) -> _Rings:
        if len(self) >= KEPT:
            self.clear()
        found = self[middle] = _Rings(self._beyond, middle)
        return found


def _layers(after: _Rings, before: _Rings) -> list[Set[int]] | None:
    """Return, for each hop of the shortest routes between two vertices, the vertices where it may end; None where
    no route leads there. Vertices that are as near to the target but out of reach may be among them."""
    count = 0
    while True:
        if count > after.depth + before.depth:
            nearer = after if len(after.rings[-1]) <= len(before.rings[-1]) else before
            if not nearer.grow():
                return None
        known = min(count, before.depth)
        if met := after.rings[count - known] & before.rings[known]:
            break
        count += 1
    layers: list[Set[int]] = [before.rings[left] for left in reversed(range(known))]
    for ring in reversed(after.rings[: count - known]):
        layers.insert(0, met)
        met = set[int]().union(*[ring & before.beyond[at] for at in met])
    return layers


HASHED = 64
"""Wires that a topology is hashed by; two that differ in later ones alone are told apart when they are compared."""

Router = Callable[[int, int], Iterable[int]]
"""(source device, target device) -> numbers of the wires on the path."""


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
    """Devices and the switches between them, as a directed graph of wires.

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
        """Return the numbers of the wires from device ``a`` to device ``b``; () where they are the same.

        UsageError, with both labels, where there is no route.
        """
        known = self._paths.get((a, b))
        if known is None:
            known = self._paths[a, b] = self._path(a, b)
        return known

    def route_kind(self, a: int, b: int) -> int:
        """Return a number, equal for routes over equal wires in equal order."""
        path = tuple([self._wire_kinds[wire] for wire in self.route(a, b)])
        return self._route_kinds.setdefault(path, len(self._route_kinds))

    def with_faster(self, link: str, times: int) -> Topology:
        """Return the topology with the wires of a link so many times as fast.

        Routes that are known stay known unless wires of several links competed for one by their rates.
        """
        wires = tuple(wire._replace(rate=wire.rate * times) if wire.link == link else wire for wire in self.wires)
        made = replace(self, wires=wires)
        ties = () if self.router else self._routes.ties
        if all(len({self.wires[wire].link for wire in tie}) == 1 for tie in ties):
            vars(made).update(_paths=dict(self._paths))
        return made

    def occupancy_fs(self, wire: int, nbytes: int) -> int:
        """Return how long so many bytes occupy a wire, fs, rounded down."""
        rate = self.wires[wire].rate
        return nbytes * FS_PER_S * rate.denominator // rate.numerator

    def message_fs(self, a: int, b: int, nbytes: int) -> int:
        """Return the time of a message that meets no other, fs: overhead, latencies, and the slowest wire or (store and
        forward) all of them; 0 from a device to itself."""
        path = self.route(a, b)
        if not path:
            return 0
        busy = [self.occupancy_fs(wire, nbytes) for wire in path]
        latency = self.overhead_fs + sum(self.wires[wire].latency_fs for wire in path)
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
        kinds = ((each.rate.as_integer_ratio(), each.latency_fs, each.link) for each in self.wires)
        return [known.setdefault(kind, len(known)) for kind in kinds]

    @cached_property
    def _route_kinds(self) -> dict[tuple[int, ...], int]:
        return {}

    @cached_property
    def _paths(self) -> dict[tuple[int, int], tuple[int, ...]]:
        return {}

    @cached_property
    def _routes(self) -> Routes:
        ends = [(wire.source, wire.target) for wire in self.wires]
        return Routes(len(self.labels), ends, [wire.rate for wire in self.wires])

    def _path(self, a: int, b: int) -> tuple[int, ...]:
        gather = Gather()
        for rank in (a, b):
            gather.refuse(not 0 <= rank < self.ranks, f"no device {rank}", self.name, f"0 to {self.ranks - 1}")
        gather.done()
        path = tuple(self.router(a, b)) if self.router and a != b else self._routes.path(a, b)
        if path is None:
            what = f"no way leads from {self.labels[a]} to {self.labels[b]}"
            raise UsageError(what, self.name, "links between them")
        return path
