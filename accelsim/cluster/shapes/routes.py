"""Ways through a cluster that the rule of the fewest hops alone would not find.

Between two devices of one torus the way follows the dimensions. A card that several devices share is the end of each of
them, so no way leads through it from one to another where there is any other way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from math import prod

from accelsim.cluster.network.routing import Routes
from accelsim.cluster.network.topology import Wire
from accelsim.cluster.shapes.draft import Built, Draft, End
from accelsim.spec.cluster import Fabric


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


NAME = "torus"
FORTH, BACK = 1, -1


def build(draft: Draft, fabric: Fabric, ends: Sequence[End], name: str) -> Built:
    """A link to each neighbour; along a dimension of two there is one neighbour, and one link to it.

    Ends count along the first dimension quickest.
    """
    assert fabric.dims is not None  # a law of the spec
    torus: dict[tuple[int, int, int], int] = {}
    rate = draft.rate(fabric.link, fabric.links)
    for index in range(len(ends)):
        for dimension, size, stride in strides(fabric.dims):
            at = index // stride % size
            if size == 1 or (size == 2 and at == 1):
                continue
            other = index + ((at + 1) % size - at) * stride
            forth, back = draft.join(ends[index].vertex, ends[other].vertex, name, fabric.link, rate=rate)
            torus[index, dimension, FORTH], torus[other, dimension, BACK] = forth, back
            if size == 2:
                torus[index, dimension, BACK], torus[other, dimension, FORTH] = forth, back
    return Built(torus=torus)


def strides(dims: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(dimension, ends along it, how far apart neighbours are counted) of each dimension."""
    return ((dimension, size, prod(dims[:dimension])) for dimension, size in enumerate(dims))


def steps(dims: Sequence[int], a: int, b: int) -> Iterator[tuple[int, int, int]]:
    """The way of dimension-order routing from end ``a`` to ``b``: (end, dimension, direction) of each wire.

    Along each dimension the shorter way round; of two of the same length, forth from even places and back from odd
    ones.
    """
    at = a
    for dimension, size, stride in strides(dims):
        place, target = at // stride % size, b // stride % size
        ahead = (target - place) % size
        shorter = ahead < size - ahead if 2 * ahead != size else place % 2 == 0
        direction = FORTH if shorter else BACK
        for _ in range(min(ahead, size - ahead)):
            yield at, dimension, direction
            moved = (place + direction) % size
            at += (moved - place) * stride
            place = moved
