"""Common parts of elementwise ops with one input; ops that give truth values or bits; Cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accelsim.formats.table import FORMATS
from accelsim.types import Array
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Derivative, Op, Rule, Value, register
from accelsim.workload.ops.values import Infer, Infers, Ins, Values, array, bits, contain, in_format, per_result, same

Kernel = Callable[[Array, Node], Array]


_flags = in_format("bool")


def _bits(node: Node, ins: Ins) -> Infers:
    bits(node, ins)
    return same(node, ins)


def register_unary(
    name: str,
    ops_per_element: int,
    compute: Kernel,
    infer: Infer = same,
    *,
    derivative: Derivative | None = None,
    **row: Any,
) -> Op:
    """Register y = compute(x, node), with dY/dX as ``derivative(x, y, node)``; ``row``: other fields of ``Op``."""

    def kernel(node: Node, values: Values) -> list[Array]:
        x = array(values, 0)
        with np.errstate(all="ignore"):  # infinities and NaN are values here, as in the formats themselves
            return [np.asarray(compute(x, node), np.bool_ if infer is _flags else x.dtype)]

    rule = None if derivative is None else chained(derivative)
    return register(Op(name, "elementwise", infer, kernel, per_result(ops_per_element), gradient=rule, **row))


def chained(derivative: Derivative) -> Rule:
    """The rule of gradients dX = dY * derivative(x, y, node) of an op of one input and one result."""

    def apply(ctx: Any, node: Node, grads: list[Value]) -> list[Value]:
        return [grads[0] * derivative(ctx.value(node.inputs[0]), ctx.value(node.outputs[0]), node)]

    return apply


def _is_inf(x: Array, node: Node) -> Array:
    below, above = node.attrs["detect_negative"], node.attrs["detect_positive"]
    return np.asarray((np.isneginf(x) & bool(below)) | (np.isposinf(x) & bool(above)))


# op of which the result is bool, one comparison per element: kernel, its attributes in ONNX
_TESTS: dict[str, tuple[Kernel, dict[str, int]]] = {
    "IsNaN": (lambda x, n: np.isnan(x), {}),
    "IsInf": (_is_inf, {"detect_negative": 1, "detect_positive": 1}),
}
register_unary("BitwiseNot", 1, lambda x, n: np.invert(x), _bits, family="bits", onnx={})
for _name, (_compute, _attributes) in _TESTS.items():
    register_unary(_name, 1, _compute, _flags, family="comparisons", onnx=_attributes)


def _cast(node: Node, values: Values) -> list[Array]:
    x, to, overflow = array(values, 0), node.attrs["to"], node.attrs.get("overflow")
    rounding = node.attrs.get("rounding", "rne")
    if to == "e8m0":
        x = np.where(x == 0, 2.0**-127, x)  # has no zero: its smallest number is the nearest
    with np.errstate(all="ignore"):
        if rounding == "up":
            x, rounding = _next_power(x), "rne"
        if overflow or rounding != "rne":
            from accelsim.formats import codec

            return [codec.cast(x, to, rounding, overflow)]
        return [_wrapped(contain(x, to), to)]


def _wrapped(x: Array, to: str) -> Array:
    """The low bits of ``x`` as a number of format ``to``, where that is an integer narrower than its container."""
    row = FORMATS.get(to)
    if row is None or row.kind != "int" or row.bits >= 8:
        return x
    return np.asarray(((x.astype(np.int16) - row.low) & ((1 << row.bits) - 1)) + row.low, x.dtype)


def _next_power(x: Array) -> Array:
    """The smallest power of two that is not below ``x`` (positive)."""
    part, exponent = np.frexp(x.astype(np.float64))
    return np.where(np.isfinite(x) & (x > 0), np.ldexp(1.0, exponent - (part == 0.5)), x)


register(Op("Cast", "elementwise", in_format(attribute="to"), _cast, per_result(), family="conversions"))
