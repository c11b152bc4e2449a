"""Running one graph on all ranks of a group at once: node by node, collectives between their arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from accelsim.cluster.plan.spmd import SPMD
from accelsim.cluster.values import exchange
from accelsim.errors import ModelError, Problem
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops import find
from accelsim.workload.ops.values import CONTAINERS, contain
from accelsim.workload.training.session import FLOATS, WHOLE, rounded

Values = dict[str, Array]
Each = list[list[Array]]
"""By rank: the inputs of a node."""


def _all_reduce(node: Node, given: Each) -> list[Array]:
    return exchange.all_reduce([arrays[0] for arrays in given], node.attrs["reduce"])


def _all_gather(node: Node, given: Each) -> list[Array]:
    return exchange.all_gather([arrays[0] for arrays in given], node.attrs["axis"])


def _reduce_scatter(node: Node, given: Each) -> list[Array]:
    return exchange.reduce_scatter([arrays[0] for arrays in given], node.attrs["axis"])


def _part(node: Node, given: Each) -> list[Array]:
    return [np.split(arrays[0], len(given), node.attrs["axis"])[rank] for rank, arrays in enumerate(given)]


def _own(indices: Array, rank: int, size: int) -> tuple[Array, Array]:
    """(which indices are of the rank's ``size`` rows, the indices among these)."""
    local = indices - rank * size
    mine = (local >= 0) & (local < size)
    return mine, np.where(mine, local, 0)


def _spread(mine: Array, axis: int, rank: int) -> Array:
    """A mask over the axes of the indices, so that it broadcasts to what was gathered."""
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


TOGETHER: dict[str, Callable[[Node, Each], list[Array]]] = {
    "AllReduce": _all_reduce, "AllGather": _all_gather, "ReduceScatter": _reduce_scatter, "Part": _part,
    "GatherPart": _gather_part, "GatherGradPart": _gather_grad_part,
}  # fmt: skip
"""Op of ``SPMD`` -> what it does with the arrays of all ranks: the result of each."""


class _Step(NamedTuple):
    kernel: Any
    node: Node
    writes: list[tuple[str, str, Any]]
    together: bool


class Lockstep:
    """``graph`` made ready to run many times. Raises ModelError for an op without a kernel.

    Every tensor is rounded to its format when it is written, as in ``training.Session``.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants: Values = {
            tensor.name: contain(tensor.value(), tensor.dtype) for tensor in graph.constants()
        }
        self._steps = [_step(graph, node) for node in graph.nodes]

    def run(self, ranks: Sequence[Mapping[str, Array]], keep: bool = False) -> list[Values]:
        """The outputs on each rank (``keep``: all tensors); ``ranks``: for each a value of every input, and of the
        constants that are not alike on all ranks."""
        scopes = [self._scope(given) for given in ranks]
        with np.errstate(all="ignore"):  # infinities and NaN are values
            for step in self._steps:
                self._do(step, scopes)
        names = self.graph.outputs
        return scopes if keep else [{name: scope[name] for name in names} for scope in scopes]

    def _scope(self, given: Mapping[str, Array]) -> Values:
        own = {name: given[name] for name in self.constants if name in given}
        return {**self.constants, **own, **{name: given[name] for name in self.graph.inputs}}

    def _do(self, step: _Step, scopes: Sequence[Values]) -> None:
        given = [[scope[name] if name else None for name in step.node.inputs] for scope in scopes]
        if step.together:
            results = [[array] for array in step.kernel(step.node, given)]
        else:
            results = [step.kernel(step.node, arrays) for arrays in given]
        for scope, made in zip(scopes, results, strict=True):
            for (name, dtype, exact), result in zip(step.writes, made, strict=False):
                scope[name] = result if result.dtype is exact else rounded(result, dtype)


def _step(graph: Graph, node: Node) -> _Step:
    formats = [(name, graph.tensors[name].dtype) for name in node.outputs if name]
    exact = [np.dtype(CONTAINERS[dtype]) if dtype in WHOLE else None for _, dtype in formats]
    writes = [(name, dtype, kept) for (name, dtype), kept in zip(formats, exact, strict=True)]
    if node.op in SPMD:
        return _Step(TOGETHER[node.op], node, writes, True)
    op = find(node.op)
    if op is None:
        raise ModelError(Problem(f"{node.op} has no kernel", node.name))
    same = node.op == "Cast" and node.attrs["to"] in FLOATS
    return _Step(_unchanged if same else op.kernel, node, writes, False)


def _unchanged(node: Node, arrays: list[Array]) -> list[Array]:
    """A cast between floats: the rounding happens when the result is written."""
    return [arrays[0]]
