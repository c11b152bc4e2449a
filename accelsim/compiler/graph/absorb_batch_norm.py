"""Batch normalisation and other per-channel constants go into the weights before them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.compiler.state import EAGER, State
from accelsim.program.roles import function_unit
from accelsim.program.writing.facts import channel_axis
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor

if TYPE_CHECKING:
    from accelsim.compiler.graph.affine import Affine, Baked, Vector


_BIASED = frozenset({"Conv", "Gemm"})
"""Matrix ops with a bias input."""


def absorb_batch_norm(state: State) -> None:
    """y = a * (x W + c) + b with constant a, b per output channel becomes x W' + c'.

    Applies to Conv, Gemm and MatMul with constant weights that one BatchNormalization, Mul, Add or Sub reads,
    and again to what follows that. New weights are made on first use, in float64, and rounded once. A MatMul
    has no bias input: what remains behind it is a ``Bias`` node. A BatchNormalization that is left over
    becomes Mul and Add where the vector unit has these and not the normalisation itself (Jacob et al., arXiv
    1712.05877, section 3.2).
    """
    graph = state.graph
    walk = _Absorbing(graph)
    compiled = state.options.fusion not in EAGER
    absorbed = sum(walk.into(node) for node in graph.nodes if compiled and _weighted(graph, node))
    walk.finish()
    split = _split_batch_norms(state)
    edit.prune(graph)
    if absorbed:
        state.notes.append(f"absorb_batch_norm: {absorbed} per-channel nodes absorbed into weights and biases")
    if split:
        state.notes.append(
            f"absorb_batch_norm: {split} batch normalisations have no matrix op before them: Mul and Add"
        )


def _weighted(graph: Graph, node: Node) -> bool:
    """Return whether the node is a matrix op of an activation with constant weights (and bias)."""
    if node.op not in (*_BIASED, "MatMul") or graph.tensors[node.inputs[0]].is_constant:
        return False
    if node.op == "MatMul" and len(graph.tensors[node.inputs[1]].shape) != 2:
        return False
    return all(graph.tensors[name].is_constant for name in node.inputs[1:] if name)


class _Absorbing:
    """One walk: readers are looked up once; nodes that go, and those that are new, wait till its end."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.readers, self.counts = graph, edit.Readers(graph), edit.use_counts(graph)
        self.gone: set[int] = set()
        self.behind: dict[int, Node] = {}

    def finish(self) -> None:
        """Take what was absorbed out of the graph, and put each new Bias behind its product."""
        kept = [node for node in self.graph.nodes if id(node) not in self.gone]
        behind = [[node, self.behind[id(node)]] if id(node) in self.behind else [node] for node in kept]
        self.graph.nodes = [node for nodes in behind for node in nodes]

    def into(self, node: Node) -> int:
        """Absorb everything that can be behind ``node``; returns how many nodes went."""
        from accelsim.compiler.graph.affine import affine_of

        graph, count, bias = self.graph, 0, None
        axis = channel_axis(graph, node)
        assert axis is not None  # weights are a matrix
        while True:
            tail = bias or node
            follower = self.readers.only(tail.outputs[0])
            affine = None if follower is None else affine_of(graph, follower, tail.outputs[0], axis)
            if follower is None or affine is None:
                return count
            if affine.scale is not None:
                self._scale_weights(node, affine)
            if node.op in _BIASED:
                self._shift_input(node, affine)
            elif bias is not None or affine.shift is not None:
                bias = self._shift_behind(node, bias, affine, axis)
            tail = bias or node
            self._drop(follower)
            tail.outputs = follower.outputs
            count += 1

    def _drop(self, node: Node) -> None:
        self.gone.add(id(node))
        self.counts.subtract(name for part in edit.parts(node) for name in part.inputs)

    def _derive(self, name: str, shape: tuple[int, ...], make: Vector, dtype: str) -> str:
        found = edit.derive_constant(self.graph, name, shape, make, dtype, self.counts)
        return edit.moved(self.counts, name, found)

    def _scale_weights(self, node: Node, affine: Affine) -> None:
        from accelsim.compiler.graph.affine import Baked

        weight = self.graph.tensors[node.inputs[1]]
        make = Baked(weight, affine.scale, axis=0 if node.op == "Conv" else len(weight.shape) - 1)
        node.inputs[1] = self._derive(weight.name, weight.shape, make, weight.dtype)

    def _shift_input(self, node: Node, affine: Affine) -> None:
        graph = self.graph
        old = graph.tensors[node.inputs[2]] if len(node.inputs) > 2 and node.inputs[2] else None
        out = graph.tensors[node.outputs[0]]
        if old is None and affine.shift is None:
            return
        make = _new_bias(old, out.shape[1], affine)
        wanted = f"{node.name}.bias" if old is None else old.name
        name = edit.fresh(graph, wanted) if old is None else wanted
        node.inputs[2:] = [self._derive(name, (out.shape[1],), make, out.dtype)]

    def _shift_behind(self, node: Node, bias: Node | None, affine: Affine, axis: int) -> Node:
        """The Bias node behind a MatMul, with the map applied to it; made when there is none."""
        graph = self.graph
        out = graph.tensors[node.outputs[0]]
        channels = out.shape[axis]
        old = None if bias is None else graph.tensors[bias.inputs[1]]
        make = _new_bias(old, channels, affine)
        name = edit.fresh(graph, f"{node.name}.bias") if old is None else old.name
        name = self._derive(name, (channels,), make, out.dtype)
        if bias is not None:
            bias.inputs[1] = name
            return bias
        bias = Node(f"{node.name}.bias", "Bias", [out.name, name], [out.name], {"axis": axis})
        self.behind[id(node)] = bias
        return bias


def _new_bias(old: Tensor | None, channels: int, affine: Affine) -> Baked:
    from accelsim.compiler.graph.affine import Baked

    before = Tensor("", (channels,), data=np.zeros(channels, np.float32)) if old is None else old
    return Baked(before, affine.scale, affine.shift)


def _split_batch_norms(state: State) -> int:
    unit = function_unit(state.chip)
    functions = unit.spec.functions if unit else {}
    if "BatchNormalization" in functions or not {"Mul", "Add"} <= set(functions):
        return 0
    nodes: list[Node] = []
    for node in state.graph.nodes:
        nodes += _split_batch_norm(state.graph, node)
    count = len(nodes) - len(state.graph.nodes)
    state.graph.nodes = nodes
    return count


def _split_batch_norm(graph: Graph, node: Node) -> list[Node]:
    from accelsim.compiler.graph.affine import affine_of

    affine = affine_of(graph, node, node.inputs[0], 1) if node.op == "BatchNormalization" else None
    if affine is None or affine.scale is None or affine.shift is None:
        return [node]
    out = graph.tensors[node.outputs[0]]
    shape = (out.shape[1], *[1] * (len(out.shape) - 2))
    names = []
    for what, make in (("scale", affine.scale), ("shift", affine.shift)):
        name = edit.fresh(graph, f"{node.name}.{what}")
        names.append(edit.derive_constant(graph, name, shape, partial(_column, make, shape), out.dtype))
    scaled = edit.add_tensor(graph, f"{out.name}.scaled", out.shape, out.dtype)
    return [
        Node(f"{node.name}.scale", "Mul", [node.inputs[0], names[0]], [scaled]),
        Node(node.name, "Add", [scaled, names[1]], [out.name]),
    ]


def _column(make: Vector, shape: tuple[int, ...]) -> Array:
    return np.asarray(make(), np.float32).reshape(shape)
