"""Canonical forms of the quantised ops of domain com.microsoft, which ONNX Runtime's quantiser writes.

Their arithmetic is that of the float op between DequantizeLinear and QuantizeLinear; ONNX Runtime computes some of
them by tables or with another order of factors, so that a code may differ by one (docs/ContribOperators.md there).
"""

from __future__ import annotations

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Attributes, Node, Tensor
from accelsim.workload.onnx.canonical.integer import columns, single
from accelsim.workload.onnx.canonical.quantise import check_scale, is_whole
from accelsim.workload.onnx.canonical.rules import Foreign, Scope, canonical, optional, rule
from accelsim.workload.onnx.importing.read import RawNode

DOMAIN = "com.microsoft"

Given = tuple[str, str, str]
"""Names of codes, their scale and their zero point ('' where absent)."""


def _between(
    raw: RawNode, scope: Scope, op: str, operands: list[Given], scale: str, zero: str, **attrs: object
) -> list[Node]:
    """Dequantize the operands, ``op``, Quantize."""
    nodes: list[Node] = []
    names: list[str] = []
    for index, (codes, its_scale, its_zero) in enumerate(operands):
        name = f"{raw.outputs[0]}.real{index}"
        inputs = [codes, its_scale, *([its_zero] if its_zero else [])]
        nodes += canonical(RawNode(f"{raw.name}.real{index}", "DequantizeLinear", "", inputs, [name]), scope)
        scope.tensors[name] = Tensor(name, scope.shape(codes))
        names.append(name)
    result = f"{raw.outputs[0]}.real"
    nodes += canonical(RawNode(raw.name, op, "", names, [result], attrs), scope)
    scope.tensors[result] = Tensor(result, ())
    inputs = [result, scale, *([zero] if zero else [])]
    last = RawNode(f"{raw.name}.codes", "QuantizeLinear", "", inputs, [raw.outputs[0]])
    return nodes + canonical(last, scope)


def _triple(raw: RawNode, first: int) -> Given:
    return raw.inputs[first], raw.inputs[first + 1], optional(raw, first + 2)


@rule(f"{DOMAIN}::QLinearAdd", f"{DOMAIN}::QLinearMul")
def qlinear_binary(raw: RawNode, scope: Scope) -> list[Node]:
    """Sum or product of two tensors of codes."""
    operands = [_triple(raw, 0), _triple(raw, 3)]
    return _between(raw, scope, raw.op.removeprefix("QLinear"), operands, raw.inputs[6], optional(raw, 7))


@rule(*(f"{DOMAIN}::QLinear{op}" for op in ("Sigmoid", "LeakyRelu", "GlobalAveragePool", "AveragePool", "Softmax")))
def qlinear_unary(raw: RawNode, scope: Scope) -> list[Node]:
    """A function of one tensor of codes."""
    attrs = {key: value for key, value in raw.attrs.items() if key not in ("channels_last", "opset")}
    if raw.attrs.get("channels_last", 0):
        raise Foreign
    op = raw.op.removeprefix("QLinear")
    return _between(raw, scope, op, [_triple(raw, 0)], raw.inputs[3], optional(raw, 4), **attrs)


@rule(f"{DOMAIN}::QLinearConcat")
def qlinear_concat(raw: RawNode, scope: Scope) -> list[Node]:
    """Tensors of codes of several scales as one."""
    operands = [_triple(raw, first) for first in range(2, len(raw.inputs), 3)]
    return _between(raw, scope, "Concat", operands, raw.inputs[0], raw.inputs[1], **raw.attrs)


@rule(f"{DOMAIN}::QGemm")
def q_gemm(raw: RawNode, scope: Scope) -> list[Node]:
    """Gemm of codes with a 32-bit bias, then Requantize, or Dequantize where no output scale is given."""
    attrs: Attributes = {"alpha": 1.0, "beta": 1.0, **{key: int(raw.attrs.get(key, 0)) for key in ("transA", "transB")}}
    zero = columns(scope, raw, 5, _untransposed(raw, scope))
    attrs["a_zero_point"] = single(scope, raw, 2)
    attrs["b_zero_point"] = zero.reshape(-1, 1) if isinstance(zero, np.ndarray) and attrs["transB"] else zero
    total, bias = f"{raw.outputs[0]}.sum", optional(raw, 6)
    inputs = [raw.inputs[0], raw.inputs[3], *([bias] if bias else [])]
    product = Node(f"{raw.name}.product", "Gemm", inputs, [total], attrs)
    scale = np.float32(raw.attrs.get("alpha", 1.0)) * _scale(raw, scope, 1) * _scale(raw, scope, 4)
    axis = 1 if scale.size > 1 else None
    if not optional(raw, 7):
        real = {"scale": _shaped(scale), "zero_point": 0, "axis": axis}
        return [product, Node(raw.name, "Dequantize", [total], list(raw.outputs), real)]
    dtype = scope.tensors[raw.inputs[8]].dtype if optional(raw, 8) else "uint8"
    if not is_whole(dtype):
        raise Foreign
    multiplier = _shaped(scale / _scale(raw, scope, 7))
    codes = {"dtype": dtype, "multiplier": multiplier, "zero_point": single(scope, raw, 8), "axis": axis}
    return [product, Node(raw.name, "Requantize", [total], list(raw.outputs), codes)]


def _untransposed(raw: RawNode, scope: Scope) -> tuple[int, ...]:
    """Shape of the second operand as [K, N]."""
    shape = scope.shape(raw.inputs[3])
    return shape[::-1] if raw.attrs.get("transB", 0) else shape


def _scale(raw: RawNode, scope: Scope, index: int) -> Array:
    values = scope.constant(raw.inputs[index])
    if values is None:
        raise Foreign
    check_scale(values, raw, index)
    return np.asarray(values, np.float32).reshape(-1)


def _shaped(values: Array) -> Array:
    return np.asarray(values.reshape(()) if values.size == 1 else values, np.float32)
