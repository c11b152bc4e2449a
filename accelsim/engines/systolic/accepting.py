"""Which products a systolic array does."""

from __future__ import annotations

from accelsim.engines.base import Offer
from accelsim.workload.nodes import gemm_view


def refusal(offer: Offer) -> str | None:
    """Why an array cannot do a node, '' where it can, None for what is no product."""
    if offer.op.kind != "matrix":
        return None
    view, tensors, sources = (
        gemm_view(offer.graph, offer.node),
        offer.graph.tensors,
        offer.unit.spec.stationary_from,
    )
    if view is None:
        return "has no form as a matrix product"
    a, b = tensors[view.a], tensors[view.b]
    if a.is_constant:
        return "its left operand is a constant, which the matrix unit does not stream"
    if not offer.multiplies:
        return f"the matrix unit does not multiply {a.dtype} by {b.dtype}"
    if not b.is_constant and "activations" not in sources:
        return "a product of two activations, and the matrix unit holds only weights"
    if b.is_constant and "weights" not in sources:
        return "a product with weights, and the matrix unit holds only activations"
    return ""
