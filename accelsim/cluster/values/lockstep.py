"""One graph on all ranks of a group, node by node. Collectives move and add arrays as a ring does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accelsim.cluster.collectives.algorithms import algorithm
from accelsim.cluster.collectives.base import areas
from accelsim.cluster.network.play import MessageGraph
from accelsim.cluster.plan.spmd import SPMD
from accelsim.cluster.values.ring import ringed
from accelsim.errors import ModelError
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops import find
from accelsim.workload.ops.experts import by_expert, rows_of
from accelsim.workload.ops.product import product
from accelsim.workload.ops.values import CONTAINERS, contain
from accelsim.workload.training.session import FLOATS, WHOLE, rounded

Arrays = list[Array]

ALGORITHM = "ring"
"""Whose order of sums the values have; every rank has the same bits under each of them."""


@lru_cache(maxsize=512)
def _messages(kind: str, ranks: int, elements: int) -> MessageGraph:
    return algorithm(ALGORITHM, kind).build(kind, ranks, elements)


def _run(kind: str, arrays: Sequence[Array]) -> Arrays:
    assert areas(kind) == 1
    return run_data(_messages(kind, len(arrays), arrays[0].size), [np.ravel(array) for array in arrays])


def all_reduce(arrays: Sequence[Array], reduce: str = "sum") -> Arrays:
    """Return the sum, or the maximum ('max', the same in every order), on every rank: the same bits on each."""
    if len(arrays) == 1:
        return list(arrays)
    if reduce == "max":
        return [np.maximum.reduce(arrays)] * len(arrays)
    return [flat.reshape(arrays[0].shape) for flat in _run("all_reduce", arrays)]


def all_gather(arrays: Sequence[Array], axis: int) -> Arrays:
    """Return all parts along ``axis``, in the order of their ranks, on every rank."""
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
    """Return for each rank its part along ``axis`` of the sum."""
    first = [np.moveaxis(array, axis, 0) for array in arrays]
    ranks, size = len(arrays), arrays[0].size // len(arrays)
    shape = (first[0].shape[0] // ranks, *first[0].shape[1:])
    done = _run("reduce_scatter", [np.ascontiguousarray(array) for array in first])
    return [_back(flat[rank * size : (rank + 1) * size].reshape(shape), axis) for rank, flat in enumerate(done)]


def _back(array: Array, axis: int) -> Array:
    return np.ascontiguousarray(np.moveaxis(array, 0, axis))


def run_data(graph: MessageGraph, arrays: Sequence[Array]) -> list[Array]:
    """Return the buffers of all devices after the messages of a graph. ``arrays``: one flat buffer per device, left
    unchanged.

    Round by round: all messages of a round read, then each writes, in order of their numbers. An addition is ``what is
    there + what comes``, in the type of the buffers. So the order of every sum is fixed by the graph, whatever the
    network: every run gives the same bits.
    """
    buffers = [np.array(each) for each in arrays]
    edges = np.flatnonzero(np.diff(graph.round)) + 1
    source, target, begin, end, into, adds = (
        column.tolist() for column in (graph.source, graph.target, graph.begin, graph.end, graph.into, graph.reduces)
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


Values = dict[str, Array]
Each = list[list[Array]]
"""Inputs of a node, by rank."""


def _own(indices: Array, rank: int, size: int) -> tuple[Array, Array]:
    local = indices - rank * size
    mine = (local >= 0) & (local < size)
    return mine, np.where(mine, local, 0)


def _spread(mine: Array, axis: int, rank: int) -> Array:
    return mine.reshape((*[1] * axis, *mine.shape, *[1] * (rank - axis - mine.ndim)))


def _gather_part(node: Node, given: Each) -> list[Array]:
    axis, found = node.attrs["axis"], []
    for rank, (table, indices) in enumerate(given):
        mine, local = _own(indices, rank, table.shape[axis])
        rows = np.take(table, local, axis)
        found.append(np.where(_spread(mine, axis, rows.ndim), rows, np.zeros((), rows.dtype)))
    return found


def _gather_grad_part(node: Node, given: Each) -> list[Array]:
    plain, found = find("GatherGrad"), []
    assert plain is not None
    for rank, (grad, indices) in enumerate(given):
        mine, local = _own(indices, rank, node.attrs["size"])
        own = np.where(_spread(mine, node.attrs["axis"], grad.ndim), grad, np.zeros((), grad.dtype))
        found.append(plain.kernel(node, [own, local])[0])
    return found


def _exchanged(node: Node, given: Each) -> list[Array]:
    """Rows go to the ranks that have their experts, which multiply what comes from all, and send results back."""
    own, found = len(given[0][1]), []
    rows, experts = zip(*(rows_of(x, chosen) for x, _, chosen in given), strict=True)
    for x, w, chosen in given:
        found.append(np.zeros(SPMD[node.op].shape(node, [x.shape, w.shape, chosen.shape], len(given)), x.dtype))
    for rank, (_, w, _) in enumerate(given):
        mine = [each // own == rank for each in experts]
        sent = np.concatenate([x[here] for x, here in zip(rows, mine, strict=True)])
        places = np.concatenate([each[here] for each, here in zip(experts, mine, strict=True)]) - rank * own
        if len(sent):
            made = by_expert(node, sent, w, places[:, np.newaxis], product)[: len(sent)]
            ends = np.cumsum([here.sum() for here in mine])[:-1]
            for y, here, back in zip(found, mine, np.split(made, ends), strict=True):
                y[: len(here)][here] = back
    return found


def _firsts(given: Each) -> Arrays:
    return [arrays[0] for arrays in given]


TOGETHER: dict[str, Callable[[Node, Each], list[Array]]] = {
    "AllReduce": lambda node, given: all_reduce(_firsts(given), node.attrs["reduce"]),
    "AllGather": lambda node, given: all_gather(_firsts(given), node.attrs["axis"]),
    "ReduceScatter": lambda node, given: reduce_scatter(_firsts(given), node.attrs["axis"]),
    "ExpertExchange": _exchanged,
    "RingAttention": ringed,
    "Part": lambda node, given: [
        np.split(array, len(given), node.attrs["axis"])[rank] for rank, array in enumerate(_firsts(given))
    ],
    "GatherPart": _gather_part,
    "GatherGradPart": _gather_grad_part,
}
"""Op of ``SPMD`` -> what it does with the arrays of all ranks: the result of each."""


class _NodeRun(NamedTuple):
    """A node made ready: ``kernel`` gives its results by rank; ``writes``: name and format of each result, and the type
    of arrays that need no rounding."""

    kernel: Callable[[Node, Sequence[list[Array | None]]], Sequence[Sequence[Array]]]
    node: Node
    writes: list[tuple[str, str, object]]


class Lockstep:
    """A graph made ready to run many times. Raises ModelError for an op without a kernel.

    Every tensor is rounded to its format when it is written, as in ``training.Session``.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants: Values = {tensor.name: contain(tensor.value(), tensor.dtype) for tensor in graph.constants()}
        self._steps = [_step(graph, node) for node in graph.nodes]

    def run(self, ranks: Sequence[Mapping[str, Array]], keep: bool = False) -> list[Values]:
        """Return the outputs on each rank (``keep``: all tensors). ``ranks``: for each a value of every input, and of
        the constants that differ between ranks."""
        scopes = [self._scope(given) for given in ranks]
        with np.errstate(all="ignore"):  # infinities and NaN are values
            for step in self._steps:
                self._do(step, scopes)
        names = self.graph.outputs
        return scopes if keep else [{name: scope[name] for name in names} for scope in scopes]

    def _scope(self, given: Mapping[str, Array]) -> Values:
        own = {name: given[name] for name in self.constants if name in given}
        return {**self.constants, **own, **{name: given[name] for name in self.graph.inputs}}

    def _do(self, step: _NodeRun, scopes: Sequence[Values]) -> None:
        given = [[scope[name] if name else None for name in step.node.inputs] for scope in scopes]
        for scope, made in zip(scopes, step.kernel(step.node, given), strict=True):
            for (name, dtype, exact), result in zip(step.writes, made, strict=False):
                scope[name] = result if result.dtype is exact else rounded(result, dtype)


def _step(graph: Graph, node: Node) -> _NodeRun:
    formats = [(name, graph.tensors[name].dtype) for name in node.outputs if name]
    exact = [np.dtype(CONTAINERS[dtype]) if dtype in WHOLE else None for _, dtype in formats]
    writes: list[tuple[str, str, object]] = [(*each, kept) for each, kept in zip(formats, exact, strict=True)]
    if node.op in SPMD:
        together = TOGETHER[node.op]
        return _NodeRun(lambda node, given: [[array] for array in together(node, _present(given))], node, writes)
    op = find(node.op)
    if op is None:
        raise ModelError(f"{node.op} has no kernel", node.name)
    if node.op == "Cast" and node.attrs["to"] in FLOATS:  # rounding is all that it does
        return _NodeRun(lambda node, given: _present(given), node, writes)
    kernel = op.kernel
    return _NodeRun(lambda node, given: [kernel(node, arrays) for arrays in given], node, writes)


def _present(given: Sequence[Sequence[Array | None]]) -> Each:
    return [[array for array in arrays if array is not None] for arrays in given]
