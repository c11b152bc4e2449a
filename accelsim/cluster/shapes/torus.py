"""A grid of two or three dimensions whose edges meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from accelsim.cluster.shapes.draft import Built, Draft, End
from accelsim.spec.cluster import Fabric

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
