"""Operands of an epilogue beside the sums: whole tensors that come tile by tile, and parameters per
channel."""

from __future__ import annotations

from typing import NamedTuple

from accelsim.workload.graph import Graph, Node


class EpilogueReads(NamedTuple):
    """``parameters``: constants with at most one value per channel (bias, scales), which the vector unit keeps in
    registers. ``sides``: operands with values of their own for every result: residuals (the node's own input may be
    one), masks."""

    parameters: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()


def epilogue_reads(graph: Graph, node: Node) -> EpilogueReads:
    """Return what the epilogue of a matrix node reads beside its sums."""
    names = _epilogue_reads(node) if node.epilogue else []
    if not names:
        return EpilogueReads()
    biases = {part.inputs[1] for part in node.epilogue if part.op == "Bias"}
    result, axis = graph.tensors[node.outputs[0]].shape, channel_axis(graph, node)
    kept = {
        name
        for name in names
        if graph.tensors[name].is_constant and (name in biases or per_channel(graph.tensors[name].shape, result, axis))
    }
    return EpilogueReads(
        tuple(name for name in names if name in kept), tuple(name for name in names if name not in kept)
    )


def channel_axis(graph: Graph, node: Node) -> int | None:
    """Axis of the output channels in the result of a matrix op: 1 for a Conv, the last one for a product.

    None for a matrix times a vector: its one column is no axis of the result, whose last axis are the rows.
    """
    if node.op == "Conv":
        return 1
    if len(graph.tensors[node.inputs[1]].shape) < 2:
        return None
    return len(graph.tensors[node.outputs[0]].shape) - 1


def per_channel(shape: tuple[int, ...], result: tuple[int, ...], axis: int | None) -> bool:
    """Return whether a tensor of ``shape`` that broadcasts to ``result`` holds at most one value per channel."""
    aligned = (1,) * (len(result) - len(shape)) + tuple(shape)
    return all(extent == 1 for position, extent in enumerate(aligned) if position != axis)


def _epilogue_reads(node: Node) -> list[str]:
    inside = {name for part in (node, *node.epilogue) for name in part.outputs}
    names = dict.fromkeys(name for part in node.epilogue for name in part.inputs if name)
    return [name for name in names if name not in inside]
