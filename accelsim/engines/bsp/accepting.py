"""Which nodes a machine of tiles does."""

from __future__ import annotations

from accelsim.engines.accepting import not_a_function
from accelsim.engines.base import Offer
from accelsim.workload.nodes import gemm_view


def refusal(offer: Offer) -> str | None:
    """Why the tiles cannot do a node, '' where they can."""
    tensors = offer.graph.tensors
    if offer.op.kind == "matrix":
        view = gemm_view(offer.graph, offer.node)
        if view is None:
            return "has no form as a matrix product"
        if tensors[view.a].is_constant:
            return "its left operand is a constant, and the tiles exchange activations"
        if not offer.multiplies:
            return f"the tiles do not multiply {tensors[view.a].dtype} by {tensors[view.b].dtype}"
        return ""
    return not_a_function(offer, "the tiles", "have")
