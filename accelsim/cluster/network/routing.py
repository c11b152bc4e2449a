"""Ways through a network: fewest hops, then the fastest wire, ties spread over wires by a rule that needs no chance."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


class Routes:
    """Ways with the fewest hops through a directed graph. What was found out for a target is kept."""

    def __init__(
        self, vertices: int, ends: Sequence[tuple[int, int]], rates: Sequence[Fraction | int] = ()
    ) -> None:
        self._ends, self._rates = ends, rates
        self._out: list[list[int]] = [[] for _ in range(vertices)]
        self._in: list[list[int]] = [[] for _ in range(vertices)]
        for number, (source, target) in enumerate(ends):
            self._out[source].append(number)
            self._in[target].append(number)
        self._fields: dict[int, tuple[dict[int, int], list[int]]] = {}
        self._closer: dict[tuple[int, int], list[int]] = {}

    def way(self, a: int, b: int) -> tuple[int, ...] | None:
        """Wires from ``a`` to ``b``; None where there is no way.

        At each vertex the fastest of the wires that lead one hop closer stand in order of their numbers; of n the way
        takes number (a + b) mod n.
        """
        hops = self._distances(a, b)
        if a not in hops:
            return None
        way: list[int] = []
        at = a
        while at != b:
            closer = self._closer.get((at, b))
            if closer is None:
                closer = [wire for wire in self._out[at] if hops.get(self._ends[wire][1], -1) == hops[at] - 1]
                closer = self._closer[at, b] = self._fastest(closer)
            way.append(closer[(a + b) % len(closer)])
            at = self._ends[way[-1]][1]
        return tuple(way)

    def _fastest(self, wires: list[int]) -> list[int]:
        """Of equally short ways none over a slower wire: two devices at one card have a faster link of their own."""
        if not self._rates or len(wires) < 2:
            return wires
        most = max(self._rates[wire] for wire in wires)
        return [wire for wire in wires if self._rates[wire] == most]

    def _distances(self, a: int, b: int) -> dict[int, int]:
        """Hops to ``b`` of every vertex that is no farther from it than ``a``; of more where they are known."""
        hops, frontier = self._fields.setdefault(b, ({b: 0}, [b]))
        while frontier and a not in hops:
            nearer = list(frontier)
            frontier.clear()
            for at in nearer:
                for wire in self._in[at]:
                    source = self._ends[wire][0]
                    if source not in hops:
                        hops[source] = hops[at] + 1
                        frontier.append(source)
        return hops
