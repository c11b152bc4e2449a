"""Elementwise ops of one input, each in one row: its arithmetic, family, values, derivative, and attributes in ONNX.

Counting: one per addition, multiplication, comparison, division and transcendental function; see each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import pi, sqrt

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Derivative, Value
from accelsim.workload.ops.elementwise import Kernel, register_unary


@dataclass(frozen=True)
class Unary:
    """One op y = f(x): ``ops`` per element, ``family``, ``kernel(x, node)``.

    ``derivative(x, y, node)`` is dY/dX; without it, ``gradient.rules`` has a rule, or the reason why there is none.
    ``onnx`` and ``keeps`` as in ``base.Op``.
    """

    ops: int
    family: str
    kernel: Kernel
    derivative: Derivative | None = None
    onnx: Mapping[str, object] | None = field(default_factory=dict)
    keeps: bool = False


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


def _hard_sigmoid(x: Array, node: Node) -> Array:
    return np.asarray(np.clip(x * node.attrs["alpha"] + node.attrs["beta"], 0, 1))


def _selu(x: Array, node: Node) -> Array:
    return np.asarray(node.attrs["gamma"] * _elu(x, node.attrs["alpha"]))


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _shrink(x: Array, node: Node) -> Array:
    bias, bound = node.attrs["bias"], node.attrs["lambd"]
    return np.where(x < -bound, x + bias, np.where(x > bound, x - bias, 0))


def _leaky_slope(x: Value, y: Value, node: Node) -> Value:
    alpha: float = node.attrs["alpha"]
    return (y if alpha > 0 else x).step() * (1 - alpha) + alpha


def _clip_slope(x: Value, y: Value, node: Node) -> Value:
    """1 where the result is inside the bounds: needs only ``y``, so that X need not be kept."""
    low: float | None = node.attrs["min"]
    high: float | None = node.attrs["max"]
    above = None if low is None else (y - low).op("Sign")
    below = None if high is None else (high - y).op("Sign")
    if above is None or below is None:
        return above or below or x.ctx.scalar(1, x.dtype)
    return above * below


def _inverse_root(square: Value) -> Value:
    return square.op("Sqrt").op("Reciprocal")


def _between(y: Value) -> Value:
    """1 where 0 < y < 1, else 0, for y in 0..1."""
    return y.op("Sign") * (1 - y).op("Sign")


def _hard_swish_slope(x: Value, y: Value, node: Node) -> Value:
    gate = x.op("HardSigmoid", alpha=1 / 6, beta=0.5)
    return gate + x * _between(gate) * (1 / 6)


def _silu_slope(x: Value, y: Value, node: Node) -> Value:
    gate = x.op("Sigmoid")
    return gate + y * (1 - gate)


def _mish_slope(x: Value, y: Value, node: Node) -> Value:
    gate = x.op("Softplus").op("Tanh")
    return gate + x * x.op("Sigmoid") * (1 - gate * gate)


def _softsign_slope(x: Value, y: Value, node: Node) -> Value:
    ratio = (x.op("Abs") + 1).op("Reciprocal")
    return ratio * ratio


def _elu_slope(x: Value, y: Value, node: Node) -> Value:
    alpha: float = node.attrs["alpha"]
    positive = x.step()
    below = x.op("Clip", min=None, max=0.0).op("Exp") * alpha
    return positive + (1 - positive) * below


def _gelu_slope(x: Value, y: Value, node: Node) -> Value:
    if node.attrs["approximate"] == "tanh":
        return _gelu_tanh_slope(x)
    share = ((x * (1 / sqrt(2))).op("Erf") + 1) * 0.5
    return share + x * (x * x * -0.5).op("Exp") * (1 / sqrt(2 * pi))


def _gelu_tanh_slope(x: Value) -> Value:
    square, slope = x * x, sqrt(2 / pi)
    gate = (x * (square * (0.044715 * slope) + slope)).op("Tanh")
    inner = square * (3 * 0.044715 * slope) + slope
    return ((gate + 1) + x * (1 - gate * gate) * inner) * 0.5


_SELU = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}
_SHRINK = {"bias": 0.0, "lambd": 0.5}

# At a kink the derivative of Relu, Clip, Abs and the hard functions is 0.
UNARY: dict[str, Unary] = {
    # activations: a compare, and a multiply; two compares; negate, exp, add, divide; one function
    "Relu": Unary(
        1, "activations", lambda x, n: np.maximum(x, x.dtype.type(0)), lambda x, y, n: y.op("Sign"), keeps=True
    ),
    "LeakyRelu": Unary(
        2, "activations", lambda x, n: np.where(x >= 0, x, x * n.attrs["alpha"]), _leaky_slope, {"alpha": 0.01}
    ),
    "Clip": Unary(2, "activations", _clip, _clip_slope, None, keeps=True),
    "Sigmoid": Unary(4, "activations", lambda x, n: sigmoid(x), lambda x, y, n: y * (1 - y)),
    "Tanh": Unary(1, "activations", lambda x, n: np.tanh(x), lambda x, y, n: 1 - y * y),
    # scale, erf or tanh, add, two multiplies
    "Gelu": Unary(5, "activations", lambda x, n: gelu(x, n.attrs["approximate"]), _gelu_slope, {"approximate": "none"}),
    # one function each
    "Erf": Unary(1, "powers", lambda x, n: erf(x), lambda x, y, n: (-(x * x)).op("Exp") * (2 / sqrt(pi))),
    "Exp": Unary(1, "powers", lambda x, n: np.exp(x), lambda x, y, n: y),
    "Log": Unary(1, "powers", lambda x, n: np.log(x), lambda x, y, n: x.op("Reciprocal")),
    "Sqrt": Unary(1, "powers", lambda x, n: np.sqrt(x), lambda x, y, n: y.op("Reciprocal") * 0.5),
    "Sin": Unary(1, "trigonometry", lambda x, n: np.sin(x), lambda x, y, n: x.op("Cos")),
    "Cos": Unary(1, "trigonometry", lambda x, n: np.cos(x), lambda x, y, n: -x.op("Sin")),
    "Tan": Unary(1, "trigonometry", lambda x, n: np.tan(x), lambda x, y, n: y * y + 1),
    "Sinh": Unary(1, "trigonometry", lambda x, n: np.sinh(x), lambda x, y, n: x.op("Cosh")),
    "Cosh": Unary(1, "trigonometry", lambda x, n: np.cosh(x), lambda x, y, n: x.op("Sinh")),
    "Asin": Unary(1, "trigonometry", lambda x, n: np.arcsin(x), lambda x, y, n: _inverse_root(1 - x * x)),
    "Acos": Unary(1, "trigonometry", lambda x, n: np.arccos(x), lambda x, y, n: -_inverse_root(1 - x * x)),
    "Atan": Unary(1, "trigonometry", lambda x, n: np.arctan(x), lambda x, y, n: (x * x + 1).op("Reciprocal")),
    "Asinh": Unary(1, "trigonometry", lambda x, n: np.arcsinh(x), lambda x, y, n: _inverse_root(x * x + 1)),
    "Acosh": Unary(1, "trigonometry", lambda x, n: np.arccosh(x), lambda x, y, n: _inverse_root(x * x - 1)),
    "Atanh": Unary(1, "trigonometry", lambda x, n: np.arctanh(x), lambda x, y, n: (1 - x * x).op("Reciprocal")),
    "Neg": Unary(1, "arithmetic", lambda x, n: np.negative(x)),
    "Abs": Unary(1, "arithmetic", lambda x, n: np.abs(x), lambda x, y, n: x.op("Sign")),
    "Sign": Unary(2, "arithmetic", lambda x, n: np.sign(x)),  # two compares
    "Floor": Unary(1, "rounding", lambda x, n: np.floor(x)),
    "Ceil": Unary(1, "rounding", lambda x, n: np.ceil(x)),
    "Round": Unary(1, "rounding", lambda x, n: np.rint(x)),
    "Reciprocal": Unary(1, "powers", lambda x, n: 1 / x, lambda x, y, n: -(y * y)),
    # multiply, add, two compares
    "HardSigmoid": Unary(
        4, "activations", _hard_sigmoid, lambda x, y, n: _between(y) * n.attrs["alpha"], {"alpha": 0.2, "beta": 0.5}
    ),
    # hard sigmoid, multiply; sigmoid, multiply; exp, log1p, tanh, multiply; exp, add, log; absolute, add, divide
    "HardSwish": Unary(5, "activations", lambda x, n: x * np.clip(x * (1 / 6) + 0.5, 0, 1), _hard_swish_slope),
    "Silu": Unary(5, "activations", lambda x, n: x * sigmoid(x), _silu_slope, None),
    "Mish": Unary(4, "other_activations", lambda x, n: x * np.tanh(softplus(x)), _mish_slope),
    "Softplus": Unary(3, "activations", lambda x, n: softplus(x), lambda x, y, n: x.op("Sigmoid")),
    "Softsign": Unary(3, "other_activations", lambda x, n: x / (1 + np.abs(x)), _softsign_slope),
    # compare, exp, subtract, multiply; one more multiply; two compares, add, subtract
    "Elu": Unary(4, "other_activations", lambda x, n: _elu(x, n.attrs["alpha"]), _elu_slope, {"alpha": 1.0}),
    "Selu": Unary(5, "other_activations", _selu, lambda x, y, n: _elu_slope(x, y, n) * n.attrs["gamma"], _SELU),
    "Shrink": Unary(4, "other_activations", _shrink, lambda x, y, n: (x.op("Abs") - n.attrs["lambd"]).step(), _SHRINK),
    "Not": Unary(1, "logic", lambda x, n: np.logical_not(x)),
}

for _name, _row in UNARY.items():
    register_unary(
        _name, _row.ops, _row.kernel, derivative=_row.derivative, family=_row.family, onnx=_row.onnx, keeps=_row.keeps
    )
