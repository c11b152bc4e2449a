"""Reference execution of a graph, node by node, in the formats of its tensors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accelsim.errors import ModelError, Problem, UsageError, nearest
from accelsim.threads import one_blas_thread
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.multiply import matrix_kernel
from accelsim.workload.ops import find
from accelsim.workload.ops.foreign import foreign_kernel
from accelsim.workload.ops.values import contain, row_major


@one_blas_thread
def run(graph: Graph, feeds: Mapping[str, Array], keep: bool = False) -> dict[str, Array]:
    """Execute ``graph`` on ``feeds`` (one array per graph input) and return its outputs by name.

    With ``keep`` every tensor that exists in a memory is returned: inputs and all that the (fused) nodes
    write. Otherwise a tensor is freed after its last reader. Values are in the containers of
    ``workload.ops``. Raises UsageError for feeds that are missing, unknown or of another shape (all at once),
    ModelError for an op that no kernel knows or whose result has not the shape that the graph says.
    """
    values, kept = _checked(graph, feeds), frozenset(graph.outputs)
    last = {name: index for index, node in enumerate(graph.nodes) for name in node.reads}
    for index, node in enumerate(graph.nodes):
        values.update(zip(node.writes, run_node(node, graph, values), strict=True))
        if not keep:
            for name in (*node.reads, *node.writes):
                if last.get(name, index) <= index and name not in kept:
                    values.pop(name, None)
    outputs = {name: _value(graph, name, values) for name in graph.outputs}
    return {**values, **outputs} if keep else outputs


def run_node(node: Node, graph: Graph, values: Mapping[str, Array]) -> list[Array]:
    """Results of one fused node, in the order of ``node.writes``.

    ``values`` holds the tensors that it reads, except constants, which come from the graph. Results in
    between are rounded to the format of their tensor too. Raises ModelError as ``run``.
    """
    inside: dict[str, Array] = {}
    for part in (node, *node.epilogue):
        arrays = [_read(graph, name, inside, values) for name in part.inputs]
        results = compute(part, graph, arrays)
        for name, result in zip(part.outputs, results, strict=False):
            if name:
                inside[name] = _fitted(part, graph, name, result)
    return [inside[name] for name in node.writes]


def compute(node: Node, graph: Graph, arrays: list[Array | None]) -> list[Array]:
    """Results of one op, not yet rounded to the formats of its outputs. Raises ModelError as ``run``.

    Kernels see operands in row-major order: NumPy adds up a transposed view in another order, and the last bit of a
    mean or a softmax would depend on where its operand comes from.
    """
    op = find(node.op)
    arrays = [array if array is None else row_major(array) for array in arrays]
    if op is None:
        return foreign_kernel(node, graph.opset, arrays)
    with np.errstate(all="ignore"):  # infinities and NaN are results
        return matrix_kernel(node, graph, arrays) if node.format else op.kernel(node, arrays)


def _fitted(node: Node, graph: Graph, name: str, result: Array) -> Array:
    tensor = graph.tensors[name]
    if result.shape != tensor.shape:
        what = f"{node.op} gives {name!r} the shape {list(result.shape)}"
        raise ModelError(what, node.name, str(list(tensor.shape)))
    return contain(result, tensor.dtype)


def _read(graph: Graph, name: str, inside: dict[str, Array], values: Mapping[str, Array]) -> Array | None:
    if not name:
        return None
    return inside[name] if name in inside else _value(graph, name, values)


def _value(graph: Graph, name: str, values: Mapping[str, Array]) -> Array:
    if name in values:
        return values[name]
    tensor = graph.tensors[name]
    return contain(tensor.value(), tensor.dtype)


def _checked(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    known = "one of " + ", ".join(graph.inputs)
    problems = [
        Problem(f"the model has no input {name!r}", "", known, nearest(name, graph.inputs))
        for name in feeds
        if name not in (*graph.inputs, *graph.unused)
    ]
    for name in graph.inputs:
        want, given = list(graph.tensors[name].shape), feeds.get(name)
        if given is None:
            problems.append(Problem(f"input {name!r} is missing", "", f"an array of shape {want}"))
        elif list(np.shape(given)) != want:
            problems.append(Problem(f"input {name!r} has shape {list(np.shape(given))}", "", str(want)))
    UsageError.raise_for(problems)
    return {name: contain(np.asarray(feeds[name]), graph.tensors[name].dtype) for name in graph.inputs}
