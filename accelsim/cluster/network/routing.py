"""Routes through a network: fewest hops, then the fastest wire, ties spread over wires by a rule without chance."""

from __future__ import annotations

from collections.abc import Sequence, Set
from fractions import Fraction

KEPT = 1024
"""Vertices whose surroundings are remembered: more than a simulated all-to-all has, few enough for any memory."""

Neighbours = Sequence[set[int]]
"""For each vertex those one hop from it in one direction."""


class Routes:
    """Routes with the fewest hops through a directed graph, each searched from both of its ends.

    A table of distances per target would have as many entries as there are pairs of vertices. ``ties``: wires that
    competed for a route so far.
    """

    def __init__(
        self, vertices: int, ends: Sequence[tuple[int, int]], rates: Sequence[Fraction | int] = ()
    ) -> None:
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

    def way(self, a: int, b: int) -> tuple[int, ...] | None:
        """Return the wires from ``a`` to ``b``; None where no route leads there.

        At each vertex the fastest of the wires that lead one hop closer stand in order of their numbers; of n the
        route takes number (a + b) mod n.
        """
        layers = _layers(self._after[a], self._before[b])
        if layers is None:
            return None
        way: list[int] = []
        at = a
        for layer in layers:
            steps = self._steps(at, layer)
            wire, at = steps[(a + b) % len(steps)]
            way.append(wire)
        return tuple(way)

    def _steps(self, at: int, layer: Set[int]) -> list[tuple[int, int]]:
        """Return the fastest wires from a vertex into the next layer, each with its end."""
        steps = [(wire, to) for to in self._next[at] & layer for wire in self._wires[at, to]]
        if len(steps) > 1:
            self.ties.add(frozenset(wire for wire, _ in steps))
            steps = sorted(self._fastest(steps))
        return steps

    def _fastest(self, steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Drop slower wires of equally short routes: two devices at one card have a faster link of their own."""
        if not self._rates:
            return steps
        most = max(self._rates[wire] for wire, _ in steps)
        return [step for step in steps if self._rates[step[0]] == most]


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
