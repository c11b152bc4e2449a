"""Quantise: give every tensor the number format that it has on the chip."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from accelsim.compiler import edit
from accelsim.compiler.fold import channel_axis
from accelsim.compiler.scales import (
    INTEGER_FORMATS,
    IntegerFormat,
    bias_codes,
    keeps_scale,
    scales,
    weight_codes,
    weight_scale,
)
from accelsim.compiler.state import State
from accelsim.formats import integer
from accelsim.workload.graph import Array, Graph, Node, Quant, Tensor

HALF_FORMATS = frozenset({"fp16", "bf16"})
"""Float formats of 2 bytes that tensors may have in memory."""


def quantise(state: State) -> None:
    """Integer formats: see ``_Rewriter``. fp16, bf16: what a node writes, and its weights, have that format;
    inside a fused node, and its bias, stay fp32, so a result is rounded once, when it is written. Other
    formats change nothing.

    Graph structure, shapes and formats do not depend on ``options.values``; the scales do.
    """
    if not any(node.engine == "matrix" for node in state.graph.nodes):
        return
    if state.dtype in HALF_FORMATS:
        _narrow(state.graph, state.dtype)
        state.notes.append(f"quantise: tensors are {state.dtype} in every memory, fp32 inside a fused node")
    elif state.dtype in INTEGER_FORMATS:
        _Rewriter(
            state.graph, INTEGER_FORMATS[state.dtype], scales(state), state.options.values != "off"
        ).run()
        state.notes.append(_note(state))


def _note(state: State) -> str:
    sources = {True: "one random batch", False: "the calibration data"}
    source = sources[state.options.calibration is None]
    scales_from = (
        "unknown, because values are off" if state.options.values == "off" else f"max |x| of {source}"
    )
    return f"quantise: {state.dtype}, symmetric, weights per output channel; activation scales: {scales_from}"


def _narrow(graph: Graph, dtype: str) -> None:
    written = {
        *graph.inputs,
        *(name for node in graph.nodes for name in (*node.inputs, *node.writes) if name),
    }
    for name in sorted(written):
        if graph.tensors[name].dtype == "fp32":
            graph.tensors[name].dtype = dtype


@dataclass
class _Rewriter:
    """Rewrites a float graph to integers, node by node.

    Matrix nodes: integer operands, int32 sums, ``Bias`` in int32 with scale xs * ws; then either
    ``Requantize`` and ops on integers (when only those that keep their scale follow), or ``Dequantize``, the
    ops in fp32, ``Quantize``. A residual that an epilogue reads gets a ``Dequantize`` of its own in the
    epilogue, just before its reader. Other nodes: unchanged on integers when they keep the scale, else
    ``Dequantize`` in front and ``Quantize`` behind, inside the fused node. Inputs and outputs of the graph
    stay fp32: the host converts. Rules of arithmetic: ``formats.integer`` (ONNX QLinearConv; Jacob et al.,
    arXiv 1712.05877, section 2).
    """

    graph: Graph
    formats: IntegerFormat
    scales: dict[str, Array]
    known: bool
    nodes: list[Node] = field(default_factory=list)
    weights: dict[tuple[str, int | None], tuple[str, Array]] = field(default_factory=dict)

    def run(self) -> None:
        """Rewrite the whole graph."""
        ends = [self._leave(name) for name in self.graph.outputs if name in self.scales]
        starts = [self._enter(name) for name in self.graph.inputs if name in self.scales]
        for name, scale in self.scales.items():
            self._set(name, scale)
        for node in self.graph.nodes:
            self._rewrite(node)
        self.graph.nodes = [*starts, *self.nodes, *ends]
        edit.prune(self.graph)

    def _set(self, name: str, scale: Array) -> None:
        tensor = self.graph.tensors[name]
        tensor.dtype, tensor.quant = self.formats.activations, Quant(scale)

    def _enter(self, name: str) -> Node:
        """Host node that quantises a graph input; its readers now read integers."""
        codes = self._twin(name)
        edit.rewire(self.graph, name, codes)
        return Node(f"{name}.quantize", "Quantize", [name], [codes], self._to_integer(codes), [], "host")

    def _leave(self, name: str) -> Node:
        """Host node that dequantises a graph output; its producer and other readers now have integers."""
        codes = self._twin(name)
        for node in self.graph.nodes:
            edit.rename_output(node, name, codes)
        edit.rewire(self.graph, name, codes)
        return Node(f"{name}.dequantize", "Dequantize", [codes], [name], self._to_real(codes), [], "host")

    def _twin(self, name: str) -> str:
        codes = edit.add_tensor(
            self.graph, f"{name}.{self.formats.activations}", self.graph.tensors[name].shape
        )
        self.scales[codes] = self.scales.pop(name)
        return codes

    def _to_integer(self, name: str) -> dict[str, Any]:
        return {"dtype": self.formats.activations, "scale": self.scales[name], "zero_point": 0, "axis": None}

    def _to_real(self, name: str) -> dict[str, Any]:
        return {"scale": self.scales[name], "zero_point": 0, "axis": None}

    def _rewrite(self, node: Node) -> None:
        if node.engine == "matrix":
            self.nodes.append(self._matrix(node))
        elif not any(name in self.scales for name in (*node.reads, *node.writes)):
            self.nodes.append(node)
        elif all(keeps_scale(self.graph, part) for part in edit.parts(node)):
            self._on_integers(edit.parts(node), self.scales[node.writes[0]])
            self.nodes.append(node)
        else:
            self.nodes += self._around(node)

    def _on_integers(self, parts: list[Node], scale: Array) -> None:
        for part in parts:
            if part.op == "Clip":
                part.attrs = {key: self._code(bound, scale) for key, bound in part.attrs.items()}
            for name in part.outputs:
                self._set(name, scale)

    def _code(self, bound: float | None, scale: Array) -> int | None:
        if bound is None:
            return None
        return int(integer.quantise(np.asarray(bound), scale, self.formats.activations))

    def _around(self, node: Node) -> list[Node]:
        """One fused node: Dequantize, the parts in fp32, Quantize (separate nodes for several outputs)."""
        outputs = [name for name in node.writes if name in self.scales]
        renamed = {name: self._real_twin(name) for name in outputs}
        parts = self._real_parts(edit.parts(node), renamed)
        behind = [
            Node(f"{node.name}.quantize", "Quantize", [renamed[name]], [name], self._to_integer(name))
            for name in outputs
        ]
        single = len(node.writes) == 1
        first, *rest = [*parts, *behind] if single else parts
        fused = Node(
            node.name, first.op, first.inputs, first.outputs, first.attrs, rest, node.engine, node.note
        )
        for part in (*rest, *behind):
            part.engine = node.engine
        return [fused] if single else [fused, *behind]

    def _real_twin(self, name: str) -> str:
        return edit.add_tensor(self.graph, f"{name}.fp32", self.graph.tensors[name].shape)

    def _real_parts(self, parts: list[Node], renamed: dict[str, str]) -> list[Node]:
        """The parts renamed, and a Dequantize in front of the first reader of each integer tensor."""
        result: list[Node] = []
        for part in parts:
            for name in part.inputs:
                if name in self.scales and name not in renamed:
                    renamed[name] = self._real_twin(name)
                    label = f"{part.name}.dequantize.{name}"
                    result.append(Node(label, "Dequantize", [name], [renamed[name]], self._to_real(name)))
            part.inputs = [renamed.get(name, name) for name in part.inputs]
            part.outputs = [renamed.get(name, name) for name in part.outputs]
            result.append(part)
        return result

    def _matrix(self, node: Node) -> Node:
        x, w = node.inputs[:2]
        final, axis = node.writes[0], channel_axis(self.graph, node)
        codes, second = self._second_operand(node, w)
        per_channel = axis if second.ndim else None
        sum_scale = np.asarray(self.scales[x] * second, np.float32)
        product = self._sum(node.outputs[0], final)
        bias, rest = self._bias(node, product, final, sum_scale)
        total = bias[-1].outputs[0] if bias else product
        if all(keeps_scale(self.graph, part) for part in rest):
            multiplier = np.asarray(sum_scale / self.scales[final], np.float32)
            tail = self._requantised(node, total, rest, {"multiplier": multiplier, "axis": per_channel})
        else:
            tail = self._dequantised(node, total, rest, {"scale": sum_scale, "axis": per_channel})
        epilogue = [*bias, *tail]
        for part in epilogue:
            part.engine = "vector"
        return Node(node.name, node.op, [x, codes], [product], node.attrs, epilogue, "matrix", node.note)

    def _sum(self, name: str, final: str) -> str:
        """The tensor ``name`` inside a node as int32 sums; a new one when it is what the node writes."""
        if name == final:
            return edit.add_tensor(self.graph, f"{final}.sum", self.graph.tensors[final].shape, "int32")
        self.graph.tensors[name].dtype = "int32"
        return name

    def _bias(self, node: Node, total: str, final: str, sum_scale: Array) -> tuple[list[Node], list[Node]]:
        """The Bias in integers (or nothing), and the rest of the epilogue."""
        if not node.epilogue or node.epilogue[0].op != "Bias":
            return [], node.epilogue
        part, *rest = node.epilogue
        bias = self.graph.tensors[part.inputs[1]]
        if not bias.is_constant:
            return [], node.epilogue
        make = partial(bias_codes, bias, sum_scale)
        if self.known:
            make = partial(np.asarray, make())
        name = edit.derive_constant(self.graph, bias.name, bias.shape, make, "int32")
        self.graph.tensors[name].quant = Quant(sum_scale, 0, 0 if sum_scale.ndim else None)
        biased = self._sum(part.outputs[0], final)
        return [Node(part.name, "Bias", [total, name], [biased], part.attrs)], rest

    def _requantised(self, node: Node, total: str, rest: list[Node], attrs: dict[str, Any]) -> list[Node]:
        """Requantize, then the rest on integers."""
        final = node.writes[0]
        out = final
        if rest:
            old = rest[0].inputs[0]
            out = edit.add_tensor(self.graph, f"{node.name}.requantized", self.graph.tensors[old].shape)
            self._set(out, self.scales[final])
            rest[0].inputs = [out, *rest[0].inputs[1:]]
            self._on_integers(rest, self.scales[final])
        attrs = {**attrs, "dtype": self.formats.activations, "zero_point": 0}
        return [Node(f"{node.name}.requantize", "Requantize", [total], [out], attrs), *rest]

    def _dequantised(self, node: Node, total: str, rest: list[Node], attrs: dict[str, Any]) -> list[Node]:
        """Dequantize, the rest in fp32, Quantize."""
        final, before = node.writes[0], next(n for n in rest[0].inputs if n not in node.reads)
        real = edit.add_tensor(self.graph, f"{node.name}.dequantized", self.graph.tensors[before].shape)
        first = Node(f"{node.name}.dequantize", "Dequantize", [total], [real], {**attrs, "zero_point": 0})
        renamed = {before: real, final: self._real_twin(final)}
        parts = self._real_parts(rest, renamed)
        last = Node(f"{node.name}.quantize", "Quantize", [renamed[final]], [final], self._to_integer(final))
        return [first, *parts, last]

    def _second_operand(self, node: Node, name: str) -> tuple[str, Array]:
        """Integer weights and their scale per output channel, or a second activation and its scale."""
        tensor = self.graph.tensors[name]
        if not tensor.is_constant:
            return name, self.scales[name]
        axis = 0 if node.op == "Conv" else (len(tensor.shape) - 1 if len(tensor.shape) > 1 else None)
        if (name, axis) not in self.weights:
            self.weights[name, axis] = self._quantised_weights(tensor, axis)
        return self.weights[name, axis]

    def _quantised_weights(self, tensor: Tensor, axis: int | None) -> tuple[str, Array]:
        dtype, count = self.formats.weights, tensor.shape[axis] if axis is not None else 1
        shared = edit.uses(self.graph, tensor.name) > 1
        name = edit.fresh(self.graph, f"{tensor.name}.{dtype}") if shared else tensor.name
        if self.known:
            values = edit.peek(tensor)
            scale = weight_scale(values, self.formats, axis)
            new = Tensor(name, tensor.shape, dtype, integer.quantise(values, scale, dtype, axis=axis))
        else:
            scale = np.ones(() if axis is None else count, np.float32)
            new = Tensor(name, tensor.shape, dtype, source=partial(weight_codes, tensor, self.formats, axis))
        new.quant = Quant(scale, 0, axis)
        self.graph.tensors[name] = new
        return name, scale
