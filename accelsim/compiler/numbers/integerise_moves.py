"""CodedTensor instead of reals where an op only moves values: Dequantize goes down, repeated pairs vanish."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.formats import integer
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Quant, Tensor
from accelsim.workload.onnx.exporting.coded_graph import moves
from accelsim.workload.ops import base
from accelsim.workload.ops.values import INTEGER_OPERANDS

BOUNDS = frozenset({"Relu", "Clip"})
"""Ops that do not decrease: they exchange with rounding, with their bounds rounded too."""


@dataclass(frozen=True)
class CodedTensor:
    """A tensor of codes: real = scale * (code - zero); one value per slice of ``axis`` where that is not None."""

    name: str
    dtype: str
    scale: Array
    zero: int | Array
    axis: int | None

    @property
    def plain(self) -> bool:
        """Return whether one scale and one zero point hold for the whole tensor."""
        return self.axis is None and isinstance(self.zero, int)

    def same(self, other: CodedTensor) -> bool:
        """Return whether equal codes mean equal numbers."""
        return self.plain and other.plain and self.key == other.key

    @property
    def key(self) -> tuple[object, ...]:
        """Format, scale, zero point and axis, hashable."""
        return (self.dtype, self.scale.tobytes(), np.asarray(self.zero).tobytes(), self.axis)

    def attrs(self) -> dict[str, object]:
        """Attributes of the Dequantize of these codes."""
        return {"scale": self.scale, "zero_point": self.zero, "axis": self.axis}

    def rounded(self) -> dict[str, object]:
        """Attributes of the Quantize that gives such codes."""
        return {"dtype": self.dtype, **self.attrs()}

    def code(self, value: float) -> int:
        """The code nearest to a number."""
        return int(integer.quantise(np.asarray(value, np.float32), self.scale, self.dtype, self.zero))


def read_by(graph: Graph, node: Node) -> CodedTensor | None:
    """Return what a Dequantize reads; None for blocks and for formats that a matrix unit does not multiply."""
    dtype = graph.tensors[node.inputs[0]].dtype
    return _codes(node, node.inputs[0], dtype) if node.op == "Dequantize" else None


def made_by(node: Node) -> CodedTensor | None:
    """Return what a Quantize writes, with the limits of ``read_by``."""
    return _codes(node, node.outputs[0], node.attrs["dtype"]) if node.op == "Quantize" else None


def _codes(node: Node, name: str, dtype: str) -> CodedTensor | None:
    if node.attrs.get("block", 0) or dtype not in INTEGER_OPERANDS:
        return None
    zero, axis = node.attrs["zero_point"], node.attrs["axis"]
    scale = np.asarray(node.attrs["scale"], np.float32)
    if scale.size == 1:
        scale, axis = scale.reshape(()), None
    if not isinstance(zero, np.ndarray) or zero.size == 1:
        zero = int(zero)
    return CodedTensor(name, dtype, scale, zero, axis)


def data_of(node: Node) -> list[int]:
    """Slots of the inputs whose values come out again."""
    return list(range(len(node.inputs))) if node.op == "Concat" else [0]


class Moves:
    """Moves conversions past nodes that only move values, in place in a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self._outputs = graph, frozenset(graph.outputs)

    def free(self) -> None:
        """Remove each Clip that bounds codes to the range that they have anyway."""
        links, gone = edit.Links(self.graph), list[Node]()
        for node in self.graph.nodes:
            dtype = self.graph.tensors[node.inputs[0]].dtype if node.op == "Clip" else ""
            if dtype in INTEGER_OPERANDS and node.outputs[0] not in self._outputs:
                low, high = integer.code_range(dtype)
                least, most = (node.attrs[key] for key in ("min", "max"))
                if (least is None or least <= low) and (most is None or most >= high):
                    links.rewire(node.outputs[0], node.inputs[0])
                    gone.append(node)
        edit.drop(self.graph, gone)

    def merge(self) -> None:
        """One Quantize or Dequantize where several with the same parameters read the same tensor."""
        seen: dict[tuple[object, ...], str] = {}
        links, gone = edit.Links(self.graph), list[Node]()
        for node in self.graph.nodes:
            codes = read_by(self.graph, node) or made_by(node)
            if node.op not in ("Quantize", "Dequantize") or codes is None:
                continue
            key = (node.op, node.inputs[0], *codes.key)
            out = node.outputs[0]
            if key not in seen:
                seen[key] = out
            elif out not in self._outputs:
                links.rewire(out, seen[key])
                gone.append(node)
        edit.drop(self.graph, gone)

    def down(self) -> None:
        """Dequantize -> move becomes move -> Dequantize; moves of constants are made at once."""
        made = edit.producers(self.graph)
        nodes: list[Node] = []
        for node in self.graph.nodes:
            codes = self._common(node, made)
            new = self._constant(node, made) if codes is None else self._coded(node, codes)
            nodes += new
            made.update((name, part) for part in new for name in part.outputs)
        self.graph.nodes = nodes

    def _common(self, node: Node, made: dict[str, Node]) -> list[CodedTensor] | None:
        """The codes behind all data inputs of a move, when they have the same parameters."""
        if not moves(node) or node.op == "Identity":
            return None
        found: list[CodedTensor] = []
        for slot in data_of(node):
            producer = made.get(node.inputs[slot])
            codes = None if producer is None else read_by(self.graph, producer)
            if codes is None:
                return None
            found.append(codes)
        if len(found) == 1 and node.op == "Transpose":
            return found
        return found if all(found[0].same(codes) for codes in found) else None

    def _constant(self, node: Node, made: dict[str, Node]) -> list[Node]:
        """A move of constants that are dequantised otherwise is a float constant; any other node is left."""
        before = made.get(node.inputs[0]) if moves(node) and len(node.inputs) == len(node.outputs) == 1 else None
        if before is None or before.op != "Dequantize" or node.outputs[0] in self._outputs:
            return [node]
        source = self.graph.tensors[before.inputs[0]]
        if not source.is_constant:
            return [node]
        self.graph.tensors[node.outputs[0]].source = partial(_dequantised_move, node, before, source)
        return []

    def _coded(self, node: Node, codes: list[CodedTensor]) -> list[Node]:
        """The move on codes, and a Dequantize behind each output."""
        outs = [
            edit.add_tensor(self.graph, f"{out}.{codes[0].dtype}", self.graph.tensors[out].shape, codes[0].dtype)
            for out in node.outputs
        ]
        axis = codes[0].axis
        after = CodedTensor(
            "",
            codes[0].dtype,
            codes[0].scale,
            codes[0].zero,
            None if axis is None else list(node.attrs["perm"]).index(axis),
        )
        moved = on_codes(self.graph, node, [given.name for given in codes], outs, codes[0])
        if self.graph.tensors[codes[0].name].is_constant and len(outs) == len(codes) == len(moved.inputs) == 1:
            self.graph.tensors[outs[0]].source = partial(_moved, moved, self.graph.tensors[codes[0].name])
            new = []
        else:
            new = [moved]
        return new + [
            Node(f"{node.name}.dequantize", "Dequantize", [name], [out], after.attrs())
            for name, out in zip(outs, node.outputs, strict=True)
        ]


def on_codes(graph: Graph, node: Node, inputs: list[str], outputs: list[str], codes: CodedTensor) -> Node:
    """The op with codes as data: zeros and bounds become codes too."""
    given = list(node.inputs)
    for slot, name in zip(data_of(node), inputs, strict=True):
        given[slot] = name
    attrs, op = dict(node.attrs), node.op
    if op == "Pad":
        attrs["value"] = int(codes.zero)
    if op in BOUNDS and (op == "Clip" or codes.zero or not integer.code_range(codes.dtype)[0]):
        op, attrs = "Clip", bounds(node, codes)
    for name in outputs:
        tensor = graph.tensors[name]
        tensor.dtype = codes.dtype
        tensor.quant = Quant(codes.scale, int(codes.zero)) if codes.plain else None
    return Node(node.name, op, given, outputs, attrs)


def bounds(node: Node, codes: CodedTensor) -> dict[str, int | None]:
    """Attributes of the Clip on codes that a Relu or Clip of reals is; None where the format ends anyway."""
    low, high = integer.code_range(codes.dtype)
    least, most = (0.0, None) if node.op == "Relu" else (node.attrs["min"], node.attrs["max"])
    first = None if least is None else codes.code(least)
    last = None if most is None else codes.code(most)
    return {"min": None if first == low else first, "max": None if last == high else last}


def _moved(node: Node, codes: Tensor) -> Array:
    return base.get(node.op).kernel(node, [edit.peek(codes)])[0]


def _dequantised_move(node: Node, before: Node, codes: Tensor) -> Array:
    return base.get(node.op).kernel(node, [dequantised(before, codes)])[0]


def dequantised(node: Node, codes: Tensor) -> Array:
    """Return what a Dequantize node makes of constant codes."""
    return base.get("Dequantize").kernel(node, [edit.peek(codes)])[0]
