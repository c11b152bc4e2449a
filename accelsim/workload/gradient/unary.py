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
