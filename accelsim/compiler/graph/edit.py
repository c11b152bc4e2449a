"""Small changes to a graph that every pass needs: names, renaming, lazy constants, order, dead code."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator

from accelsim.types import Array
from accelsim.workload.graph import Graph, Node, Tensor

FLOATS = frozenset({"fp32", "fp16", "bf16", "fp64"})
"""Formats that hold real numbers; everything else is an index, a flag or already quantised."""


def parts(node: Node) -> list[Node]:
    """The node itself and what is fused behind it, in order of execution."""
    return [node, *node.epilogue]


def fresh(graph: Graph, wanted: str) -> str:
    """``wanted``, or ``wanted.2``, ``wanted.3``... when a tensor has that name already."""
    name, count = wanted, graph.suffixes.get(wanted, 1)
    while name in graph.tensors:
        count += 1
        name = f"{wanted}.{count}"
    graph.suffixes[wanted] = max(1, count - 1)
    return name


def add_tensor(graph: Graph, wanted: str, shape: tuple[int, ...], dtype: str = "fp32") -> str:
    """A new tensor without values; returns its name (``wanted``, made unique)."""
    name = fresh(graph, wanted)
    graph.tensors[name] = Tensor(name, shape, dtype)
    return name


def peek(tensor: Tensor) -> Array:
    """The values of a constant, not kept in ``tensor``, so that what is derived does not double memory."""
    if tensor.data is not None or tensor.source is None:
        return tensor.value()
    return tensor.source()


def producers(graph: Graph) -> dict[str, Node]:
    """Tensor name -> the (fused) node that writes it, parts inside included."""
    return {name: node for node in graph.nodes for part in parts(node) for name in part.outputs if name}


def drop(graph: Graph, gone: list[Node]) -> None:
    """Remove these nodes, by identity, from the graph."""
    ids = {id(node) for node in gone}
    graph.nodes = [node for node in graph.nodes if id(node) not in ids]


def derive_constant(
    graph: Graph,
    name: str,
    shape: tuple[int, ...],
    make: Callable[[], Array],
    dtype: str = "fp32",
    counts: Counter[str] | None = None,
) -> str:
    """A constant whose values ``make`` computes on first use.

    It takes over the name ``name`` when at most one place reads that tensor, else it gets a new one; returns
    the name. ``counts``: those of ``use_counts``, which is one walk through the graph for many constants.
    """
    if name in graph.tensors and (use_counts(graph) if counts is None else counts)[name] > 1:
        name = fresh(graph, name)
    graph.tensors[name] = Tensor(name, shape, dtype, source=make)
    return name


def use_counts(graph: Graph) -> Counter[str]:
    """Tensor -> how many inputs of nodes and outputs of the graph it is, in one walk through the graph."""
    counts = Counter(name for node in graph.nodes for part in parts(node) for name in part.inputs)
    counts.update(graph.outputs)
    return counts


def moved(counts: Counter[str], old: str, new: str) -> str:
    """Note in ``counts`` that one reader of ``old`` reads ``new`` instead; returns ``new``."""
    counts[old] -= 1
    counts[new] += 1
    return new


class Readers:
    """Readers of each tensor, and the graph's results: looked up once for all nodes."""

    def __init__(self, graph: Graph) -> None:
        self._nodes, self._outputs = graph.consumers(), frozenset(graph.outputs)

    def only(self, name: str) -> Node | None:
        """The node that reads ``name``, when there is exactly one and the graph does not return the tensor."""
        readers = self._nodes.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self._outputs else None


class Links:
    """Parts of nodes by the tensors that they read and write, kept up while names change: a change costs as much as
    there are readers, not a walk through the graph."""

    def __init__(self, graph: Graph) -> None:
        self._readers: dict[str, list[Node]] = {}
        self._makers: dict[str, Node] = {}
        for node in graph.nodes:
            for part in parts(node):
                for name in dict.fromkeys(part.inputs):
                    self._readers.setdefault(name, []).append(part)
                self._makers.update((name, part) for name in part.outputs if name)

    def rewire(self, old: str, new: str) -> None:
        """Make every reader of tensor ``old`` read ``new``."""
        readers = self._readers.pop(old, [])
        for part in readers:
            part.inputs = [new if name == old else name for name in part.inputs]
        self._readers.setdefault(new, []).extend(readers)

    def rename_output(self, old: str, new: str) -> None:
        """Make what produces tensor ``old`` produce ``new``."""
        part = self._makers.pop(old, None)
        if part is not None:
            part.outputs = [new if name == old else name for name in part.outputs]
            self._makers[new] = part


def sort(graph: Graph) -> None:
    """Topological order that keeps the present order wherever the data flow allows it."""
    made_by = {name: index for index, node in enumerate(graph.nodes) for name in node.writes}
    waits = [{made_by[name] for name in node.reads if name in made_by} for node in graph.nodes]
    users: list[list[int]] = [[] for _ in graph.nodes]
    for index, needs in enumerate(waits):
        for need in sorted(needs):
            users[need].append(index)
    ready = [index for index, needs in enumerate(waits) if not needs]
    graph.nodes = [graph.nodes[index] for index in _drain(ready, waits, users)]


def _drain(ready: list[int], waits: list[set[int]], users: list[list[int]]) -> Iterator[int]:
    heapq.heapify(ready)
    while ready:
        index = heapq.heappop(ready)
        yield index
        for user in users[index]:
            waits[user].discard(index)
            if not waits[user]:
                heapq.heappush(ready, user)


def prune(graph: Graph) -> int:
    """Remove nodes that no output needs and tensors that nobody names; returns the number of nodes removed.

    Expects topological order.
    """
    alive = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if alive.intersection(node.writes):
            kept.append(node)
            alive.update(node.reads)
    removed = len(graph.nodes) - len(kept)
    graph.nodes = kept[::-1]
    named = {name for node in graph.nodes for part in parts(node) for name in (*part.inputs, *part.outputs)}
    named.update(graph.inputs, graph.outputs)
    graph.tensors = {name: tensor for name, tensor in graph.tensors.items() if name in named}
    return removed
