"""Attend: scores, softmax and the weighted sum of values become one kernel, whose scores no memory holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from accelsim.compiler.graph import edit
from accelsim.compiler.graph.fuse import ELEMENTWISE
from accelsim.compiler.numbers.formats import SHORT_FLOATS
from accelsim.compiler.state import State
from accelsim.program.roles import units
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import is_product
from accelsim.workload.ops import base

ATTENDED = (*SHORT_FLOATS, "fp8_e4m3fn", "fp8_e5m2", "int8")
"""Formats in which libraries have such kernels: those in eight bits are of engines for inference (TensorRT with its
plug-ins for BERT, FlashAttention 3)."""
SUMS = "fp32"
"""Format of everything between the products: nothing of it leaves the registers."""


def attend(state: State) -> None:
    """Join a product, elementwise functions of its results, a Softmax of their rows, and a product of that, each the
    only reader of the one before, into the first one (its ``epilogue``), on engines that have such a kernel.

    Not with ``options.fusion`` 'eager', nor in other formats than ``ATTENDED``.
    """
    if state.options.fusion == "eager":
        return
    graph, readers = state.graph, state.graph.consumers()
    able = {name for name, unit in units(state.chip).items() if unit.spec.attends}
    gone, joined = set[int](), dict[int, Node]()
    for node in graph.nodes:
        if node.engine in able and node.format in ATTENDED and is_product(node):
            chain = list(_chain(graph, readers, node))
            if chain and chain[-1].engine == node.engine and chain[-1].format == node.format:
                joined[id(chain[-1])] = merged(graph, node, chain)
                gone |= {id(each) for each in (node, *chain[:-1])}
    graph.nodes = [joined.get(id(node), node) for node in graph.nodes if id(node) not in gone]
    if joined:
        state.notes.append(f"attend: {len(joined)} times scores, softmax and weighted sum in one kernel")


def _chain(graph: Graph, readers: Mapping[str, Sequence[Node]], node: Node) -> Iterator[Node]:
    """The nodes behind the scores of ``node`` up to the product with the values; none where they are no attention."""
    found, last, soft = list[Node](), node, False
    while (behind := _only_reader(graph, readers, last)) is not None:
        scores = graph.tensors[last.writes[0]]
        found, last = [*found, behind], behind
        if is_product(last):
            if soft and last.op == "MatMul" and last.inputs[0] == scores.name:
                yield from found
            return
        for part in edit.parts(last):
            if not soft and part.op == "Softmax" and _of_rows(part, len(scores.shape)):
                soft = True
            elif not _keeps_rows(graph, part, scores.shape):
                return
            scores = graph.tensors[part.outputs[0]]


def _only_reader(graph: Graph, readers: Mapping[str, Sequence[Node]], node: Node) -> Node | None:
    """The node that reads the one result of another as its first operand, nobody else, and only once."""
    (name, *more), behind = node.writes, readers.get(node.writes[0], [])
    if more or len(behind) != 1 or name in graph.outputs:
        return None
    times = sum(part.inputs.count(name) for part in edit.parts(behind[0]))
    return behind[0] if times == 1 and name in behind[0].inputs else None


def _of_rows(softmax: Node, rank: int) -> bool:
    return softmax.attrs.get("flatten_from") is None and softmax.attrs["axis"] % rank == rank - 1


def _keeps_rows(graph: Graph, part: Node, shape: tuple[int, ...]) -> bool:
    """Return whether a part works element by element on scores of this shape, or gives them another one with the same
    rows."""
    after = graph.tensors[part.outputs[0]].shape
    if part.op == "Reshape":
        return after[-1] == shape[-1]
    return base.get(part.op).kind in ELEMENTWISE and after == shape


def merged(graph: Graph, first: Node, chain: Sequence[Node]) -> Node:
    """Return all of them as one node; what lies between its parts is not rounded to what memories hold, but to codes of
    eight bits in a quantised network."""
    behind = [part for node in chain for part in edit.parts(node)]
    node = replace(first, epilogue=[*first.epilogue, *(replace(part, epilogue=[]) for part in behind)])
    inside = {name for part in edit.parts(node) for name in part.outputs} - set(node.writes)
    for name in inside if first.format in SHORT_FLOATS else ():
        graph.tensors[name].dtype, graph.tensors[name].stored = SUMS, ""
    return node
