"""Canonical forms of arithmetic: products, elementwise ops, normalisations, reductions, quantisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from accelsim.workload.graph import Array, Node
from accelsim.workload.normalise import (
    Foreign,
    Scope,
    axes_of,
    axis_of,
    drop_unread,
    ints,
    make,
    optional,
    rule,
    scalar,
)
from accelsim.workload.onnx_read import FORMATS, RawNode

_PLAIN = (
    "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Neg", "Abs", "Reciprocal", "HardSwish",
    "Softplus", "Softsign", "Mish", "Sign", "Floor", "Ceil", "Round", "Sin", "Cos", "Not", "PRelu", "Add",
    "Sub", "Mul", "Div", "Pow", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or",
    "Xor", "Min", "Max", "Sum", "Mean", "Where", "Identity",
)  # fmt: skip

DEFAULTS: dict[str, dict[str, Any]] = {
    **{op: {} for op in _PLAIN},
    "LeakyRelu": {"alpha": 0.01},
    "Elu": {"alpha": 1.0},
    "Selu": {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "Gelu": {"approximate": "none"},
    "LRN": {"size": 1, "alpha": 1e-4, "beta": 0.75, "bias": 1.0},
    "InstanceNormalization": {"epsilon": 1e-5},
    "GroupNormalization": {"num_groups": 1, "epsilon": 1e-5},
    "Gemm": {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0},
}
"""Ops whose canonical attributes are those of ONNX, with the defaults of the ONNX operator specification."""


@rule(*DEFAULTS)
def same(raw: RawNode, scope: Scope) -> Node:
    """The op as it is, with its default attributes filled in."""
    defaults = DEFAULTS[raw.op]
    return make(raw, **{name: raw.attrs.get(name, value) for name, value in defaults.items()})


@rule("MatMul")
def matmul(raw: RawNode, scope: Scope) -> Node:
    """MatMul without zero points."""
    return make(raw, a_zero_point=0, b_zero_point=0)


@rule("MatMulInteger")
def matmul_integer(raw: RawNode, scope: Scope) -> Node:
    """MatMulInteger with constant scalar zero points is the canonical MatMul."""
    a, b = (int(scalar(raw, scope, index) or 0) for index in (2, 3))
    return make(raw, 2, "MatMul", a_zero_point=a, b_zero_point=b)


@rule("Swish")
def swish(raw: RawNode, scope: Scope) -> Node:
    """Swish with alpha 1 is Silu."""
    if raw.attrs.get("alpha", 1.0) != 1.0:
        raise Foreign
    return make(raw, op="Silu")


@rule("Clip")
def clip(raw: RawNode, scope: Scope) -> Node:
    """Clip: bounds are attributes before opset 11, inputs from there on."""
    if scope.opset < 11:
        return make(raw, min=raw.attrs.get("min"), max=raw.attrs.get("max"))
    return make(raw, 1, min=scalar(raw, scope, 1), max=scalar(raw, scope, 2))


@rule("Cast")
def cast(raw: RawNode, scope: Scope) -> Node:
    """Cast to a format by name."""
    if raw.attrs["to"] not in FORMATS:
        raise Foreign
    return make(raw, to=FORMATS[raw.attrs["to"]])


@rule("CastLike")
def cast_like(raw: RawNode, scope: Scope) -> Node:
    """CastLike: the format of the second input is known."""
    return make(raw, 1, "Cast", to=scope.tensors[raw.inputs[1]].dtype)


@rule("Dropout")
def dropout(raw: RawNode, scope: Scope) -> Node:
    """Dropout of inference: the identity. Its mask, or training mode, has no canonical form."""
    if scalar(raw, scope, 2):
        raise Foreign
    return make(drop_unread(raw, scope), 1)


@rule("BatchNormalization")
def batch_normalization(raw: RawNode, scope: Scope) -> Node:
    """BatchNormalization of inference; training mode and per-activation statistics have no canonical form."""
    if raw.attrs.get("training_mode", 0) or not raw.attrs.get("spatial", 1):
        raise Foreign
    return make(drop_unread(raw, scope), epsilon=raw.attrs.get("epsilon", 1e-5))


@rule("LayerNormalization", "RMSNormalization")
def row_normalization(raw: RawNode, scope: Scope) -> Node:
    """Normalisation of all axes from ``axis`` on."""
    axis = axis_of(raw.attrs.get("axis", -1), scope.rank(raw.inputs[0]))
    return make(drop_unread(raw, scope), axis=axis, epsilon=raw.attrs.get("epsilon", 1e-5))


@rule("Softmax", "LogSoftmax")
def softmax(raw: RawNode, scope: Scope) -> Node:
    """Softmax: over one axis from opset 13 on, over all axes from ``axis`` on before."""
    rank = scope.rank(raw.inputs[0])
    if scope.opset >= 13:
        return make(raw, axis=axis_of(raw.attrs.get("axis", -1), rank))
    axis = axis_of(raw.attrs.get("axis", 1), rank)
    return make(raw, axis=axis) if axis == rank - 1 else make(raw, flatten_from=axis)


@rule(
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
)
def reduce(raw: RawNode, scope: Scope) -> Node:
    """Reductions: axes are an attribute before opset 18 (ReduceSum: 13), an input from there on."""
    rank = scope.rank(raw.inputs[0])
    axes = ints(raw, scope, 1, "axes")
    if not axes and raw.attrs.get("noop_with_empty_axes", 0):
        return make(raw, 1, "Identity")
    axes = sorted(axes_of(axes or range(rank), rank))
    if not axes:
        raise Foreign
    return make(raw, 1, axes=axes, keepdims=raw.attrs.get("keepdims", 1))


@rule("ArgMax", "ArgMin")
def arg(raw: RawNode, scope: Scope) -> Node:
    """Index of the extreme value along one axis."""
    axis = axis_of(raw.attrs.get("axis", 0), scope.rank(raw.inputs[0]))
    last = raw.attrs.get("select_last_index", 0)
    return make(raw, axis=axis, keepdims=raw.attrs.get("keepdims", 1), select_last_index=last)


_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")


@rule("QuantizeLinear")
def quantize(raw: RawNode, scope: Scope) -> Node:
    """QuantizeLinear with constant parameters, per tensor or per slice, to 8- or 16-bit integers."""
    point = optional(raw, 2)
    stated = raw.attrs.get("output_dtype", 0)
    dtype = scope.tensors[point].dtype if point else FORMATS.get(stated or 2, "")
    if dtype not in _INTEGERS[:4]:
        raise Foreign
    return make(raw, 1, "Quantize", dtype=dtype, **_quantisation(raw, scope))


@rule("DequantizeLinear")
def dequantize(raw: RawNode, scope: Scope) -> Node:
    """DequantizeLinear with constant float32 parameters, per tensor or per slice of an axis."""
    if scope.tensors[raw.inputs[0]].dtype not in _INTEGERS or raw.attrs.get("output_dtype", 1) not in (0, 1):
        raise Foreign
    return make(raw, 1, "Dequantize", **_quantisation(raw, scope))


def _quantisation(raw: RawNode, scope: Scope) -> dict[str, Any]:
    scale = scope.constant(raw.inputs[1])
    if scale is None or raw.attrs.get("block_size", 0) or scope.tensors[raw.inputs[1]].dtype != "fp32":
        raise Foreign
    zero = scope.constant(optional(raw, 2))
    if zero is None and optional(raw, 2):
        raise Foreign
    if scale.size == 1:
        point = 0 if zero is None else int(zero.reshape(-1)[0])
        return {"scale": scale.reshape(()).astype(np.float32), "zero_point": point, "axis": None}
    axis = axis_of(raw.attrs.get("axis", 1), scope.rank(raw.inputs[0]))
    return {"scale": scale.astype(np.float32), "zero_point": _one_if_equal(zero), "axis": axis}


def _one_if_equal(zero: Array | None) -> int | Array:
    """The zero point as one integer where all slices have the same."""
    if zero is None:
        return 0
    return int(zero[0]) if (zero == zero[0]).all() else zero


@rule("QLinearMatMul")
def qlinear_matmul(raw: RawNode, scope: Scope) -> list[Node]:
    """QLinearMatMul with scalar parameters: MatMul to 32 bits, then Requantize."""
    a_point, b_point = (int(scalar(raw, scope, index) or 0) for index in (2, 5))
    total = f"{raw.outputs[0]}.sum"
    product = Node(f"{raw.name}.product", "MatMul", [raw.inputs[0], raw.inputs[3]], [total],
                   {"a_zero_point": a_point, "b_zero_point": b_point})  # fmt: skip
    multiplier = requantisation(scope, raw.inputs[1], raw.inputs[4], raw.inputs[6])
    if multiplier.ndim:
        raise Foreign
    return [product, requantize(raw, scope, total, multiplier, 7, None)]


def requantisation(scope: Scope, a_scale: str, b_scale: str, y_scale: str) -> Array:
    """float32 a_scale * b_scale / y_scale, 0-d where all three are scalars; Foreign unless constant."""
    scales = [scope.constant(name) for name in (a_scale, b_scale, y_scale)]
    if any(scale is None for scale in scales):
        raise Foreign
    a, b, y = (np.asarray(scale, np.float32) for scale in scales)
    if a.size != 1 or y.size != 1:
        raise Foreign
    product = a.reshape(()) * (b.reshape(()) if b.size == 1 else b) / y.reshape(())
    return np.asarray(product, np.float32)


def requantize(
    raw: RawNode, scope: Scope, total: str, multiplier: Array, point: int, axis: int | None
) -> Node:
    """The Requantize node from the 32-bit sum ``total`` to the output of ``raw``; ``point``: its zero point's
    input.
    """
    dtype = scope.tensors[raw.inputs[point]].dtype
    if dtype not in _INTEGERS[:4]:
        raise Foreign
    zero = int(scalar(raw, scope, point) or 0)
    attrs = {"dtype": dtype, "multiplier": multiplier, "zero_point": zero, "axis": axis}
    return Node(raw.name, "Requantize", [total], [raw.outputs[0]], attrs)
