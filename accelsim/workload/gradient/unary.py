"""Gradients of elementwise ops of one input: those of their rows, negation, and conversion."""

from __future__ import annotations

from accelsim.workload.gradient.context import Context, is_float
from accelsim.workload.gradient.rules import Gradients, only, rule
from accelsim.workload.graph import Node


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
