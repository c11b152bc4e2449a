"""Gradients of elementwise ops of one input: a table of derivatives, written with the ops of the registry."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

from accelsim.workload.gradient.context import Context, Value, is_float
from accelsim.workload.gradient.rules import RULES, Gradients, Rule, only, rule
from accelsim.workload.graph import Node

Derivative = Callable[[Value, Value, Node], Value]
"""``derivative(x, y, node)`` -> dY/dX of y = op(x)."""


def _leaky(x: Value, y: Value, node: Node) -> Value:
    alpha: float = node.attrs["alpha"]
    return (y if alpha > 0 else x).step() * (1 - alpha) + alpha


def _clip(x: Value, y: Value, node: Node) -> Value:
    """1 where the result is inside the bounds: needs only ``y``, so that X need not be kept."""
    low: float | None = node.attrs["min"]
    high: float | None = node.attrs["max"]
    above = None if low is None else (y - low).op("Sign")
    below = None if high is None else (high - y).op("Sign")
    if above is None or below is None:
        return above or below or x.ctx.scalar(1, x.dtype)
    return above * below


def _between(y: Value) -> Value:
    """1 where 0 < y < 1, else 0, for y in 0..1."""
    return y.op("Sign") * (1 - y).op("Sign")


def _hard_swish(x: Value, y: Value, node: Node) -> Value:
    gate = x.op("HardSigmoid", alpha=1 / 6, beta=0.5)
    return gate + x * _between(gate) * (1 / 6)


def _silu(x: Value, y: Value, node: Node) -> Value:
    gate = x.op("Sigmoid")
    return gate + y * (1 - gate)


def _mish(x: Value, y: Value, node: Node) -> Value:
    gate = x.op("Softplus").op("Tanh")
    return gate + x * x.op("Sigmoid") * (1 - gate * gate)


def _softsign(x: Value, y: Value, node: Node) -> Value:
    ratio = (x.op("Abs") + 1).op("Reciprocal")
    return ratio * ratio


def _elu(x: Value, y: Value, node: Node) -> Value:
    alpha: float = node.attrs["alpha"]
    positive = x.step()
    below = x.op("Clip", min=None, max=0.0).op("Exp") * alpha
    return positive + (1 - positive) * below


def _gelu(x: Value, y: Value, node: Node) -> Value:
    if node.attrs["approximate"] == "tanh":
        return _gelu_tanh(x)
    share = ((x * (1 / sqrt(2))).op("Erf") + 1) * 0.5
    return share + x * (x * x * -0.5).op("Exp") * (1 / sqrt(2 * pi))


def _gelu_tanh(x: Value) -> Value:
    square, slope = x * x, sqrt(2 / pi)
    gate = (x * (square * (0.044715 * slope) + slope)).op("Tanh")
    inner = square * (3 * 0.044715 * slope) + slope
    return ((gate + 1) + x * (1 - gate * gate) * inner) * 0.5


DERIVATIVES: dict[str, Derivative] = {
    "Relu": lambda x, y, n: y.op("Sign"),
    "LeakyRelu": _leaky,
    "Clip": _clip,
    "Sigmoid": lambda x, y, n: y * (1 - y),
    "Tanh": lambda x, y, n: 1 - y * y,
    "Gelu": _gelu,
    "Erf": lambda x, y, n: (-(x * x)).op("Exp") * (2 / sqrt(pi)),
    "Exp": lambda x, y, n: y,
    "Log": lambda x, y, n: x.op("Reciprocal"),
    "Sqrt": lambda x, y, n: y.op("Reciprocal") * 0.5,
    "Sin": lambda x, y, n: x.op("Cos"),
    "Cos": lambda x, y, n: -x.op("Sin"),
    "Tan": lambda x, y, n: y * y + 1,
    "Sinh": lambda x, y, n: x.op("Cosh"),
    "Cosh": lambda x, y, n: x.op("Sinh"),
    "Asin": lambda x, y, n: (1 - x * x).op("Sqrt").op("Reciprocal"),
    "Acos": lambda x, y, n: -(1 - x * x).op("Sqrt").op("Reciprocal"),
    "Atan": lambda x, y, n: (x * x + 1).op("Reciprocal"),
    "Asinh": lambda x, y, n: (x * x + 1).op("Sqrt").op("Reciprocal"),
    "Acosh": lambda x, y, n: (x * x - 1).op("Sqrt").op("Reciprocal"),
    "Atanh": lambda x, y, n: (1 - x * x).op("Reciprocal"),
    "Abs": lambda x, y, n: x.op("Sign"),
    "Reciprocal": lambda x, y, n: -(y * y),
    "HardSigmoid": lambda x, y, n: _between(y) * n.attrs["alpha"],
    "HardSwish": _hard_swish,
    "Silu": _silu,
    "Mish": _mish,
    "Softplus": lambda x, y, n: x.op("Sigmoid"),
    "Softsign": _softsign,
    "Elu": _elu,
    "Shrink": lambda x, y, n: (x.op("Abs") - n.attrs["lambd"]).step(),
    "Selu": lambda x, y, n: _elu(x, y, n) * n.attrs["gamma"],
}
"""Op -> dY/dX. At a kink: the derivative of Relu, Clip, Abs and the hard functions there is 0."""


def _chain(derivative: Derivative) -> Rule:
    def apply(ctx: Context, node: Node, grads: Gradients) -> Gradients:
        return [only(grads) * derivative(ctx.value(node.inputs[0]), ctx.value(node.outputs[0]), node)]

    return apply


RULES.update({op: _chain(derivative) for op, derivative in DERIVATIVES.items()})


@rule("Neg")
def negate(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """-dY."""
    return [-only(grads)]


@rule("Cast")
def cast(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY in the format of X; nothing flows back out of integers."""
    x = ctx.value(node.inputs[0])
    return [only(grads).cast(x.dtype) if is_float(x.dtype) else None]
