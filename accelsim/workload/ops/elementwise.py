"""Elementwise ops of one input: a table of (op, operations per element, kernel).

Counting: one per addition, multiplication, comparison, division and transcendental function; see each row.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import numpy as np

from accelsim.formats import codec
from accelsim.formats.table import FORMATS
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.values import Infers, Ins, Values, array, bits, contain, same, tensor

# erf(x) = x * P(x^2) / Q(x^2) for |x| <= 4, coefficients of the highest power first (own least-squares fit to
# the exact function); the relative error is below 4e-7 in float32, and beyond 4 the float32 value is +-1.
_ERF_P = (1.98668611e-06, 0.000284541662, 0.00388286247, 0.0531002362, 0.193535806, 1.12837914)
_ERF_Q = (3.74178873e-05, 0.00118542873, 0.0152063047, 0.115345915, 0.504849201, 1.0)

_BLOCK = 1 << 14
"""Elements of which erf makes its intermediate results at a time, so that they stay in the cache."""


def erf(x: Array) -> Array:
    """The error function, elementwise, in the float type of ``x`` (float32 accuracy)."""
    y = np.empty(x.shape, x.dtype)
    flat, out = x.reshape(-1), y.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        bounded = np.clip(flat[start : start + _BLOCK], -4, 4)
        square = bounded * bounded
        ratio = bounded * _horner(_ERF_P, square) / _horner(_ERF_Q, square)
        np.clip(ratio, -1, 1, out=out[start : start + _BLOCK])
    return y


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += x.dtype.type(coefficient)
    return total


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)); an overflow of the exponential is the limit 0."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def gelu(x: Array, approximate: str) -> Array:
    """x * Phi(x), with erf ('none') or tanh ('tanh'); Hendrycks and Gimpel, arXiv 1606.08415, section 2."""
    if approximate == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x))))
    return np.asarray(0.5 * x * (1 + erf(x * (1 / sqrt(2)))))


def _clip(x: Array, node: Node) -> Array:
    low, high = node.attrs["min"], node.attrs["max"]
    if low is not None:
        x = np.maximum(x, x.dtype.type(low))
    return x if high is None else np.minimum(x, x.dtype.type(high))


def _selu(x: Array, node: Node) -> Array:
    return np.asarray(node.attrs["gamma"] * _elu(x, node.attrs["alpha"]))


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _shrink(x: Array, node: Node) -> Array:
    bias, bound = node.attrs["bias"], node.attrs["lambd"]
    return np.where(x < -bound, x + bias, np.where(x > bound, x - bias, 0))


def _is_inf(x: Array, node: Node) -> Array:
    below, above = node.attrs["detect_negative"], node.attrs["detect_positive"]
    return np.asarray((np.isneginf(x) & bool(below)) | (np.isposinf(x) & bool(above)))


Kernel = Callable[[Array, Node], Array]

# op: (operations per element, why, kernel)
_UNARY: dict[str, tuple[int, str, Kernel]] = {
    "Relu": (1, "compare", lambda x, n: np.maximum(x, x.dtype.type(0))),
    "LeakyRelu": (2, "compare, multiply", lambda x, n: np.where(x >= 0, x, x * n.attrs["alpha"])),
    "Clip": (2, "two compares", _clip),
    "Sigmoid": (4, "negate, exp, add, divide", lambda x, n: sigmoid(x)),
    "Tanh": (1, "one function", lambda x, n: np.tanh(x)),
    "Gelu": (5, "scale, erf or tanh, add, two multiplies", lambda x, n: gelu(x, n.attrs["approximate"])),
    "Erf": (1, "one function", lambda x, n: erf(x)),
    "Exp": (1, "one function", lambda x, n: np.exp(x)),
    "Log": (1, "one function", lambda x, n: np.log(x)),
    "Sqrt": (1, "one function", lambda x, n: np.sqrt(x)),
    "Sin": (1, "one function", lambda x, n: np.sin(x)),
    "Cos": (1, "one function", lambda x, n: np.cos(x)),
    "Tan": (1, "one function", lambda x, n: np.tan(x)),
    "Sinh": (1, "one function", lambda x, n: np.sinh(x)),
    "Cosh": (1, "one function", lambda x, n: np.cosh(x)),
    "Asin": (1, "one function", lambda x, n: np.arcsin(x)),
    "Acos": (1, "one function", lambda x, n: np.arccos(x)),
    "Atan": (1, "one function", lambda x, n: np.arctan(x)),
    "Asinh": (1, "one function", lambda x, n: np.arcsinh(x)),
    "Acosh": (1, "one function", lambda x, n: np.arccosh(x)),
    "Atanh": (1, "one function", lambda x, n: np.arctanh(x)),
    "Neg": (1, "negate", lambda x, n: np.negative(x)),
    "Abs": (1, "clear the sign", lambda x, n: np.abs(x)),
    "Sign": (2, "two compares", lambda x, n: np.sign(x)),
    "Floor": (1, "round", lambda x, n: np.floor(x)),
    "Ceil": (1, "round", lambda x, n: np.ceil(x)),
    "Round": (1, "round", lambda x, n: np.rint(x)),
    "Reciprocal": (1, "divide", lambda x, n: 1 / x),
    "HardSigmoid": (
        4,
        "multiply, add, two compares",
        lambda x, n: np.clip(x * n.attrs["alpha"] + n.attrs["beta"], 0, 1),
    ),
    "HardSwish": (5, "hard sigmoid, multiply", lambda x, n: x * np.clip(x * (1 / 6) + 0.5, 0, 1)),
    "Silu": (5, "sigmoid, multiply", lambda x, n: x * sigmoid(x)),
    "Mish": (4, "exp, log1p, tanh, multiply", lambda x, n: x * np.tanh(softplus(x))),
    "Softplus": (3, "exp, add, log", lambda x, n: softplus(x)),
    "Softsign": (3, "absolute, add, divide", lambda x, n: x / (1 + np.abs(x))),
    "Elu": (4, "compare, exp, subtract, multiply", lambda x, n: _elu(x, n.attrs["alpha"])),
    "Selu": (5, "as Elu, multiply", _selu),
    "Shrink": (4, "two compares, add, subtract", _shrink),
    "Not": (1, "invert", lambda x, n: np.logical_not(x)),
}


# op of which the result is bool: kernel (one comparison per element)
_TESTS: dict[str, Kernel] = {"IsNaN": lambda x, n: np.isnan(x), "IsInf": _is_inf}


def _flags(node: Node, ins: Ins) -> Infers:
    return [(tensor(node, ins, 0).shape, "bool")]


def _bits(node: Node, ins: Ins) -> Infers:
    bits(node, ins)
    return same(node, ins)


def _register(
    name: str, ops_per_element: int, compute: Kernel, infer: Callable[[Node, Ins], Infers] = same
) -> None:
    def kernel(node: Node, values: Values) -> list[Array]:
        x = array(values, 0)
        with np.errstate(all="ignore"):  # infinities and NaN are values here, as in the formats themselves
            return [np.asarray(compute(x, node), np.bool_ if infer is _flags else x.dtype)]

    def work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
        return Work(ops=ops_per_element * outs[0].elements)

    register(Op(name, "elementwise", infer, kernel, work))


for _name, (_count, _why, _compute) in _UNARY.items():
    _register(_name, _count, _compute)
_register("BitwiseNot", 1, lambda x, n: np.invert(x), _bits)
for _name, _compute in _TESTS.items():
    _register(_name, 1, _compute, _flags)


def _cast_infer(node: Node, ins: Ins) -> Infers:
    return [(tensor(node, ins, 0).shape, node.attrs["to"])]


def _cast(node: Node, values: Values) -> list[Array]:
    x, to, overflow = array(values, 0), node.attrs["to"], node.attrs.get("overflow")
    rounding = node.attrs.get("rounding", "rne")
    if to == "e8m0":
        x = np.where(x == 0, 2.0**-127, x)  # has no zero: its smallest number is the nearest
    with np.errstate(all="ignore"):
        if rounding == "up":
            x, rounding = _next_power(x), "rne"
        if overflow or rounding != "rne":
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


def _cast_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    return Work(ops=outs[0].elements)  # one conversion each


register(Op("Cast", "elementwise", _cast_infer, _cast, _cast_work))
