"""Gradient of fake quantisation: the straight-through estimator, and the learnt scale."""

from __future__ import annotations

from accelsim.workload.gradient.context import Context
from accelsim.workload.gradient.rules import Gradients, only, rule
from accelsim.workload.graph import Node


@rule("FakeQuantize")
def fake_quantize(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """FakeQuantizeGrad gives both: Bengio et al., arXiv:1308.3432 (dX), and Esser et al., ICLR 2020, eq. 3 (dscale)."""
    x, scale = ctx.inputs(node)
    return [*ctx.ops("FakeQuantizeGrad", [x, scale, only(grads)], outputs=2, **node.attrs)]
