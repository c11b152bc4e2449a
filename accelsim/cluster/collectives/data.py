"""Collectives that carry real data: NumPy buffers, moved and added message by message in a stated order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.cluster.network.messages import MessageGraph
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


def part(index: int, ranks: int, elements: int) -> slice:
    """Elements of part ``index`` of a buffer in as many parts as there are devices: equal but for one element."""
    return slice(index * elements // ranks, (index + 1) * elements // ranks)
