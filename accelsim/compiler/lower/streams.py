"""Streams of nodes that do not need each other's results: which queue of commands a node goes to."""

from __future__ import annotations

from typing import NamedTuple

from accelsim.program.writing.layout import Layout
from accelsim.workload.graph import Node


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
        """The layout of the stream in which a node runs, which is its latest from now on."""
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
        """Streams that have a node."""
        return sum(each.number >= 0 for each in self._latest)

    def _read(self, node: Node) -> list[str]:
        """Return the tensors that a node reads, by the names under which they were made: views have others."""
        roots = self._layouts[0].facts.roots
        return [roots.get(name, name) for name in node.reads]
