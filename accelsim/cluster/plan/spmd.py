"""Nodes of graphs for several ranks: collectives, a rank's own part, and tables that are split by rows.

All ranks of a group run the same graph. ``attrs['group']`` says between which ranks: 'tp', 'ep', 'cp' or 'dp'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.ops.experts import spread_of

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Spmd:
    """One kind of node. ``shape(node, shapes of inputs, ranks)`` -> that of the result. ``sent(shapes of inputs,
    ranks)``: elements of the message that its collective is asked for (of the whole result for AllGather, of the whole
    input for the others, of rows to experts and back); 0: nothing is sent. ``kind``: the collective, '' for none.
    ``what`` it does.
    """

    kind: str
    shape: Callable[[Node, list[Shape], int], Shape]
    sent: Callable[[list[Shape], int], int]
    what: str


def _same(node: Node, shapes: list[Shape], ranks: int) -> Shape:
    return shapes[0]


def _gathered(node: Node, shapes: list[Shape], ranks: int) -> Shape:
    axis, shape = node.attrs["axis"], shapes[0]
    return (*shape[:axis], shape[axis] * ranks, *shape[axis + 1 :])


def _part(node: Node, shapes: list[Shape], ranks: int) -> Shape:
    axis, shape = node.attrs["axis"], shapes[0]
    return (*shape[:axis], shape[axis] // ranks, *shape[axis + 1 :])


def _rows(node: Node, shapes: list[Shape], ranks: int) -> Shape:
    axis, (data, indices) = node.attrs["axis"], shapes
    return (*data[:axis], *indices, *data[axis + 1 :])


def _table(node: Node, shapes: list[Shape], ranks: int) -> Shape:
    axis, (grad, indices) = node.attrs["axis"], shapes
    return (*grad[:axis], node.attrs["size"], *grad[axis + len(indices) :])


def _by_experts(node: Node, shapes: list[Shape], ranks: int) -> Shape:
    _, (experts, _, columns), chosen = shapes
    even = spread_of(node, chosen, experts * ranks)
    return (even.groups * even.rows, columns)


def _nothing(shapes: list[Shape], ranks: int) -> int:
    return 0


def _input(shapes: list[Shape], ranks: int) -> int:
    return prod(shapes[0])


def _result(shapes: list[Shape], ranks: int) -> int:
    return ranks * prod(shapes[0])


def _mixed(node: Node, shapes: list[Shape], ranks: int) -> Shape:
    q, _, v = shapes
    return (*q[:-1], v[-1])


def _round(shapes: list[Shape], ranks: int) -> int:
    return (ranks - 1) * sum(map(prod, shapes[1:]))


def _there_and_back(shapes: list[Shape], ranks: int) -> int:
    return prod(shapes[2]) * sum(shapes[1][1:])


SPMD: dict[str, Spmd] = {
    "AllReduce": Spmd("all_reduce", _same, _input, "the sum (or maximum) over all ranks"),
    "AllGather": Spmd("all_gather", _gathered, _result, "the parts of all ranks along an axis"),
    "ReduceScatter": Spmd("reduce_scatter", _part, _input, "a part along an axis of the sum of all ranks"),
    "ExpertExchange": Spmd("all_to_all", _by_experts, _there_and_back, "ExpertMatMul, of experts on several ranks"),
    "RingAttention": Spmd("send_recv", _mixed, _round, "attention to the tokens of all ranks, whose keys go round"),
    "Part": Spmd("", _part, _nothing, "the rank's own part along an axis of what every rank has whole"),
    "GatherPart": Spmd("", _rows, _nothing, "Gather from a table split along the axis: 0 where another rank has it"),
    "GatherGradPart": Spmd("", _table, _nothing, "GatherGrad for a table split along the axis: the rank's own rows"),
}
"""Op -> what it is."""


def add(
    graph: Graph, nodes: list[Node], op: str, inputs: list[str], name: str, ranks: int, **attrs: float | str
) -> str:
    """Append a node of ``SPMD`` with its result ``name`` to ``nodes``; its tensor to ``graph``. Returns the name."""
    node = Node(name, op, inputs, [name], dict(attrs))
    shape = SPMD[op].shape(node, [graph.tensors[given].shape for given in inputs], ranks)
    dtype = graph.tensors[inputs[0]].dtype
    graph.tensors[name] = Tensor(name, shape, dtype)
    nodes.append(node)
    return name


@dataclass(frozen=True)
class Collective:
    """One collective of a graph: the node, its kind ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all',
    'send_recv'), the bytes of the whole message (the full array, not a rank's part of it) and the group it runs in."""

    node: str
    kind: str
    nbytes: int
    group: str


def collectives(graph: Graph, ranks: int) -> list[Collective]:
    """Return the collectives of ``graph`` in order. ``ranks``: size of their group."""
    found = []
    for node in graph.nodes:
        row = SPMD.get(node.op)
        if row is not None and row.kind:
            tensor = graph.tensors[node.inputs[0]]
            sent = row.sent([graph.tensors[name].shape for name in node.inputs], ranks)
            found.append(Collective(node.name, row.kind, tensor.size_B(sent), node.attrs["group"]))
    return found
