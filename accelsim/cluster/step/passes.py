"""Forward and backward pass of a piece as separate graphs, as a device runs them one microbatch after the other.

The backward pass reads what the forward pass has kept (``stash``). Gradients of weights are added to what earlier
microbatches left. Everything stays in the memory of the device. Gradients of norms and softmax are single kernels in
the libraries of GPUs, where the rules of differentiation write several (:func:`merged`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from accelsim.workload.gradient.backward import backward
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.base import get
from accelsim.workload.training.forward import trainable
from accelsim.workload.zoo.build import Builder


class Passes(NamedTuple):
    """Graphs of a piece. ``forward`` keeps what ``backward`` reads; ``inputs_only``: the gradients of the activations
    alone, None without any."""

    forward: Graph
    backward: Graph
    inputs_only: Graph | None


def passes(
    graph: Graph, activations: tuple[str, ...], dtype: str, residual: bool = False, library: bool = False
) -> Passes:
    """Return the passes of a graph of one result with the ``activations`` among its inputs, in the format ``dtype``.

    ``residual``: the gradient of its first activation is added to one that went past it. ``library``: with the kernels
    of GPUs for gradients. Raises ModelError for ops without a gradient.
    """
    weights = trainable(graph)
    whole = _backward(graph, activations, weights, residual, library)
    only = _backward(graph, activations, [], residual, library) if activations else None
    stash = [name for name in whole.inputs if name in {out for node in graph.nodes for out in node.outputs}]
    made = (_forward(graph, stash), whole, only)
    return Passes(*(each if each is None else in_format(each, dtype) for each in made))  # type: ignore[arg-type]


def in_format(graph: Graph, dtype: str) -> Graph:
    """Put every float of a graph into one format, as a training step keeps it. Without values."""
    for tensor in graph.tensors.values():
        if tensor.dtype == "fp32":
            tensor.dtype = dtype
    graph.trains = True
    return graph


def _forward(graph: Graph, stash: list[str]) -> Graph:
    made = graph.copy()
    made.name = f"{graph.name}-forward"
    made.outputs = list(dict.fromkeys([*graph.outputs, *stash]))
    return local(made)


def local(graph: Graph) -> Graph:
    """Mark inputs and outputs of a graph as kept in the memory of the device."""
    graph.states = {name: name for name in graph.inputs}
    graph.kept = list(graph.outputs)
    return graph


def _backward(graph: Graph, activations: tuple[str, ...], weights: list[str], residual: bool, library: bool) -> Graph:
    made, result = graph.copy(), graph.outputs[0]
    b = Builder(f"{graph.name}-backward")
    b.graph = made
    made.name = f"{graph.name}-backward"
    for name in weights:
        made.tensors[name] = Tensor(name, graph.tensors[name].shape, graph.tensors[name].dtype)
        made.inputs.append(name)
    seed = b.input("grad", graph.tensors[result].shape)
    before = {id(node) for node in made.nodes}
    forward = {node.name: node for node in made.nodes}
    found = backward(made, result, [*activations, *weights], seed)
    made.nodes = [node for node in made.nodes if id(node) not in before]
    if library:
        merged(made, forward, set(found.values()))
    outputs = {name: found[name] for name in (*activations, *weights)}
    if residual and activations:
        outputs[activations[0]] = b.op(
            "Add", [outputs[activations[0]], b.input("grad_past", made.tensors[activations[0]].shape)], "sum"
        )
    for name in weights:
        before_it = b.input(f"{name}.before", made.tensors[name].shape, made.tensors[name].dtype)
        outputs[name] = b.op("Add", [outputs[name], before_it], f"{name}.total")
    return local(_closed(made, list(dict.fromkeys(outputs.values()))))


def _closed(graph: Graph, outputs: list[str]) -> Graph:
    """Keep only the nodes that the outputs need; tensors without a producer become inputs."""
    wanted, nodes = set(outputs), []
    for node in reversed(graph.nodes):
        if wanted.intersection(node.outputs):
            nodes.append(node)
            wanted.update(name for name in node.inputs if name)
    graph.nodes = nodes[::-1]
    made_by_nodes = {name for node in graph.nodes for name in node.outputs}
    graph.tensors = {name: tensor for name, tensor in graph.tensors.items() if name in wanted | made_by_nodes}
    graph.inputs = [
        name for name, tensor in graph.tensors.items() if not tensor.is_constant and name not in made_by_nodes
    ]
    graph.outputs, graph.products = outputs, 0
    return graph


MERGED: Mapping[str, bool] = {
    "LayerNormalization": False,
    "RMSNormalization": False,
    "Softmax": True,
    "LogSoftmax": True,
    "Gelu": False,
    "Silu": False,
}
"""Ops whose gradient is one kernel for the activations, which reads the gradient and the result (True) or the input
(False) and writes as much, and one for the parameters, which reads both again."""


def merged(graph: Graph, forward: Mapping[str, Node], wanted: set[str]) -> None:
    """Replace what the rules wrote for ``MERGED`` ops by such kernels, with their traffic and work: a product of both
    operands, sums over their rows. Values are not those of the gradient: for runs without values."""
    groups: dict[str, list[Node]] = {}
    for node in graph.nodes:
        groups.setdefault(node.part_of, []).append(node)
    for name, node in forward.items():
        group = groups.get(f"{name}.grad")
        if node.op in MERGED and group:
            _merge(graph, node, group, wanted)


def _merge(graph: Graph, node: Node, group: list[Node], wanted: set[str]) -> None:
    inside = {id(each) for each in group}
    made = {name for each in group for name in each.outputs}
    read = {name for each in graph.nodes if id(each) not in inside for name in each.inputs}
    results = [name for each in group for name in each.outputs if name in (read | wanted) and name in made]
    saved = node.outputs[0] if MERGED[node.op] else node.inputs[0]
    known, shape = {*made, *node.inputs, *node.outputs}, graph.tensors[node.outputs[0]].shape
    reads = (name for each in group for name in each.inputs if name and name not in known)
    own = (graph.tensors[name] for name in reads)
    incoming = next((each.name for each in own if each.shape == shape and not each.is_constant), saved)
    place = next(index for index, each in enumerate(graph.nodes) if id(each) in inside)
    put = [part for turn, name in enumerate(results) for part in _kernels(graph, name, saved, incoming, turn)]
    graph.nodes = [each for each in graph.nodes if id(each) not in inside]
    graph.nodes[place:place] = put


def _kernels(graph: Graph, name: str, saved: str, incoming: str, turn: int) -> Iterator[Node]:
    shape, rows = graph.tensors[name].shape, graph.tensors[saved].shape
    if shape == rows:
        yield Node(name, "Mul", [incoming, saved], [name])
        return
    axes = tuple(range(len(rows) - len(shape)))
    node = Node(name, "ReduceSum", [(saved, incoming)[turn % 2]], [name], {"axes": axes, "keepdims": 0})
    assert get("ReduceSum").infer(node, [graph.tensors[saved]])[0][0] == shape
    yield node


ROW = 4096
"""Parameters of a row of the arrays that hold them."""


def update(parameters: int, library: bool = False, tiles: bool = False) -> Graph:
    """Write Adam (Kingma and Ba, 2015) on gradients, moments and weights in FP32, after the norm of the gradients and
    its clipping. ``library``: one fused kernel for all tensors, which reads 16 bytes per parameter and writes 12, and 2
    of the weight that products read. ``tiles``: rows are summed for the norm where they lie, then their sums, as no
    tile has room for all."""
    b = Builder("adam")
    shape = (max(1, parameters // ROW), min(ROW, parameters))
    inputs = [b.input(name, shape) for name in ("weight", "grad", "first", "second")]
    clip = b.constant("clip", 1.0)
    rows = b.op("ReduceSum", [inputs[1]], "rows", axes=[1], keepdims=1) if tiles else inputs[1]
    norm = b.op("ReduceSum", [rows], "norm", axes=[0, 1], keepdims=0)
    inputs[1] = b.op("Mul", [inputs[1], clip], "clipped")
    if library:  # the traffic of such a kernel in two ops: it keeps no result but weight and moments
        made = [b.op("Add", inputs[:2], "weight.next"), b.op("Add", inputs[2:], "moments.next")]
    else:
        made = _written(b, *inputs)
    weight, *moments = made
    short = b.op("Cast", [weight], "weight.short", to="fp16")
    graph = b.finish(norm, weight, *moments, short)
    graph.trains = True
    return local(graph)


def _written(b: Builder, weight: str, grad: str, first: str, second: str) -> list[str]:
    """Node by node: the new weight and moments."""
    number = {
        name: b.constant(name, value)
        for name, value in (("b1", 0.9), ("c1", 0.1), ("b2", 0.95), ("c2", 0.05), ("eps", 1e-8), ("lr", 1e-4))
    }
    part = b.op("Mul", [grad, number["c1"]], "grad.part")
    first = b.op("Add", [b.op("Mul", [first, number["b1"]], "first.kept"), part], "first.next")
    square = b.op("Mul", [b.op("Mul", [grad, grad], "square"), number["c2"]], "square.part")
    second = b.op("Add", [b.op("Mul", [second, number["b2"]], "second.kept"), square], "second.next")
    deviation = b.op("Add", [b.op("Sqrt", [second], "root"), number["eps"]], "deviation")
    step = b.op("Mul", [b.op("Div", [first, deviation], "ratio"), number["lr"]], "step")
    return [b.op("Sub", [weight, step], "weight.next"), first, second]
