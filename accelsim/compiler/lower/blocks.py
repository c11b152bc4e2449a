"""Blocks of a graph that are alike: the same nodes in the same order, wired in the same way, on other tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np

from accelsim.program.repeated import Chains
from accelsim.types import Ints
from accelsim.workload.graph import Graph, Node, Tensor

LEAST = 5
"""Blocks from which on it is worth to look at them: fewer are written as quickly."""
GAPS = 16
"""Lengths of a block that are tried, the likeliest first."""


class Blocks(NamedTuple):
    """``number`` blocks of ``size`` nodes each, from node ``first`` on; ``names``: which tensor follows which."""

    first: int
    size: int
    number: int
    names: Chains

    @property
    def end(self) -> int:
        """Index of the first node after the last block."""
        return self.first + self.size * self.number


def alike_blocks(graph: Graph, pinned: Mapping[str, object]) -> Blocks | None:
    """Return the longest row of alike blocks, None without ``LEAST`` of them.

    Copies of what is written again later would have to be told apart: such rows are left out. ``pinned``: node name ->
    what a user asked of it.
    """
    if len(graph.nodes) < LEAST:
        return None
    kinds = _kinds(graph, pinned)
    found = [_row(graph, kinds, size) for size in _sizes(kinds)]
    rows = [row for row in found if row and row.number >= LEAST and not _written_again(graph, row)]
    return max(rows, key=lambda row: (row.number * row.size, -row.size), default=None)


def _written_again(graph: Graph, row: Blocks) -> bool:
    """Return whether a node behind the blocks writes in place to what differs from block to block: states in codes,
    say, whose conversions are alike."""
    parts = (part for node in graph.nodes[row.end :] for part in (node, *node.epilogue))
    return any(part.op == "Append" and row.names.moves(part.inputs[0]) for part in parts)


def _sizes(kinds: Ints) -> list[int]:
    """From a node to the next that looks like it: the distances that occur most often."""
    last: dict[int, int] = {}
    gaps: Counter[int] = Counter()
    for index, kind in enumerate(kinds.tolist()):
        if kind in last:
            gaps[index - last[kind]] += 1
        last[kind] = index
    return [gap for gap, _ in gaps.most_common(GAPS)]


def _row(graph: Graph, kinds: Ints, size: int) -> Blocks | None:
    """The longest row of blocks of ``size`` nodes."""
    same = np.flatnonzero(np.diff(np.concatenate([[False], kinds[size:] == kinds[:-size], [False]]).astype(int)))
    best: tuple[int, int, dict[str, str]] = (0, 0, {})
    for start, end in same.reshape(-1, 2).tolist():
        at = start
        while end - at > max(best[1] - best[0], (LEAST - 1) * size - 1):
            upto, following = _wired(graph, at, end, size)
            best = max(best, (at, upto, following), key=lambda row: row[1] - row[0])
            at = max(upto, at + 1)
    first, upto, following = best
    if upto == first:
        return None
    return Blocks(first, size, (upto - first) // size + 1, Chains(following))


def _wired(graph: Graph, start: int, end: int, size: int) -> tuple[int, dict[str, str]]:
    """Up to which node from ``start`` on each is wired as the one ``size`` later, and which name follows which."""
    following: dict[str, str] = {}
    before: dict[str, str] = {}
    nodes = graph.nodes
    for index in range(start, end):
        pairs = dict(zip(_names(nodes[index]), _names(nodes[index + size]), strict=True))
        fits = all(
            following.get(one, other) == other and before.get(other, one) == one and " " not in one + other
            for one, other in pairs.items()
        )
        if not fits or len(set(pairs.values())) != len(pairs):
            return index, following
        following |= pairs
        before |= {other: one for one, other in pairs.items()}
    return end, following


def _names(node: Node) -> list[str]:
    """Names of a node and of all tensors that it or its epilogue names, each once."""
    parts = (node, *node.epilogue)
    return list(dict.fromkeys([node.name, *(name for part in parts for name in (*part.inputs, *part.outputs) if name)]))


def _kinds(graph: Graph, pinned: Mapping[str, object]) -> Ints:
    """A number for each node; those of one number differ in nothing but names and values."""
    ends = [frozenset(names) for names in (graph.inputs, graph.outputs, graph.states, graph.staying)]
    roles = {name: tuple(name in names for names in ends) for name in graph.tensors}
    known: dict[Hashable, int] = {}
    kinds = []
    for node in graph.nodes:
        kind = (_kind(graph, node, roles), _frozen(pinned.get(node.name)))
        kinds.append(known.setdefault(kind, len(known)))
    return np.array(kinds, np.int64)


def _kind(graph: Graph, node: Node, roles: Mapping[str, Hashable]) -> Hashable:
    parts, places = [], {name: place for place, name in enumerate(_names(node))}
    for part in (node, *node.epilogue):
        ends = tuple(tuple(places.get(name, -1) for name in names) for names in (part.inputs, part.outputs))
        parts.append((part.op, _frozen(part.attrs), part.engine, part.format, ends))
    tensors = tuple(
        (_tensor(graph.tensors[name]), roles[name]) if name in graph.tensors else None
        for name in places
        if name != node.name
    )
    return tuple(parts), tensors


def _tensor(tensor: Tensor) -> Hashable:
    quant = tensor.quant and (np.shape(tensor.quant.scale), tensor.quant.zero_point, tensor.quant.axis)
    return tensor.shape, tensor.dtype, tensor.stored, tensor.sparse, tensor.is_constant, quant


def _frozen(value: object) -> Hashable:
    """A value of an attribute as something that can be compared and hashed."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _frozen(entry)) for key, entry in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_frozen(entry) for entry in value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
