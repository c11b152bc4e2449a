"""Gradients of elementwise ops; of several inputs summed over the axes along which an input was broadcast."""

from __future__ import annotations

from accelsim.workload.gradient.context import Context, Value, is_float
from accelsim.workload.gradient.rules import Gradients, only, rule
from accelsim.workload.graph import Node


@rule("Add", "Sum")
def add(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY to every input."""
    return [only(grads).unbroadcast(item.shape) for item in ctx.inputs(node)]


@rule("Sub")
def subtract(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY and -dY."""
    a, b = ctx.inputs(node)
    return [only(grads).unbroadcast(a.shape), -only(grads).unbroadcast(b.shape)]


@rule("Mul")
def multiply(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY times the other factor."""
    a, b = ctx.inputs(node)
    return [(only(grads) * b).unbroadcast(a.shape), (only(grads) * a).unbroadcast(b.shape)]


@rule("Div")
def divide(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY / B, and -Y times that."""
    a, b = ctx.inputs(node)
    da = only(grads) / b
    return [da.unbroadcast(a.shape), -(da * ctx.value(node.outputs[0])).unbroadcast(b.shape)]


@rule("Pow")
def power(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """b a^(b-1) and a^b ln a, with the limit 0 for b = 0 (first) and a = 0 (second). NaN for ln of a negative a."""
    a, b = ctx.inputs(node)
    y, g = ctx.value(node.outputs[0]), only(grads)
    exponent = _constant(b)
    if exponent is None:
        slope = b.cast(a.dtype) * a.op("Pow", b.cast(a.dtype) - 1 + b.cast(a.dtype).is_zero())
    elif exponent == 0:
        slope = ctx.scalar(0, a.dtype)
    else:
        slope = (a if exponent == 2 else a.op("Pow", ctx.scalar(exponent - 1, a.dtype))) * exponent
    found: Gradients = [(g * slope).unbroadcast(a.shape)]
    if not is_float(b.dtype):
        return [*found, None]
    return [*found, (g * (y * (a + a.is_zero()).op("Log"))).unbroadcast(b.shape)]


def _constant(value: Value) -> float | None:
    """The number that a small constant holds everywhere, else None."""
    if not value.tensor.is_constant or value.tensor.elements != 1:
        return None
    return float(value.tensor.value().reshape(()))


@rule("Mod")
def modulo(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY, and -dY times the whole quotient."""
    a, b = ctx.inputs(node)
    quotient = ((a - ctx.value(node.outputs[0])) / b).op("Round")
    return [only(grads).unbroadcast(a.shape), -(only(grads) * quotient).unbroadcast(b.shape)]


@rule("PRelu")
def prelu(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """1 or the slope for X; min(X, 0) for the slope."""
    x, slope = ctx.inputs(node)
    g, positive = only(grads), x.step()
    dx = g * (positive + (1 - positive) * slope)
    return [dx.unbroadcast(x.shape), (g * x.op("Clip", min=None, max=0.0)).unbroadcast(slope.shape)]


@rule("Min", "Max")
def extreme(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY to the input that was chosen; inputs that tie share it evenly."""
    y, parts = ctx.value(node.outputs[0]), ctx.inputs(node)
    if len(parts) == 1:
        return [only(grads)]
    chosen = [(part - y).is_zero() for part in parts]
    total = chosen[0]
    for mask in chosen[1:]:
        total = total + mask
    share = only(grads) / total
    return [(share * mask).unbroadcast(part.shape) for mask, part in zip(chosen, parts, strict=True)]


@rule("Mean")
def mean(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY / n to every input."""
    parts = ctx.inputs(node)
    share = only(grads) * (1 / len(parts))
    return [share.unbroadcast(part.shape) for part in parts]


@rule("Where")
def where(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY where the condition chose this input, 0 elsewhere."""
    condition, x, y = ctx.inputs(node)
    g = only(grads)
    zero = ctx.scalar(0, g.dtype)
    dx, dy = condition.op("Where", g, zero), condition.op("Where", zero, g)
    return [None, dx.unbroadcast(x.shape), dy.unbroadcast(y.shape)]


@rule("Bias")
def bias(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY, and its sum over all axes but that of the bias."""
    g = only(grads)
    return [g, g.sum([axis for axis in range(g.rank) if axis != node.attrs["axis"]], keepdims=False)]


@rule("Neg")
def negate(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """-dY."""
    return [-only(grads)]


@rule("Cast")
def cast(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY in the format of X; nothing flows back out of integers."""
    x = ctx.value(node.inputs[0])
    return [only(grads).cast(x.dtype) if is_float(x.dtype) else None]


@rule("FakeQuantize")
def fake_quantize(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """FakeQuantizeGrad gives both: Bengio et al., arXiv:1308.3432 (dX), and Esser et al., ICLR 2020, eq. 3 (dscale)."""
    x, scale = ctx.inputs(node)
    return [*ctx.ops("FakeQuantizeGrad", [x, scale, only(grads)], outputs=2, **node.attrs)]
