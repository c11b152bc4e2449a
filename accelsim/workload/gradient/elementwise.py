"""Gradients of elementwise ops; of several inputs summed over the axes along which an input was broadcast."""

from __future__ import annotations

from collections.abc import Iterable

from accelsim.workload.gradient.context import Value, is_float
from accelsim.workload.gradient.rules import Gradients, formula, formulas
from accelsim.workload.graph import Node


def _to_each(g: Value, inputs: Iterable[Value]) -> Gradients:
    return [g.unbroadcast(each.shape) for each in inputs]


formulas({
    "Add": lambda node, g, y, *inputs: _to_each(g, inputs),
    "Sum": lambda node, g, y, *inputs: _to_each(g, inputs),
    "Mean": lambda node, g, y, *inputs: _to_each(g * (1 / len(inputs)), inputs),
    "Sub": lambda node, g, y, a, b: [g.unbroadcast(a.shape), -g.unbroadcast(b.shape)],
    "Mul": lambda node, g, y, a, b: [(g * b).unbroadcast(a.shape), (g * a).unbroadcast(b.shape)],
    "Neg": lambda node, g, y, x: [-g],
    "Bias": lambda node, g, y, x, b: [g, g.sum([i for i in range(g.rank) if i != node.attrs["axis"]], keepdims=False)],
    # in the format of X; nothing flows back out of integers
    "Cast": lambda node, g, y, x: [g.cast(x.dtype) if is_float(x.dtype) else None],
    # Bengio et al., arXiv:1308.3432 (dX), and Esser et al., ICLR 2020, eq. 3 (dscale)
    "FakeQuantize": lambda node, g, y, x, scale: [*g.ctx.ops("FakeQuantizeGrad", [x, scale, g], 2, **node.attrs)],
})  # fmt: skip


@formula("Div")
def divide(node: Node, g: Value, y: Value, a: Value, b: Value) -> Gradients:
    """Return dY / B, and -Y times that."""
    da = g / b
    return [da.unbroadcast(a.shape), -(da * y).unbroadcast(b.shape)]


@formula("Pow")
def power(node: Node, g: Value, y: Value, a: Value, b: Value) -> Gradients:
    """Return b a^(b-1) and a^b ln a, with the limit 0 for b = 0 (first) and a = 0 (second); NaN for a negative a."""
    exponent = _constant(b)
    if exponent is None:
        slope = b.cast(a.dtype) * a.op("Pow", b.cast(a.dtype) - 1 + b.cast(a.dtype).is_zero())
    elif exponent == 0:
        slope = g.ctx.scalar(0, a.dtype)
    else:
        slope = (a if exponent == 2 else a.op("Pow", g.ctx.scalar(exponent - 1, a.dtype))) * exponent
    found: Gradients = [(g * slope).unbroadcast(a.shape)]
    if not is_float(b.dtype):
        return [*found, None]
    return [*found, (g * (y * (a + a.is_zero()).op("Log"))).unbroadcast(b.shape)]


def _constant(value: Value) -> float | None:
    """The number that a small constant holds everywhere, else None."""
    if not value.tensor.is_constant or value.tensor.elements != 1:
        return None
    return float(value.tensor.value().reshape(()))


@formula("Mod")
def modulo(node: Node, g: Value, y: Value, a: Value, b: Value) -> Gradients:
    """Return dY, and -dY times the whole quotient."""
    quotient = ((a - y) / b).op("Round")
    return [g.unbroadcast(a.shape), -(g * quotient).unbroadcast(b.shape)]


@formula("PRelu")
def prelu(node: Node, g: Value, y: Value, x: Value, slope: Value) -> Gradients:
    """Return dY times 1 or the slope for X; dY times min(X, 0) for the slope."""
    positive = x.step()
    dx = g * (positive + (1 - positive) * slope)
    return [dx.unbroadcast(x.shape), (g * x.op("Clip", min=None, max=0.0)).unbroadcast(slope.shape)]


@formula("Min", "Max")
def extreme(node: Node, g: Value, y: Value, *parts: Value) -> Gradients:
    """Return dY for the input that was chosen; inputs that tie share it evenly."""
    if len(parts) == 1:
        return [g]
    chosen = [(part - y).is_zero() for part in parts]
    total = chosen[0]
    for mask in chosen[1:]:
        total = total + mask
    share = g / total
    return [(share * mask).unbroadcast(part.shape) for mask, part in zip(chosen, parts, strict=True)]


@formula("Where")
def where(node: Node, g: Value, y: Value, condition: Value, *choices: Value) -> Gradients:
    """Return dY where the condition chose this input, 0 elsewhere."""
    zero = g.ctx.scalar(0, g.dtype)
    shares = [condition.op("Where", g, zero), condition.op("Where", zero, g)]
    return [None, *(share.unbroadcast(each.shape) for share, each in zip(shares, choices, strict=True))]
