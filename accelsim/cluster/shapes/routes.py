"""Ways through a cluster with tori: by the dimensions between two devices of one, else with the fewest hops."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from accelsim.cluster.network.routing import Routes
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


class DimensionOrder:
    """The router of a cluster with tori (see ``Topology.router``)."""

    def __init__(self, tori: Iterable[Torus], vertices: int, ends: Iterable[tuple[int, int]]) -> None:
        self.tori = tuple(tori)
        self._of = {rank: torus for torus in self.tori for rank in torus.places}
        self._vertices, self._ends = vertices, tuple(ends)

    def __call__(self, a: int, b: int) -> tuple[int, ...]:
        """Wires from rank ``a`` to rank ``b``, between which there is a way."""
        torus = self._of.get(a)
        if torus is not None and b in torus.places:
            return torus.way(a, b)
        way = self._others.way(a, b)
        assert way is not None  # a law of the spec
        return way

    def __eq__(self, other: object) -> bool:
        """Routers of equal wires are equal: the way depends on nothing else."""
        return isinstance(other, DimensionOrder) and self._ends == other._ends

    def __hash__(self) -> int:
        return hash(self._ends)

    @cached_property
    def _others(self) -> Routes:
        return Routes(self._vertices, self._ends)


def tori_of(router: object) -> tuple[Torus, ...]:
    """The tori whose dimensions a router follows, () of any other."""
    return router.tori if isinstance(router, DimensionOrder) else ()
