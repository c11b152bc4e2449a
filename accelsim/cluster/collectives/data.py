"""Collectives that carry real data: NumPy buffers, moved and added message by message in a stated order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.cluster.collectives.base import areas
from accelsim.cluster.collectives.registry import algorithm
from accelsim.cluster.network.messages import MessageGraph
from accelsim.errors import Problem, UsageError
from accelsim.types import Array


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


def run_collective(
    kind: str, name: str, arrays: Sequence[Array], chunks: int = 1, groups: Sequence[int] = ()
) -> list[Array]:
    """A collective on buffers of any shape, all alike: what each device holds in the end.

    ``arrays``: one per device; of all_gather, each device's part is part i of its own array. The result of
    reduce_scatter is part i of the array of device i, elsewhere what is left of the way there.
    UsageError where they are not alike, or of all_to_all cannot be divided among the devices.
    """
    shapes = {(each.shape, each.dtype.str) for each in arrays}
    if len(shapes) != 1:
        raise UsageError(
            Problem("buffers of different shapes or types", kind, "one array per device, all alike")
        )
    size, shape = arrays[0].size, arrays[0].shape
    if kind == "all_to_all" and size % len(arrays):
        raise UsageError(Problem(f"{size} elements", kind, f"as many in each of {len(arrays)} parts"))
    graph = algorithm(name, kind).build(kind, len(arrays), size, chunks, groups)
    flat = [np.ravel(each) for each in arrays]
    if areas(kind) == 1:
        return [each.reshape(shape) for each in run_data(graph, flat)]
    done = run_data(graph, [np.concatenate([each, np.zeros_like(each)]) for each in flat])
    return [each[size:].reshape(shape) for each in done]


def part(index: int, ranks: int, elements: int) -> slice:
    """Elements of part ``index`` of a buffer in as many parts as there are devices: equal but for one element."""
    return slice(index * elements // ranks, (index + 1) * elements // ranks)
