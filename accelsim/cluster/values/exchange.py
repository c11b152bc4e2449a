"""Collectives between arrays: what each rank of a group has afterwards, moved and added as a ring does it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from accelsim.cluster.collectives.base import areas
from accelsim.cluster.collectives.registry import algorithm
from accelsim.cluster.network.messages import MessageGraph
from accelsim.types import Array

Arrays = list[Array]

ALGORITHM = "ring"
"""Whose order of sums the values have; every rank has the same bits under each of them."""


@lru_cache(maxsize=512)
def _messages(kind: str, ranks: int, elements: int) -> MessageGraph:
    return algorithm(ALGORITHM, kind).build(kind, ranks, elements)


def _run(kind: str, arrays: Sequence[Array]) -> Arrays:
    """The flat buffers after a collective; ``arrays``: one per rank, all of one shape."""
    assert areas(kind) == 1
    return run_data(_messages(kind, len(arrays), arrays[0].size), [np.ravel(array) for array in arrays])


def all_reduce(arrays: Sequence[Array], reduce: str = "sum") -> Arrays:
    """The sum, or the maximum ('max', the same in every order): the same bits on every rank."""
    if len(arrays) == 1:
        return list(arrays)
    if reduce == "max":
        return [np.maximum.reduce(arrays)] * len(arrays)
    return [flat.reshape(arrays[0].shape) for flat in _run("all_reduce", arrays)]


def all_gather(arrays: Sequence[Array], axis: int) -> Arrays:
    """All parts along ``axis``, in the order of their ranks."""
    first = [np.moveaxis(array, axis, 0) for array in arrays]
    ranks, size = len(arrays), arrays[0].size
    buffers = []
    for rank, part in enumerate(first):
        whole = np.zeros(ranks * size, part.dtype)
        whole[rank * size : (rank + 1) * size] = part.ravel()
        buffers.append(whole)
    shape = (ranks * first[0].shape[0], *first[0].shape[1:])
    return [_back(flat.reshape(shape), axis) for flat in _run("all_gather", buffers)]


def reduce_scatter(arrays: Sequence[Array], axis: int) -> Arrays:
    """Give each rank its part along ``axis`` of the sum."""
    first = [np.moveaxis(array, axis, 0) for array in arrays]
    ranks, size = len(arrays), arrays[0].size // len(arrays)
    shape = (first[0].shape[0] // ranks, *first[0].shape[1:])
    done = _run("reduce_scatter", [np.ascontiguousarray(array) for array in first])
    return [
        _back(flat[rank * size : (rank + 1) * size].reshape(shape), axis) for rank, flat in enumerate(done)
    ]


def _back(array: Array, axis: int) -> Array:
    return np.ascontiguousarray(np.moveaxis(array, 0, axis))


def run_data(graph: MessageGraph, arrays: Sequence[Array]) -> list[Array]:
    """The buffers of all devices after the messages of a graph; ``arrays``: one flat buffer per device, left as it is.

    Round by round: all messages of a round read, then each writes, in order of their numbers. An addition is ``what is
    there + what comes``, in the type of the buffers. So the order of every sum is fixed by the graph, whatever the
    network: every run gives the same bits.
    """
    buffers = [np.array(each) for each in arrays]
    edges = np.flatnonzero(np.diff(graph.round)) + 1
    source, target, begin, end, into, adds = (
        column.tolist()
        for column in (graph.source, graph.target, graph.begin, graph.end, graph.into, graph.reduces)
    )
    for first, last in zip([0, *edges.tolist()], [*edges.tolist(), len(graph)], strict=True):
        sent = [buffers[source[m]][begin[m] : end[m]].copy() for m in range(first, last)]
        for m, values in zip(range(first, last), sent, strict=True):
            place = buffers[target[m]][into[m] : into[m] + len(values)]
            if adds[m]:
                np.add(place, values, out=place)
            else:
                place[:] = values
    return buffers


def part(index: int, ranks: int, elements: int) -> slice:
    """Elements of part ``index`` of a buffer in as many parts as there are devices: equal but for one element."""
    return slice(index * elements // ranks, (index + 1) * elements // ranks)
