"""How large a model may be: what the compiler counts in arrays fits into 64 bits."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.base import find

LARGEST = 2**31 - 1
"""The largest batch, parameter of a model, dimension of a tensor and size of a window."""
MOST_ELEMENTS, MOST_MACS = 2**48, 2**56
"""Elements of the largest tensor, and multiply-accumulates of the largest layer."""
WINDOW = ("kernel_shape", "strides", "pads", "dilations")


def check_sizes(graph: Graph) -> None:
    """ModelError that names every tensor and layer that is beyond the limits."""
    problems = [problem for tensor in graph.tensors.values() for problem in _of_tensor(tensor)]
    problems += [problem for node in graph.nodes for problem in _of_node(graph, node)]
    if problems:
        raise ModelError(problems)


def _of_tensor(tensor: Tensor) -> Iterator[Problem]:
    what = f"tensor {tensor.name!r} has shape {' x '.join(map(str, tensor.shape))}"
    if max(tensor.shape, default=0) > LARGEST:
        yield Problem(what, expected=f"dimensions of {LARGEST:,} at the most")
    elif tensor.elements > MOST_ELEMENTS:
        yield Problem(what, expected=f"{MOST_ELEMENTS:,} elements at the most")


def _of_node(graph: Graph, node: Node) -> Iterator[Problem]:
    for key in WINDOW:
        if max(node.attrs.get(key) or (0,)) > LARGEST:
            yield Problem(f"{key} {list(node.attrs[key])}", node.name, f"{LARGEST:,} at the most")
    op = find(node.op)
    if op is None or op.gemm is None:
        return
    ins = [graph.tensors[name] if name else None for name in node.inputs]
    gemm = op.gemm(node, ins, [graph.tensors[name] for name in node.outputs])
    if gemm is not None and gemm.macs > MOST_MACS:
        sizes = f"{gemm.groups} x {gemm.M} x {gemm.N} x {gemm.K}"
        what = f"{sizes} multiply-accumulates (groups x M x N x K)"
        yield Problem(what, node.name, f"{MOST_MACS:,} at the most")
