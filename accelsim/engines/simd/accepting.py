"""Which nodes a vector unit does."""

from __future__ import annotations

from accelsim.engines.base import Offer

STRANGE = ("int64", "uint32", "uint64", "string")
"""Formats that it cannot write: it has real numbers, codes, 32-bit sums and flags."""


def refusal(offer: Offer) -> str | None:
    """Why a vector unit cannot do a node, '' where it can."""
    functions, node = offer.unit.spec.functions, offer.node
    if node.op not in functions and not (node.op == "Bias" and "Add" in functions):
        return "not a function of the vector unit"
    formats = [offer.graph.tensors[name].dtype for name in node.outputs if name]
    strange = [name for name in formats if name in STRANGE]
    return f"the vector unit has no {strange[0]} numbers" if strange else ""
