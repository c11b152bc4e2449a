"""Discrete choices in a check against a reference: which rows are the largest, which of two numbers is greater.

Numbers that differ by a rounding can lead to another choice, and from there on everything is of other rows. That is no
wrong value. So a choice is judged by itself: it must be what its own operands, which are compared with the reference
like every tensor, lead to; and the reference then goes on with the choice of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from accelsim.types import Array
from accelsim.workload.execute import compute, run_node
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops.values import contain

COMPARISONS = frozenset({"Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"})
STEPS = frozenset({"Floor", "Ceil", "Round", "Sign", "Mod"})
ORDERS = frozenset({"TopK", "TopKGating", "ArgMax", "ArgMin", "Hardmax", "NonMaxSuppression"})
PLACES = frozenset({"GridSample"})
"""Ops that take samples at computed places: a rounding moves a place by parts of a pixel, to quite another value."""
INDEXED = ("TopK", "TopKGating")
"""Ops whose last result holds the indices that were chosen."""
DISCRETE = COMPARISONS | STEPS | ORDERS | PLACES
"""Ops that turn a small difference of real operands into a whole step, another index or another flag."""


class Choice(NamedTuple):
    """Choices that a run made in a tensor: how many of ``total`` the reference would have made differently."""

    tensor: str
    op: str
    differing: int
    total: int

    def text(self) -> str:
        """Return the choice in words."""
        return (
            f"{self.differing} of {self.total} choices in {self.tensor} ({self.op}) are not those of the reference: "
            "the run's own operands, compared like every tensor, lead to them. What follows is compared given its "
            "choices."
        )


@dataclass
class Choices:
    """The choices of a run. ``expected``: what their own operands lead to; ``forced``: the tensors with which the
    reference goes on; ``model``: the reference's graph, in which these are inputs."""

    model: Graph
    forced: dict[str, Array] = field(default_factory=dict)
    expected: dict[str, Array] = field(default_factory=dict)
    _made: list[Node] = field(default_factory=list)

    def differing(self, theirs: Mapping[str, Array]) -> list[Choice]:
        """Choices that the reference, with its values ``theirs`` of the operands, would have made differently."""
        return [choice for node in self._made if (choice := self._compared(node, theirs)) is not None]

    def _compared(self, node: Node, theirs: Mapping[str, Array]) -> Choice | None:
        tensors, at = self.model.tensors, len(node.outputs) - 1 if node.op in INDEXED else 0
        known = [name for name in node.inputs if name]
        if not all(name in theirs or tensors[name].is_constant for name in known):
            return None
        arrays = [theirs[name] if name in theirs else tensors[name].value() for name in known]
        results = compute(node, self.model, list(arrays))
        ours = self.forced.get(node.outputs[at])
        if ours is None or results[at].shape != ours.shape:
            return None
        differing = int(np.count_nonzero(results[at] != ours))
        return Choice(node.outputs[at], node.op, differing, ours.size) if differing else None


def choices(model: Graph, graph: Graph, ours: Mapping[str, Array], feeds: Mapping[str, Array]) -> Choices:
    """Choices in ``graph``, compiled from ``model``, whose tensors ``ours`` a run computed from ``feeds``.

    Only those made from real numbers count, whose operands and results were all in a memory, to be compared.
    """
    made = {name: node for node in model.nodes for name in node.outputs}
    found = Choices(model)
    known = {name: contain(value, graph.tensors[name].dtype) for name, value in feeds.items()} | dict(ours)
    for node in graph.nodes:
        parts = [part for part in (node, *node.epilogue) if _chooses(graph, part)]
        seen = all(name in known or graph.tensors[name].is_constant for name in node.reads)
        if seen and node.engine == "alias":  # the same memory under another shape
            known |= dict(zip(node.writes, run_node(node, graph, known), strict=True))
        if parts and seen and all(name in ours and name in made for name in node.writes):
            found.forced |= {name: ours[name] for name in node.writes}
            results = run_node(node, graph, known)
            found.expected |= dict(zip(node.writes, results, strict=True))
            names = {name for part in parts for name in part.outputs}
            found._made += [other for other in model.nodes if names & set(other.outputs) and other.op not in PLACES]
    if found.forced:
        found.model = _with_inputs(model, found.forced)
    return found


def _chooses(graph: Graph, part: Node) -> bool:
    """Return whether a part of a node makes choices from real numbers that a run computed."""
    if part.op == "TopK" and not all([*part.outputs, ""][:2]):
        return False  # without indices the result is continuous
    real = [name for name in part.inputs if name and graph.tensors[name].dtype.startswith(("fp", "bf", "tf"))]
    computed = any(not graph.tensors[name].is_constant for name in real)
    return computed and (part.op in DISCRETE or (part.op == "Cast" and _whole(graph, part)))


def _whole(graph: Graph, part: Node) -> bool:
    return graph.tensors[part.outputs[0]].dtype.startswith(("int", "uint", "bool"))


def _with_inputs(model: Graph, forced: Mapping[str, Array]) -> Graph:
    """The graph with these tensors as inputs; the values of a TopK are those at the given indices."""
    graph = model.copy()
    nodes: list[Node] = []
    for node in graph.nodes:
        if not set(node.outputs) & set(forced):
            nodes.append(node)
        elif node.op == "TopK" and node.outputs[0]:
            (values, indices), axis = node.outputs, {"axis": node.attrs["axis"]}
            nodes.append(Node(node.name, "GatherElements", [node.inputs[0], indices], [values], axis))
    graph.nodes = nodes
    remade = {name for node in nodes for name in node.outputs}
    graph.inputs = [*graph.inputs, *(name for name in forced if name not in remade)]
    graph.outputs = [name for name in graph.outputs if name not in graph.inputs]
    return graph
