"""Which products a row-stationary array does."""

from __future__ import annotations

from accelsim.engines.base import Offer
from accelsim.engines.row_stationary.laws import refusals
from accelsim.engines.row_stationary.shape import Mapping
from accelsim.engines.row_stationary.viewing import convolution, geometry
from accelsim.workload.nodes import gemm_view

SMALLEST = Mapping(1, 1, 1, 1, 1, 1, 1)


def refusal(offer: Offer) -> str | None:
    """Why an array cannot do a node, '' where it can, None for what is no product."""
    if offer.op.kind != "matrix":
        return None
    view, tensors = gemm_view(offer.graph, offer.node), offer.graph.tensors
    if view is None:
        return "has no form as a convolution"
    a, b = tensors[view.a], tensors[view.b]
    if a.is_constant:
        return "its left operand is a constant, which the PE array does not take for an image"
    if not offer.multiplies:
        return f"the PE array does not multiply {a.dtype} by {b.dtype}"
    if offer.node.op == "ExpertMatMul":
        return "values choose its weights, and the passes of the PE array are fixed"
    try:
        conv = convolution(view)
    except ValueError as error:
        return str(error)
    return "; ".join(map(str, refusals(conv, geometry(offer.chip, offer.unit.spec), SMALLEST)))
