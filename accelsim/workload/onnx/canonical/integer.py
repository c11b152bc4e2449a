"""Canonical forms of products of integers: QLinearConv, QLinearMatMul, ConvInteger, MatMulInteger."""

from __future__ import annotations

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.onnx.canonical.quantise import check_scale, is_whole
from accelsim.workload.onnx.canonical.rules import Foreign, Scope, given, optional, rule
from accelsim.workload.onnx.canonical.shape import window_attrs
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.ops.values import Filled

_SUMS = "int32"


@rule("QLinearMatMul")
def qlinear_matmul(raw: RawNode, scope: Scope) -> list[Node]:
    """QLinearMatMul: MatMul to 32 bits, then Requantize; parameters per tensor, per row of A, per column of B."""
    a, b = raw.inputs[0], raw.inputs[3]
    total = f"{raw.outputs[0]}.sum"
    attrs = {"a_zero_point": _rows(scope, raw, 2, a), "b_zero_point": columns(scope, raw, 5, scope.shape(b))}
    product = Node(f"{raw.name}.product", "MatMul", [a, b], [total], attrs)
    scales = [_rows(scope, raw, 1, a), columns(scope, raw, 4, scope.shape(b)), _rows(scope, raw, 6, a)]
    for index, scale in zip((1, 4, 6), scales, strict=True):
        check_scale(np.asarray(scale), raw, index)
    left, right, out = (np.asarray(scale, np.float32) for scale in scales)
    multiplier = np.asarray(left * right / out, np.float32)
    rank = max(scope.rank(a), scope.rank(b))
    return [product, _requantize(raw, scope, total, *_along_one(multiplier, rank), _rows(scope, raw, 7, a))]


@rule("QLinearConv")
def qlinear_conv(raw: RawNode, scope: Scope) -> list[Node]:
    """QLinearConv: Conv to 32 bits, then Requantize, per output channel where the weight parameters are."""
    x, w, bias = raw.inputs[0], raw.inputs[3], optional(raw, 8)
    attrs = window_attrs(raw, scope, list(scope.shape(w)[2:])) | {"group": raw.attrs.get("group", 1)}
    attrs |= {"a_zero_point": single(scope, raw, 2), "b_zero_point": _channels(scope, raw, 5, w)}
    total = f"{raw.outputs[0]}.sum"
    product = Node(f"{raw.name}.product", "Conv", [x, w, *([bias] if bias else [])], [total], attrs)
    scales = [_known(scope, raw, index) for index in (1, 4, 6)]
    for index, scale in zip((1, 4, 6), scales, strict=True):
        check_scale(scale, raw, index)
    xs, ws, ys = (np.asarray(scale, np.float32).reshape(-1) for scale in scales)
    if xs.size != 1 or ys.size != 1:
        raise Foreign
    multiplier = np.asarray(xs * ws / ys, np.float32)
    per_channel = ws.size > 1
    multiplier = multiplier if per_channel else multiplier.reshape(())
    return [product, _requantize(raw, scope, total, multiplier, 1 if per_channel else None, single(scope, raw, 7))]


def _requantize(raw: RawNode, scope: Scope, total: str, multiplier: Array, axis: int | None, zero: int | Array) -> Node:
    """The Requantize node from the 32-bit sum ``total`` to the output of ``raw``."""
    dtype = scope.tensors[raw.inputs[7]].dtype
    if not is_whole(dtype) or not isinstance(zero, int):
        raise Foreign
    attrs = {"dtype": dtype, "multiplier": multiplier, "zero_point": zero, "axis": axis}
    return Node(raw.name, "Requantize", [total], [raw.outputs[0]], attrs)


def _along_one(values: Array, rank: int) -> tuple[Array, int | None]:
    """Broadcasting values as (0-d, None), (one per slice, axis) where only one axis matters, or (all, None)."""
    if values.size == 1:
        return values.reshape(()), None
    long = [axis - values.ndim + rank for axis, size in enumerate(values.shape) if size > 1]
    return (values.reshape(-1), long[0]) if len(long) == 1 else (values, None)


def _known(scope: Scope, raw: RawNode, index: int) -> Array:
    """A parameter that must be a constant: zero when it is absent, Foreign when only a run knows it."""
    values = given(raw, scope, index)
    return np.zeros((), np.int32) if values is None else values


def _number(values: Array) -> int | Array:
    """A parameter that is the same everywhere as one number of its type, others as they are."""
    first = values.reshape(-1)[:1]
    same = values.size > 0 and bool((values == first).all())
    if not same:
        return values
    return int(first[0]) if values.dtype.kind in "iu" else np.asarray(first[0])


def single(scope: Scope, raw: RawNode, index: int) -> int:
    """A constant zero point that is one number; 0 when it is absent, else Foreign."""
    values = _known(scope, raw, index)
    if values.size != 1:
        raise Foreign
    return int(values.reshape(-1)[0])


def _channels(scope: Scope, raw: RawNode, index: int, weights: str) -> int | Array:
    """Zero points of convolution weights: one, or one per output channel that broadcasts to [Co, C/g, *k]."""
    values = _known(scope, raw, index)
    return _number(values.reshape(-1, *[1] * (scope.rank(weights) - 1)) if values.size > 1 else values)


def _rows(scope: Scope, raw: RawNode, index: int, operand: str) -> int | Array:
    """A parameter of the left operand [.., M, K], or of the result: one, or one per row, broadcasting."""
    values, shape = _known(scope, raw, index), scope.shape(operand)
    if values.size == 1:
        return _number(values)
    if values.ndim == 1 and len(shape) == 2 and values.shape == (shape[0],):
        return _number(values.reshape(-1, 1))
    if values.shape == (*shape[:-1], 1):
        return _number(values)
    raise Foreign


def columns(scope: Scope, raw: RawNode, index: int, shape: tuple[int, ...]) -> int | Array:
    """A parameter of a right operand of ``shape`` [.., K, N]: one, or one per column, broadcasting; else Foreign."""
    values = _known(scope, raw, index)
    if values.size == 1:
        return _number(values)
    if values.ndim == 1 and len(shape) == 2 and values.shape == (shape[1],):
        return _number(values)
    if len(shape) > 1 and values.shape == (*shape[:-2], 1, shape[-1]):
        return _number(values)
    raise Foreign


@rule("MatMulInteger")
def matmul_integer(raw: RawNode, scope: Scope) -> list[Node]:
    """MatMulInteger: the canonical MatMul; zero points that only a run knows become corrections of the sums."""
    a, b = raw.inputs[:2]
    left, right = (_unknown(scope, raw, index) for index in (2, 3))
    attrs = {
        "a_zero_point": 0 if left else _rows(scope, raw, 2, a),
        "b_zero_point": 0 if right else columns(scope, raw, 3, scope.shape(b)),
    }
    product = Node(raw.name, "MatMul", [a, b], list(raw.outputs), attrs)
    return _corrected(raw, scope, product, left, right) if left or right else [product]


def _unknown(scope: Scope, raw: RawNode, index: int) -> str:
    """The name of a zero point that is computed in the run, else ''; Foreign unless it is one number."""
    name = optional(raw, index)
    if not name or scope.tensors[name].is_constant:
        return ""
    scope.constant(name)  # the trace notes what a run alone knows
    if scope.tensors[name].elements != 1:
        raise Foreign
    return name


def _corrected(raw: RawNode, scope: Scope, product: Node, left: str, right: str) -> list[Node]:
    """sum((a - za)(b - zb)) = sum(a b) - za * columns(b) - zb * (rows(a) - K za), in 32-bit integers.

    A matrix unit computes sum(a b) on the codes as they are. Zero points that are known stay in the product.
    """
    a, b = raw.inputs[:2]
    if scope.rank(a) < 2 or scope.rank(b) < 2:
        raise Foreign
    steps = _Steps(raw)
    total = steps.name("product")
    product.outputs = [total]
    nodes = [product]
    if left:
        shifted = steps.shifted(b, product.attrs["b_zero_point"], scope)
        sums = steps.sum(shifted, scope.rank(b) - 2)
        total = steps.subtract(total, steps.times(sums, steps.wide(left)), last=not right)
    if right:
        shifted = steps.shifted(a, product.attrs["a_zero_point"], scope)
        if left:
            shifted = steps.subtract(shifted, steps.wide(left))
        sums = steps.sum(shifted, scope.rank(a) - 1)
        steps.subtract(total, steps.times(sums, steps.wide(right)), last=True)
    return nodes + steps.nodes


class _Steps:
    """Writes the 32-bit nodes after a product with zero points of the run."""

    def __init__(self, raw: RawNode) -> None:
        self.raw, self.nodes = raw, list[Node]()
        self._wide: dict[str, str] = {}

    def name(self, role: str) -> str:
        """Return a name for a tensor between the nodes."""
        return f"{self.raw.outputs[0]}.{role}{len(self.nodes)}"

    def _add(self, op: str, inputs: list[str], role: str, out: str = "", **attrs: object) -> str:
        out = out or self.name(role)
        self.nodes.append(Node(f"{self.raw.name}.{role}{len(self.nodes)}", op, inputs, [out], attrs))
        return out

    def wide(self, name: str) -> str:
        """Cast the tensor to int32, once."""
        if name not in self._wide:
            self._wide[name] = self._add("Cast", [name], "wide", to=_SUMS)
        return self._wide[name]

    def shifted(self, name: str, zero: int | Array, scope: Scope) -> str:
        """Cast the tensor to int32 and subtract a constant zero point."""
        if isinstance(zero, int) and not zero:
            return self.wide(name)
        values = np.asarray(zero, np.int32)
        constant = f"{self.raw.outputs[0]}.{name}.zero"
        scope.tensors[constant] = Tensor(constant, values.shape, _SUMS, values)
        return self.subtract(self.wide(name), constant)

    def sum(self, name: str, axis: int) -> str:
        """Add up along an axis, which stays with size 1."""
        return self._add("ReduceSum", [name], "sum", axes=[axis], keepdims=1)

    def times(self, name: str, factor: str) -> str:
        """Multiply two tensors element by element."""
        return self._add("Mul", [name, factor], "times")

    def subtract(self, name: str, other: str, last: bool = False) -> str:
        """Difference of two tensors; the ``last`` one is the result of the ONNX node."""
        return self._add("Sub", [name, other], "less", self.raw.outputs[0] if last else "")


@rule("ConvInteger")
def conv_integer(raw: RawNode, scope: Scope) -> list[Node]:
    """ConvInteger: the canonical Conv; an input zero point that only a run knows corrects the sums.

    sum((x - zx) w) = sum(x w) - zx * sum(w), where sum(w) over the taps inside the image is the convolution of ones.
    """
    w = raw.inputs[1]
    window = window_attrs(raw, scope, list(scope.shape(w)[2:]))
    attrs = window | {"group": raw.attrs.get("group", 1), "a_zero_point": 0}
    attrs["b_zero_point"] = _channels(scope, raw, 3, w)
    zero = _unknown(scope, raw, 2)
    if not zero:
        attrs["a_zero_point"] = single(scope, raw, 2)
        return [Node(raw.name, "Conv", list(raw.inputs[:2]), list(raw.outputs), attrs)]
    steps = _Steps(raw)
    ones, sums, product = (steps.name(role) for role in ("ones", "weights", "product"))
    scope.tensors[ones] = _ones(ones, scope.tensors[raw.inputs[0]], window)
    nodes = [
        Node(f"{raw.name}.product", "Conv", [raw.inputs[0], w], [product], attrs),
        Node(f"{raw.name}.weights", "Conv", [ones, w], [sums], dict(attrs)),
    ]
    steps.subtract(product, steps.times(sums, steps.wide(zero)), last=True)
    return nodes + steps.nodes


def _ones(name: str, x: Tensor, window: dict[str, list[int]]) -> Tensor:
    """An image of ones like ``x``; without padding all positions see the same, so that one of them will do."""
    size = x.shape[2:]
    if not any(window["pads"]):
        taps = zip(window["kernel_shape"], window["dilations"], strict=True)
        size = tuple((kernel - 1) * dilation + 1 for kernel, dilation in taps)
    shape = (1, x.shape[1], *size)
    return Tensor(name, shape, x.dtype, source=Filled(shape, 1, x.dtype))
