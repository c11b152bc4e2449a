"""Which nodes an engine of functions does, whatever its type."""

from __future__ import annotations

from accelsim.engines.base import Offer

STRANGE = ("int64", "uint32", "uint64", "string")
"""Formats that such an engine cannot write: it has real numbers, codes, 32-bit sums and flags."""


def not_a_function(offer: Offer, engine: str, has: str = "has") -> str:
    """Return why ``engine`` ('the vector unit', with its verb) cannot do a node that is no product, '' where it can."""
    functions, node = offer.unit.spec.functions, offer.node
    if node.op not in functions and not (node.op == "Bias" and "Add" in functions):
        return f"not a function of {engine}"
    formats = [offer.graph.tensors[name].dtype for name in node.outputs if name]
    strange = next((name for name in formats if name in STRANGE), "")
    return f"{engine} {has} no {strange} numbers" if strange else ""
