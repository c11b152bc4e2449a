"""Products of a quantised model that can be computed in integers: operands, bias, and sums that fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.compiler.graph.wiring import Wiring
from accelsim.compiler.numbers.integerise_moves import CodedTensor, dequantised, read_by
from accelsim.formats import integer
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor

PRODUCTS = frozenset({"Conv", "MatMul", "Gemm"})
SUM_LIMIT = 2**31 - 1
"""Largest 32-bit sum."""


@dataclass(frozen=True)
class Product:
    """A matrix node between Dequantize nodes; ``add`` is the node behind it that adds its bias, if any."""

    node: Node
    a: CodedTensor
    b: CodedTensor
    bias: str
    add: Node | None

    @property
    def real(self) -> str:
        """Name of the tensor of real results, after the bias."""
        return (self.add or self.node).outputs[0]

    @property
    def scale(self) -> Array:
        """Scale of the sums, float32."""
        return np.asarray(self.a.scale * self.b.scale, np.float32)


class Matcher:
    """Finds products in a graph; ``wide`` collects the names of those whose sums could leave int32."""

    def __init__(self, wires: Wiring, wide: dict[str, None] | None = None) -> None:
        self.graph, self.wires, self.wide = wires.graph, wires, dict(wide or {})

    def match_add(self, node: Node) -> Product | None:
        """The product whose bias this node adds, or None."""
        if node.op not in ("Add", "Bias"):
            return None
        made = [maker for name in node.inputs if (maker := self.wires.maker(name)) is not None]
        products = [self.match(maker) for maker in made]
        return next((found for found in products if found is not None and found.add is node), None)

    def _codes(self, name: str) -> CodedTensor | None:
        node = self.wires.maker(name)
        return None if node is None else read_by(self.graph, node)

    def match(self, node: Node) -> Product | None:
        """The product that can be computed in integers, or None."""
        if node.op not in PRODUCTS or not self._plain(node):
            return None
        a, b = (self._codes(name) for name in node.inputs[:2])
        if a is None or b is None or not a.plain or self.graph.tensors[a.name].is_constant:
            return None
        if not self._right(node, b):
            return None
        bias, add = node.inputs[2] if len(node.inputs) > 2 else "", None
        if bias and not self._is_bias(node, bias):
            return None
        if not bias:
            bias, add = self._added(node)
        product = Product(node, a, b, bias, add)
        return product if self._fits(product) else None

    def _plain(self, node: Node) -> bool:
        if node.op == "Gemm":
            attrs = node.attrs
            with_bias = len(node.inputs) > 2 and bool(node.inputs[2])
            return attrs["alpha"] == 1 and not attrs["transA"] and (attrs["beta"] == 1 or not with_bias)
        return all(len(self.graph.tensors[name].shape) > 1 for name in node.inputs[:2])

    def _right(self, node: Node, b: CodedTensor) -> bool:
        """Return whether the scales of the second operand are per tensor, or per output channel."""
        tensor = self.graph.tensors[b.name]
        if not tensor.is_constant:
            return b.plain and node.op != "Conv"
        return b.axis is None if b.axis is None else b.axis == channels_of(node, tensor)

    def _is_bias(self, node: Node, name: str) -> bool:
        """Return whether the tensor is a constant with one value per output channel (or one for all)."""
        tensor = self.graph.tensors[self.source(name)]
        channels, axis = self.channels(node)
        if not tensor.is_constant or tensor.elements not in (1, channels):
            return False
        rank = len(self.graph.tensors[node.outputs[0]].shape)
        if node.op == "Conv" and len(tensor.shape) == 1 and name in node.inputs:
            return True
        full = (1,) * (rank - len(tensor.shape)) + tensor.shape
        return tensor.elements == 1 or (len(full) == rank and full[axis] == channels)

    def source(self, name: str) -> str:
        """The codes behind a constant that is dequantised, else the name itself."""
        node = self.wires.maker(name)
        constant = node is not None and node.op == "Dequantize" and self.graph.tensors[node.inputs[0]].is_constant
        return node.inputs[0] if node is not None and constant else name

    def channels(self, node: Node) -> tuple[int, int]:
        """Number of output channels, and their axis in the result."""
        shape = self.graph.tensors[node.outputs[0]].shape
        axis = 1 if node.op == "Conv" else len(shape) - 1
        return shape[axis], axis

    def _added(self, node: Node) -> tuple[str, Node | None]:
        """The constant that the only reader of a product adds to its channels, and that reader."""
        out = node.outputs[0]
        reader = self.wires.only_reader(out)
        if reader is None or reader.op not in ("Add", "Bias"):
            return "", None
        other = next(name for name in reader.inputs if name != out)
        if reader.op == "Bias":
            return (other, reader) if reader.attrs["axis"] == self.channels(node)[1] else ("", None)
        same = self.graph.tensors[reader.outputs[0]].shape == self.graph.tensors[out].shape
        return (other, reader) if same and self._is_bias(node, other) else ("", None)

    def _fits(self, product: Product) -> bool:
        """Return whether no sum can leave int32: first by the formats alone, then by the weights."""
        if product.node.name in self.wide:
            return False
        b = self.graph.tensors[product.b.name]
        axis = channels_of(product.node, b)
        others = tuple(index for index in range(len(b.shape)) if index != axis)
        depth = b.elements // b.shape[axis] if b.is_constant else b.shape[-1 if is_turned(product.node) else -2]
        bias = 0
        if product.bias:
            bias = int(np.max(np.abs(self.bias_codes(product).astype(np.int64)), initial=0))
        peak = _peak(product.a)
        if peak * _peak(product.b) * depth + bias <= SUM_LIMIT:
            return True
        if b.is_constant:
            moved = edit.peek(b).astype(np.int64) - integer.along(product.b.zero, len(b.shape), axis)
            if peak * int(np.max(np.sum(np.abs(moved), axis=others))) + bias <= SUM_LIMIT:
                return True
        self.wide[product.node.name] = None
        return False

    def bias_codes(self, product: Product) -> Array:
        """The bias as int32 with the scale of the sums, one per channel; as the file has it when it fits."""
        node = self.wires.maker(product.bias)
        scale, channels = product.scale, self.channels(product.node)[0]
        if node is None or node.op != "Dequantize":
            values = edit.peek(self.graph.tensors[product.bias])
            return _rounded(values, scale, channels)
        codes, given = self.graph.tensors[node.inputs[0]], np.asarray(node.attrs["scale"], np.float32)
        equal = given.size in (1, scale.size) and bool(np.all(given.reshape(-1) == scale.reshape(-1)))
        if equal and not np.any(node.attrs["zero_point"]) and codes.dtype == "int32":
            return np.ascontiguousarray(np.broadcast_to(edit.peek(codes).reshape(-1), (channels,)))
        return _rounded(dequantised(node, codes), scale, channels)


def is_turned(node: Node) -> bool:
    """Return whether the second operand is read transposed."""
    return node.op == "Gemm" and bool(node.attrs["transB"])


def channels_of(node: Node, weights: Tensor) -> int:
    """Axis of the output channels in the second operand."""
    return 0 if node.op == "Conv" or is_turned(node) else len(weights.shape) - 1


def _peak(codes: CodedTensor) -> int:
    """Largest |code - zero point|."""
    low, high = integer.code_range(codes.dtype)
    zero = np.asarray(codes.zero, np.int64)
    return int(max(np.max(zero - low), np.max(high - zero)))


def _rounded(values: Array, scale: Array, channels: int) -> Array:
    """rint(b / scale) as int32, in float64."""
    flat = np.broadcast_to(values.reshape(-1).astype(np.float64), (channels,))
    return np.clip(np.rint(flat / scale.astype(np.float64)), -SUM_LIMIT - 1, SUM_LIMIT).astype(np.int32)
