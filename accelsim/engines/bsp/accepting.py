"""Which nodes a machine of tiles does."""

from __future__ import annotations

from accelsim.engines.base import Offer
from accelsim.workload.nodes import gemm_view

STRANGE = ("int64", "uint32", "uint64", "string")
"""Formats that tiles cannot write: they have real numbers, 32-bit integers and flags."""


def refusal(offer: Offer) -> str | None:
    """Why the tiles cannot do a node, '' where they can."""
    tensors, node, functions = offer.graph.tensors, offer.node, offer.unit.spec.functions
    if offer.op.kind == "matrix":
        view = gemm_view(offer.graph, node)
        if view is None:
            return "has no form as a matrix product"
        if tensors[view.a].is_constant:
            return "its left operand is a constant, and the tiles exchange activations"
        if not offer.multiplies:
            return f"the tiles do not multiply {tensors[view.a].dtype} by {tensors[view.b].dtype}"
        return ""
    if node.op not in functions and not (node.op == "Bias" and "Add" in functions):
        return "not a function of the tiles"
    strange = [tensors[name].dtype for name in node.outputs if name and tensors[name].dtype in STRANGE]
    return f"the tiles have no {strange[0]} numbers" if strange else ""
