"""A node within its graph: its work, its form as a product, the readers of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.base import Gemm, Work, find


def node_work(graph: Graph, node: Node) -> Work:
    """Algorithmic work of a fused node: its own and its epilogue's."""
    macs = ops = 0
    for part in (node, *node.epilogue):
        op = find(part.op)
        if op is None:
            outs = [graph.tensors[name] for name in part.outputs if name]
            ops += sum(tensor.elements for tensor in outs)
            continue
        ins = [graph.tensors[name] if name else None for name in part.inputs]
        work = op.work(part, ins, [graph.tensors[name] for name in part.outputs if name])
        macs, ops = macs + work.macs, ops + work.ops
    return Work(macs, ops)


ELSEWHERE = ("", "alias", "host")
"""Places of a node that no engine of the chip does: nowhere yet, nowhere at all, on the host."""


ATTENTION_GRAD = "AttentionGrad"
"""The backward pass of attention, which one kernel does."""


def is_product(node: Node) -> bool:
    """Return whether an engine of the chip does the node as a product: Conv, MatMul, Gemm, ..., alone or with
    functions."""
    return multiplies(node) and node.engine not in ELSEWHERE and not is_attention(node)


def is_attention(node: Node) -> bool:
    """Return whether the node is attention in one kernel, or its gradient: a product with another one among the
    functions after it."""
    return node.op == ATTENTION_GRAD or (
        bool(node.epilogue) and multiplies(node) and any(map(multiplies, node.epilogue))
    )


def multiplies(node: Node) -> bool:
    """Return whether the operator of a node is a product, wherever it is done."""
    op = find(node.op)
    return op is not None and op.kind == "matrix"


def is_function(node: Node) -> bool:
    """Return whether an engine of the chip does the node, and it is neither a product nor a mere transfer."""
    return node.engine not in (*ELSEWHERE, "dma") and not is_product(node)


def gemm_view(graph: Graph, node: Node) -> Gemm | None:
    """Return how the node looks to a matrix unit, or None."""
    op = find(node.op)
    if op is None or op.gemm is None:
        return None
    return op.gemm(node, _tensors(graph, node.inputs), [graph.tensors[name] for name in node.outputs])


def _tensors(graph: Graph, names: list[str]) -> list[Tensor | None]:
    return [graph.tensors[name] if name else None for name in names]


def readers_behind_views(consumers: Mapping[str, Sequence[Node]], tensor: str) -> Iterator[Node]:
    """Nodes that read the tensor or another view of it. ``consumers``: those of the graph, see ``Graph.consumers``."""
    waiting = [tensor]
    while waiting:
        for node in consumers[waiting.pop()]:
            op = find(node.op)
            if op is not None and op.kind == "alias":
                waiting += node.outputs
            else:
                yield node


class Linked(Protocol):
    """A node: names of the tensors that it reads and makes, '' for absent ones."""

    inputs: list[str]
    outputs: list[str]


N = TypeVar("N", bound=Linked)


def needed_nodes(
    nodes: Sequence[N], wanted: Iterable[str], more: Callable[[N], Iterable[str]] = lambda node: ()
) -> list[N]:
    """Return the nodes that the tensors ``wanted`` depend on, in order; ``more``: other names that a node reads."""
    needed, kept = {*wanted}, list[N]()
    for node in reversed(nodes):
        if any(name in needed for name in node.outputs if name):
            needed.update(node.inputs, more(node))
            kept.append(node)
    return kept[::-1]
