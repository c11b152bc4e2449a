"""Turn: products read an operand transposed where their engine reads it either way, instead of a kernel before them."""

from __future__ import annotations

from accelsim.compiler.graph import edit
from accelsim.compiler.graph.place import swaps_last
from accelsim.compiler.state import State
from accelsim.program.roles import units
from accelsim.workload.graph import Graph, Node

PLAIN = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
"""Attributes of a Gemm that equals a MatMul."""


def turn(state: State) -> None:
    """Take out each Transpose of the last two axes that only products read, on engines whose libraries take
    operands of either layout (BLAS: N and T): the second operand of any, the first one of two plain matrices.
    """
    graph, readers = state.graph, state.graph.consumers()
    known = units(state.chip)
    either = {name for name, unit in known.items() if unit.spec.reads_turned}
    outputs, gone = frozenset(graph.outputs), list[Node]()
    for node in graph.nodes:
        if node.op != "Transpose" or not swaps_last(node) or node.outputs[0] in outputs:
            continue
        products = readers.get(node.outputs[0], [])
        if products and all(each.engine in either and _slot(graph, each, node) >= 0 for each in products):
            for each in products:
                _read_turned(each, _slot(graph, each, node), node.inputs[0])
            gone.append(node)
    edit.drop(graph, gone)
    if gone:
        state.notes.append(f"turn: {len(gone)} transpositions left to the products that read them")


def _slot(graph: Graph, product: Node, transpose: Node) -> int:
    """Return which operand of a product that reads it either way a transposition is, -1 for none."""
    name = transpose.outputs[0]
    if product.op not in ("MatMul", "Gemm") or product.inputs.count(name) != 1:
        return -1
    slot = product.inputs.index(name)
    plain = all(len(graph.tensors[each].shape) == 2 for each in product.inputs[:2])
    return slot if slot == 1 or (slot == 0 and plain) else -1


def _read_turned(product: Node, slot: int, source: str) -> None:
    if slot == 0 and product.op == "MatMul":
        product.op, product.attrs = "Gemm", {**PLAIN, **product.attrs}
    flag = ("transA", "transB")[slot]
    product.inputs[slot], product.attrs[flag] = source, 1 - product.attrs.get(flag, 0)
