"""The model that the values of a random case are compared with."""

from __future__ import annotations

from accelsim.compiler.numbers.sparsify import prune
from accelsim.workload.graph import Graph
from tests.helpers.law_cases import Case


def pruned(case: Case) -> Graph:
    """Its graph, with the weights pruned where the case asks for it."""
    sparsity = case.options.get("sparsity")
    return prune(case.graph, sparsity) if sparsity else case.graph
