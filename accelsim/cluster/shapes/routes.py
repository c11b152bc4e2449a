"""Ways through a cluster that the rule of the fewest hops alone would not find.

Between two devices of one torus the way follows the dimensions. A card that several devices share is the end of each of
them, so no way leads through it from one to another where there is any other way.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from accelsim.cluster.network.routing import Routes
from accelsim.cluster.network.topology import Wire
from accelsim.cluster.shapes.torus import steps


class Torus:
    """A torus of devices: its dimensions, the ranks at its places, its wires by (place, dimension, direction)."""

    def __init__(
        self, dims: tuple[int, ...], ranks: tuple[int, ...], wires: dict[tuple[int, int, int], int]
    ) -> None:
        self.dims, self.wires = dims, wires
        self.places = {rank: place for place, rank in enumerate(ranks)}

    def way(self, a: int, b: int) -> tuple[int, ...]:
        """Wires from rank ``a`` to rank ``b``."""
        return tuple(self.wires[step] for step in steps(self.dims, self.places[a], self.places[b]))


class ClusterRouter:
    """The router of a cluster with tori, or with cards that devices share (see ``Topology.router``)."""

    def __init__(
        self, tori: Iterable[Torus], vertices: int, wires: Iterable[Wire], cards: Iterable[int]
    ) -> None:
        self.tori = tuple(tori)
        self._of = {rank: torus for torus in self.tori for rank in torus.places}
        self._vertices, self._wires, self._cards = vertices, tuple(wires), frozenset(cards)
        self._rates = [wire.rate for wire in self._wires]

    def __call__(self, a: int, b: int) -> tuple[int, ...]:
        """Wires from rank ``a`` to rank ``b``, between which there is a way."""
        torus = self._of.get(a)
        if torus is not None and b in torus.places:
            return torus.way(a, b)
        way = self._inside.way(a, b) or self._all.way(a, b)
        assert way is not None  # a law of the spec
        return way

    def __eq__(self, other: object) -> bool:
        """Routers of equal wires are equal: the way depends on nothing else."""
        return isinstance(other, ClusterRouter) and self._wires == other._wires

    def __hash__(self) -> int:
        return hash(self._wires)

    @cached_property
    def _all(self) -> Routes:
        return Routes(self._vertices, [(wire.source, wire.target) for wire in self._wires], self._rates)

    @cached_property
    def _inside(self) -> Routes:
        """Ways without cards; wires of these lead from nowhere to nowhere, so that the others keep their numbers."""
        nowhere = self._vertices
        kept = [
            (nowhere, nowhere) if self._cards.intersection(wire[:2]) else wire[:2] for wire in self._wires
        ]
        return Routes(self._vertices + 1, kept, self._rates)


def tori_of(router: object) -> tuple[Torus, ...]:
    """The tori whose dimensions a router follows, () of any other."""
    return router.tori if isinstance(router, ClusterRouter) else ()
