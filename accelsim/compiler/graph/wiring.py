"""A graph under many small changes: who makes and who reads each tensor, and the order of the nodes, kept up to date.

A look-up costs the same however long the graph is; a change costs as much as the nodes that it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from accelsim.compiler.graph.edit import use_counts
from accelsim.workload.graph import Graph, Node


class Wiring:
    """The nodes of a graph before anything is fused.

    While it is in use, ``graph.nodes`` is not: read ``nodes()``, and ``store()`` them at the end.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.outputs = frozenset(graph.outputs)
        self._uses: Counter[str] = use_counts(graph)
        self._makers = {name: node for node in graph.nodes for name in node.outputs if name}
        self._readers: dict[str, dict[int, Node]] = {}
        for node in graph.nodes:
            self._read(node)
        self._after: dict[int, Node | None] = {}
        self._before: dict[int, Node | None] = {}
        self._first = graph.nodes[0] if graph.nodes else None
        for node, other in zip(graph.nodes, [*graph.nodes[1:], None], strict=True):
            self._link(node, other)
        if self._first is not None:
            self._before[id(self._first)] = None

    def nodes(self) -> Iterator[Node]:
        """All nodes in order; those put or dropped meanwhile behind the present one count."""
        node = self._first
        while node is not None:
            yield node
            node = self._after[id(node)]

    def store(self) -> None:
        """Write the nodes back into the graph."""
        self.graph.nodes = list(self.nodes())

    def maker(self, name: str) -> Node | None:
        """The node that writes a tensor; None for inputs and constants."""
        return self._makers.get(name)

    def uses(self, name: str) -> int:
        """Return how many inputs of nodes and outputs of the graph the tensor is."""
        return self._uses[name]

    def only_reader(self, name: str) -> Node | None:
        """The node that reads the tensor, when nothing else does and the graph does not return it."""
        return next(iter(self._readers.get(name, {}).values()), None) if self._uses[name] == 1 else None

    def rewire(self, old: str, new: str) -> None:
        """Make every node that reads tensor ``old`` read ``new``."""
        for node in list(self._readers.get(old, {}).values()):
            self._forget(node)
            node.inputs = [new if name == old else name for name in node.inputs]
            self._uses.update(node.inputs)
            self._read(node)

    def replace(self, old: list[Node], new: list[Node]) -> None:
        """Put ``new`` where the first of ``old`` stands, and take out all of ``old``."""
        for node in new:
            before = self._before[id(old[0])]
            if before is None:
                self._first = node
                self._before[id(node)] = None
            else:
                self._link(before, node)
            self._link(node, old[0])
        for node in old:
            self.drop(node)
        for node in new:
            self._makers.update((name, node) for name in node.outputs if name)
            self._uses.update(node.inputs)
            self._read(node)

    def drop(self, node: Node) -> None:
        """Remove a node from the order and from the tables of makers and readers."""
        before, after = self._before.pop(id(node)), self._after.pop(id(node))
        if before is None:
            self._first = after
            if after is not None:
                self._before[id(after)] = None
        else:
            self._link(before, after)
        self._forget(node)
        for name in node.outputs:
            if self._makers.get(name) is node:
                del self._makers[name]

    def _link(self, node: Node, after: Node | None) -> None:
        self._after[id(node)] = after
        if after is not None:
            self._before[id(after)] = node

    def _read(self, node: Node) -> None:
        for name in node.inputs:
            self._readers.setdefault(name, {})[id(node)] = node

    def _forget(self, node: Node) -> None:
        self._uses.subtract(node.inputs)
        for name in node.inputs:
            self._readers[name].pop(id(node), None)
