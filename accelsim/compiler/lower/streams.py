"""State of lowering besides memory: the stream of kernels that a node joins, the readers that tensors still have."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from accelsim.program.writing.layout import Layout
from accelsim.workload.graph import Graph, Node


class _Latest(NamedTuple):
    """The last node of a stream: its number, what it writes."""

    number: int
    made: frozenset[str]


class Streams:
    """The streams of a core, and the latest node of each."""

    def __init__(self, layout: Layout) -> None:
        self._layouts = layout.streams()
        self._latest = [_Latest(-1, frozenset())] * len(self._layouts)
        self._nodes = 0

    def layout_for(self, node: Node) -> Layout:
        """Return the layout of the stream that a node joins; the node becomes the latest of that stream."""
        read, latest = self._read(node), self._latest
        feeding = [stream for stream, each in enumerate(latest) if not each.made.isdisjoint(read)]
        if feeding:
            stream = max(feeding, key=lambda stream: latest[stream].number)
        else:
            stream = min(range(len(latest)), key=lambda stream: (latest[stream].number, stream))
        latest[stream] = _Latest(self._nodes, frozenset(node.writes))
        self._nodes += 1
        return self._layouts[stream]

    @property
    def used(self) -> int:
        """Number of streams that have a node."""
        return sum(each.number >= 0 for each in self._latest)

    def _read(self, node: Node) -> list[str]:
        """Return the tensors that a node reads, by the names under which they were made: views have others."""
        roots = self._layouts[0].facts.roots
        return [roots.get(name, name) for name in node.reads]


class Uses:
    """Counts the readers that are still to come; views of one tensor count together."""

    def __init__(self, graph: Graph) -> None:
        self._root: dict[str, str] = {}
        for node in graph.nodes:
            if node.engine == "alias":
                self._root[node.writes[0]] = self.root(node.reads[0])
        self._left = Counter(self.root(name) for node in graph.nodes if node.engine != "alias" for name in node.reads)
        self._ends = Counter(self.root(name) for name in graph.outputs)
        self._left.update(self._ends)

    def root(self, name: str) -> str:
        """Return the tensor whose bytes a view shows; the tensor itself if it is no view."""
        return self._root.get(name, name)

    def needed(self, name: str) -> bool:
        """Return whether a node still to come reads a tensor."""
        return self._left[self.root(name)] > 0

    def finished(self, node: Node) -> list[str]:
        """Count a node as done; return the tensors that no later node reads."""
        if node.engine == "alias":
            return []
        names = {self.root(name): None for name in node.reads}
        for name in names:
            self._left[name] -= 1
        return [name for name in (*names, *(self.root(out) for out in node.writes)) if self._left[name] <= 0]

    def resting(self, node: Node) -> list[str]:
        """Return the tensors of a finished ``node`` that no node reads any more, but that are outputs of the graph."""
        names = dict.fromkeys(self.root(name) for name in (*node.reads, *node.writes))
        return [name for name in names if self._left[name] == self._ends[name] > 0]
