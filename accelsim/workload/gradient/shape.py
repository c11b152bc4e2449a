"""Gradients of ops that only rename."""

from __future__ import annotations

from accelsim.workload.gradient.context import Context
from accelsim.workload.gradient.rules import Gradients, only, rule
from accelsim.workload.graph import Node


@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")
def rename(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY in the shape of X."""
    return [only(grads).reshape(ctx.value(node.inputs[0]).shape)]
