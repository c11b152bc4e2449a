"""Merge: products of one operand by several weights become one product, as serving stacks keep their weights.

Queries, keys and values are one product of a layer, both halves of a gated feed-forward part another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.compiler.state import SERVING, State
from accelsim.errors import count_of
from accelsim.program.roles import units
from accelsim.workload.graph import Graph, Node


def merge(state: State) -> None:
    """Put, where ``options.fusion`` is 'serving', products that multiply one tensor by weights [K, N] of their own into
    one by all of these side by side, and take the results out of its columns; on engines that have fused attention.

    Layers of which the user asked something of their own stay alone.
    """
    if state.options.fusion != SERVING:
        return
    graph, merged = state.graph, 0
    for products in list(_alike(state)):
        _put_together(graph, products)
        merged += len(products)
    if merged:
        edit.sort(graph)
        state.notes.append(f"merge: {count_of(merged, 'product')} computed beside others of the same operand")


def _alike(state: State) -> Iterator[Sequence[Node]]:
    graph, uses = state.graph, edit.use_counts(state.graph)
    able = {name for name, unit in units(state.chip).items() if unit.spec.attends}
    alone = {*state.options.layers, *state.options.pinned, *graph.sparsity}
    groups: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if node.op == "MatMul" and node.engine in able and node.name not in alone and _own(graph, node, uses):
            groups.setdefault(node.inputs[0], []).append(node)
    return (found for found in groups.values() if len(found) > 1)


def _own(graph: Graph, node: Node, uses: Counter[str]) -> bool:
    """Return whether a product of an activation has weights that nothing else reads, and only nodes read its result."""
    x, weight = (graph.tensors[name] for name in node.inputs[:2])
    kept = node.outputs[0] in graph.outputs
    plain = weight.is_constant and len(weight.shape) == 2 and not node.attrs.get("transB") and not node.epilogue
    return plain and uses[weight.name] == 1 and not x.is_constant and not kept


def _put_together(graph: Graph, products: Sequence[Node]) -> None:
    first, (x, *_) = products[0], products[0].inputs
    weights = [graph.tensors[node.inputs[1]] for node in products]
    widths = [weight.shape[1] for weight in weights]
    name = "+".join(node.name for node in products)
    shape = graph.tensors[first.outputs[0]].shape
    weight = edit.derive_constant(
        graph,
        f"{name}.weight",
        (weights[0].shape[0], sum(widths)),
        lambda: np.concatenate([edit.peek(each) for each in weights], axis=1),
        weights[0].dtype,
    )
    whole = edit.add_tensor(graph, name, (*shape[:-1], sum(widths)), graph.tensors[first.outputs[0]].dtype)
    both = Node(name, "MatMul", [x, weight], [whole], dict(first.attrs), engine=first.engine)
    edit.drop(graph, list(products))
    graph.nodes += [both, *_columns(both, products, widths, len(shape) - 1)]


def _columns(both: Node, products: Sequence[Node], widths: Iterable[int], axis: int) -> Iterator[Node]:
    start = 0
    for node, width in zip(products, widths, strict=True):
        place = {"starts": [start], "ends": [start + width], "axes": [axis], "steps": [1]}
        yield Node(f"{node.name}.columns", "Slice", list(both.outputs), list(node.outputs), place, engine=both.engine)
        start += width
