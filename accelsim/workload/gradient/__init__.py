"""Gradients of graphs: reverse-mode differentiation that writes ordinary nodes.

``backward`` appends the gradient of a loss to a graph; what it writes is ops of the registry, so a training step
compiles to a chip like any other graph, its products on the matrix unit. One rule per op, one file per family.
"""

from __future__ import annotations

from accelsim.workload.gradient import elementwise, experts, index, matrix, move, normalise, pool, reduce
from accelsim.workload.gradient.backward import backward
from accelsim.workload.gradient.rules import ENDS, NOT_DIFFERENTIABLE, REFUSED, RULES

__all__ = [
    "ENDS", "NOT_DIFFERENTIABLE", "REFUSED", "RULES", "backward", "elementwise", "experts", "index", "matrix", "move",
    "normalise", "pool", "reduce",
]  # fmt: skip
