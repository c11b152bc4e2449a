"""States that grow: keys and values of earlier tokens, to which a step appends rows where they lie."""

from __future__ import annotations

from collections.abc import Mapping

from accelsim.compiler.graph import edit
from accelsim.workload.graph import Graph, Node


def appends(graph: Graph) -> int:
    """Turn each Concat of a state and new rows, whose result is the next value of the state, into an Append.

    Returns how many. One that cannot be done in place, because somebody else reads the old value, stays as it is.
    """
    found, counts = 0, edit.use_counts(graph)
    for node in graph.nodes:
        if node.op == "Concat" and len(node.inputs) == 2 and _alone(graph, node, counts):
            axis = node.attrs["axis"]
            node.op, node.attrs = "Append", {"axis": axis, "at": graph.tensors[node.inputs[0]].shape[axis]}
            found += 1
    return found


def in_place(graph: Graph, node: Node, counts: Mapping[str, int]) -> bool:
    """Return whether a node is an Append that may write into the memory of its state. ``counts``:
    ``edit.use_counts``."""
    return node.op == "Append" and _alone(graph, node, counts)


def _alone(graph: Graph, node: Node, counts: Mapping[str, int]) -> bool:
    """Whether a node makes the next value of its first input, a state that nobody else reads."""
    past = node.inputs[0]
    return graph.states.get(past) == node.outputs[0] and counts[past] == 1


def turn_in_place(graph: Graph) -> int:
    """Let products read a cache transposed: a Transpose of the last two axes of what an Append wrote, which only
    products read as their second operand, goes. Returns how many.
    """
    counts = edit.use_counts(graph)
    cached = {node.outputs[0] for node in graph.nodes if in_place(graph, node, counts)}
    if not cached:
        return 0
    consumers, outputs, gone = graph.consumers(), frozenset(graph.outputs), []
    for node in graph.nodes:
        if node.op != "Transpose" or node.inputs[0] not in cached or not swaps_last(node):
            continue
        readers, turned = consumers[node.outputs[0]], node.outputs[0]
        if turned in outputs or not all(_takes(reader, turned) for reader in readers):
            continue
        for reader in readers:
            reader.inputs[1], reader.attrs["transB"] = node.inputs[0], 1 - reader.attrs.get("transB", 0)
        gone.append(node)
    edit.drop(graph, gone)
    return len(gone)


def swaps_last(node: Node) -> bool:
    """Return whether a Transpose exchanges the last two axes and no others."""
    *before, last, other = node.attrs["perm"]
    return before == list(range(len(before))) and (last, other) == (len(before) + 1, len(before))


def _takes(reader: Node, tensor: str) -> bool:
    """Whether a node multiplies by the tensor, and reads it nowhere else."""
    return reader.op == "MatMul" and reader.inputs[1] == tensor and reader.inputs.count(tensor) == 1
