"""Legalise: bring a canonical graph into the few forms that the later passes handle."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from accelsim.compiler.graph import edit, place
from accelsim.compiler.state import State
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops import base
from accelsim.workload.ops.values import common_shape, row_major

if TYPE_CHECKING:
    from accelsim.compiler.graph.affine import Affine


_NAMES_ONLY = frozenset({"Identity", "Dropout"})
_CHAINED = {"Sum": "Add", "Min": "Min", "Max": "Max"}
"""Ops with any number of inputs -> the op of two inputs that a chain of them is made of."""


def legalise(state: State) -> None:
    """Bring a copy of the graph into canonical forms; tensor names that survive keep their values.

    1. Nodes that only rename (Identity, Dropout at inference, a Cast to the same format) go.
    2. Nodes of constants become constants, evaluated on first use.
    3. Sum, Min, Max of many inputs become chains of two.
    4. Gemm gets alpha = beta = 1, no transposes, and a bias of shape [N]; what does not fit becomes nodes
    around it.
    5. Mul and Add by per-channel constants behind a BatchNormalization go into it.
    6. New rows behind a state, whose next value that is, are an Append in place; a transposition of what an Append
    wrote, for a product alone, goes into the product.
    7. Nodes that no output needs go.
    """
    graph = state.graph = state.graph.copy()
    edit.sort(graph)
    renamed = _drop_renames(graph)
    evaluated = _evaluate_constants(graph)
    _chain_variadic(graph)
    appended, turned = place.appends(graph), place.turn_in_place(graph)
    _plain_gemms(graph)
    merged = _merge_into_batch_norm(graph)
    edit.sort(graph)
    dead = edit.prune(graph)
    counts = {
        "removed because they only rename": renamed,
        "evaluated because their inputs are constant": evaluated,
        "merged into a batch normalisation": merged,
        "removed because no output needs them": dead,
        "made appends to a state, in place": appended,
        "left to the product, which reads a state transposed": turned,
    }
    state.notes += [f"legalise: {n} node{'s' * (n > 1)} {what}" for what, n in counts.items() if n]


def _only_renames(graph: Graph, node: Node) -> bool:
    if node.op in _NAMES_ONLY:
        return True
    if node.op == "Cast":
        return graph.tensors[node.inputs[0]].dtype == graph.tensors[node.outputs[0]].dtype
    return node.op in _CHAINED and len(node.inputs) == 1


def _drop_renames(graph: Graph) -> int:
    gone: list[Node] = []
    links, outputs = edit.Links(graph), frozenset(graph.outputs)
    ends = outputs.union(graph.inputs)
    for node in graph.nodes:
        if not _only_renames(graph, node):
            continue
        source, target = node.inputs[0], node.outputs[0]
        if target not in outputs:
            links.rewire(target, source)
        elif source not in ends and not graph.tensors[source].is_constant:  # it may take another name
            links.rename_output(source, target)
            links.rewire(source, target)
        else:
            continue
        gone.append(node)
    edit.drop(graph, gone)
    return len(gone)


def _evaluate_constants(graph: Graph) -> int:
    gone: list[Node] = []
    outputs = frozenset(graph.outputs)
    for node in graph.nodes:
        tensors = [graph.tensors[name] for name in node.inputs if name]
        op = base.find(node.op)
        if op is None or not tensors or not all(tensor.is_constant for tensor in tensors):
            continue
        if not outputs.isdisjoint(node.outputs):
            continue
        run = _once(op, node, [graph.tensors[name] if name else None for name in node.inputs])
        for index, name in enumerate(node.outputs):
            if name:
                graph.tensors[name].source = partial(_item, run, index)
        gone.append(node)
    edit.drop(graph, gone)
    return len(gone)


def _once(op: base.Op, node: Node, ins: list[Tensor | None]) -> Callable[[], list[Array]]:
    return functools.cache(lambda: op.kernel(node, [None if t is None else edit.peek(t) for t in ins]))


def _item(run: Callable[[], list[Array]], index: int) -> Array:
    return run()[index]


def _chain_variadic(graph: Graph) -> None:
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op in _CHAINED and len(node.inputs) >= 2:
            nodes += _chain(graph, node)
        else:
            nodes.append(node)
    graph.nodes = nodes


def _chain(graph: Graph, node: Node) -> list[Node]:
    op, (left, *rest) = _CHAINED[node.op], node.inputs
    out = graph.tensors[node.outputs[0]]
    links: list[Node] = []
    for index, right in enumerate(rest):
        last = index == len(rest) - 1
        shape = common_shape(graph.tensors[left].shape, graph.tensors[right].shape)
        name = out.name if last else edit.add_tensor(graph, f"{out.name}.{index + 1}", shape, out.dtype)
        links.append(Node(node.name if last else f"{node.name}.{index + 1}", op, [left, right], [name]))
        left = name
    return links


def _plain_gemms(graph: Graph) -> None:
    nodes: list[Node] = []
    counts = edit.use_counts(graph)
    for node in graph.nodes:
        nodes += _plain_gemm(graph, node, counts) if node.op == "Gemm" else [node]
    graph.nodes = nodes


def _plain_gemm(graph: Graph, node: Node, counts: Counter[str]) -> list[Node]:
    """The node without factors and transposes, and the nodes that this takes before and behind it."""
    alpha, beta = float(node.attrs["alpha"]), float(node.attrs["beta"])
    before, after = _plain_operands(graph, node, alpha, counts), _plain_bias(graph, node, beta, counts)
    node.attrs.update(alpha=1.0, beta=1.0, transA=0, transB=0)
    return [*before, node, *after]


def _plain_operands(graph: Graph, node: Node, alpha: float, counts: Counter[str]) -> list[Node]:
    """Transpose A and B as told; alpha goes into B when that is a constant, else into A."""
    trans = [bool(node.attrs["transA"]), bool(node.attrs["transB"])]
    scaled = 1 if graph.tensors[node.inputs[1]].is_constant else 0
    before: list[Node] = []
    for slot in (0, 1):
        tensor = graph.tensors[node.inputs[slot]]
        factor = alpha if slot == scaled else 1.0
        shape = tensor.shape[::-1] if trans[slot] else tensor.shape
        if tensor.is_constant and (trans[slot] or factor != 1.0):
            make = partial(_scaled_view, tensor, factor, trans[slot])
            name = edit.derive_constant(graph, tensor.name, shape, make, tensor.dtype, counts)
            node.inputs[slot] = edit.moved(counts, tensor.name, name)
            continue
        if trans[slot]:
            before.append(_behind(graph, node, slot, "Transpose", [], {"perm": (1, 0)}, shape))
        if factor != 1.0:
            before.append(_behind(graph, node, slot, "Mul", [_scalar(graph, node, factor)], {}, shape))
    return before


def _scaled_view(tensor: Tensor, factor: float, transposed: bool) -> Array:
    values = edit.peek(tensor)
    values = row_major(values.T) if transposed else values
    return values if factor == 1.0 else (values * np.float64(factor)).astype(values.dtype)


def _behind(
    graph: Graph, node: Node, slot: int, op: str, others: list[str], attrs: dict[str, object], shape: tuple[int, ...]
) -> Node:
    """A new node between input ``slot`` of ``node`` and what it reads now."""
    source = node.inputs[slot]
    label = f"{node.name}.{op.lower()}{slot}"
    node.inputs[slot] = edit.add_tensor(graph, label, shape, graph.tensors[source].dtype)
    return Node(label, op, [source, *others], [node.inputs[slot]], attrs)


def _scalar(graph: Graph, node: Node, value: float) -> str:
    name = edit.fresh(graph, f"{node.name}.factor")
    dtype = graph.tensors[node.outputs[0]].dtype
    graph.tensors[name] = Tensor(name, (), dtype, np.array(value, np.float32))
    return name


def _plain_bias(graph: Graph, node: Node, beta: float, counts: Counter[str]) -> list[Node]:
    """Bring the third input to a constant of shape [N], or to an Add behind the node."""
    if len(node.inputs) < 3 or not node.inputs[2] or beta == 0.0:
        del node.inputs[2:]
        return []
    bias, out = graph.tensors[node.inputs[2]], graph.tensors[node.outputs[0]]
    columns = out.shape[1]
    if bias.is_constant and bias.elements in (1, columns) and (not bias.shape or bias.shape[-1] == bias.elements):
        if bias.shape != (columns,) or beta != 1.0:
            make = partial(_row, bias, beta, columns)
            name = edit.derive_constant(graph, bias.name, (columns,), make, bias.dtype, counts)
            node.inputs[2] = edit.moved(counts, bias.name, name)
        return []
    return _add_behind(graph, node, beta)


def _row(bias: Tensor, beta: float, columns: int) -> Array:
    values = edit.peek(bias).reshape(-1) * np.float64(beta)
    return np.ascontiguousarray(np.broadcast_to(values, (columns,))).astype(np.float32)


def _add_behind(graph: Graph, node: Node, beta: float) -> list[Node]:
    after: list[Node] = []
    out = graph.tensors[node.outputs[0]]
    if beta != 1.0:
        shape = graph.tensors[node.inputs[2]].shape
        after.append(_behind(graph, node, 2, "Mul", [_scalar(graph, node, beta)], {}, shape))
    bias = node.inputs.pop()
    node.outputs = [edit.add_tensor(graph, f"{out.name}.product", out.shape, out.dtype)]
    return [*after, Node(f"{node.name}.add", "Add", [node.outputs[0], bias], [out.name])]


def _merge_into_batch_norm(graph: Graph) -> int:
    """BatchNormalization -> Mul(w[C,1,1]) -> Add(b[C,1,1]) becomes one BatchNormalization."""
    gone: list[Node] = []
    readers, counts = edit.Readers(graph), edit.use_counts(graph)
    for node in graph.nodes:
        if node.op != "BatchNormalization":
            continue
        while (after := _joinable(graph, readers, node)) is not None:
            follower, affine = after
            _rescale(graph, node, affine, counts)
            node.outputs = follower.outputs
            gone.append(follower)
    edit.drop(graph, gone)
    return len(gone)


def _joinable(graph: Graph, readers: edit.Readers, node: Node) -> tuple[Node, Affine] | None:
    from accelsim.compiler.graph.affine import affine_of

    follower = readers.only(node.outputs[0])
    if follower is None or follower.op == "BatchNormalization":
        return None
    affine = affine_of(graph, follower, node.outputs[0], axis=1)
    return None if affine is None else (follower, affine)


def _rescale(graph: Graph, node: Node, affine: Affine, counts: Counter[str]) -> None:
    """scale' = scale * a, B' = B * a + b."""
    from accelsim.compiler.graph.affine import Baked

    scale, shift = (graph.tensors[name] for name in node.inputs[1:3])
    if affine.scale is not None:
        make = Baked(scale, affine.scale)
        name = edit.derive_constant(graph, scale.name, scale.shape, make, scale.dtype, counts)
        node.inputs[1] = edit.moved(counts, scale.name, name)
    make = Baked(shift, affine.scale, affine.shift)
    name = edit.derive_constant(graph, shift.name, shift.shape, make, shift.dtype, counts)
    node.inputs[2] = edit.moved(counts, shift.name, name)
