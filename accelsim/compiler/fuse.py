"""Fuse: what runs on the results of a node before they are written, as ``Node.epilogue``."""

from __future__ import annotations

from math import prod

import numpy as np

from accelsim.compiler import edit
from accelsim.compiler.place import gemm_view
from accelsim.compiler.sides import channel_axis
from accelsim.compiler.state import State
from accelsim.spec.models import Chip
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops import base

ELEMENTWISE = frozenset({"elementwise", "quantise"})
"""Kinds of ops that work element by element."""

PARAMETERS = ("scale", "multiplier", "zero_point")
"""Attributes of a quantisation step that may hold several values."""

PARTIAL_SUM_B = 4
"""Bytes of one partial sum."""


def fuse(state: State) -> None:
    """Split the bias of matrix nodes off into an epilogue node ``Bias``, then fuse followers.

    A follower is fused when nobody else reads what lies between, its result has the same shape and it works
    element by element (its other operands broadcast). Behind a matrix node one pooling may come last, when
    the open sums of one image fit half of the accumulators. Matrix nodes go first, later ones before earlier
    ones, so that an Add of two branches is fused into the branch that is computed last. With
    ``options.fuse`` False, or results that do not pass the vector unit, only the bias is.
    """
    graph = state.graph
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        if node.engine == "matrix":
            graph.nodes += _split_bias(graph, node)
        graph.nodes.append(node)
    absorbed = _absorb_all(state)
    edit.sort(graph)
    if absorbed:
        state.notes.append(f"fuse: {absorbed} nodes fused behind the node that feeds them")


def _split_bias(graph: Graph, node: Node) -> list[Node]:
    """Conv(x, w, b) -> y becomes Conv(x, w) -> y.sum, then Bias(y.sum, b) -> y in its epilogue.

    A bias that is computed (in a training step) is an operand like any other: an Add. Returns the nodes to put in
    front of ``node``: the view of such a bias that broadcasts.
    """
    if node.op == "ExpertMatMul":  # its third input says which weights, and no bias
        return []
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    del node.inputs[2:]
    if not bias:
        return []
    out, axis = graph.tensors[node.outputs[0]], channel_axis(graph, node)
    assert axis is not None  # a Conv or a Gemm has channels
    total = edit.add_tensor(graph, f"{out.name}.sum", out.shape, out.dtype)
    node.outputs = [total]
    if graph.tensors[bias].is_constant:
        part = Node(f"{node.name}.bias", "Bias", [total, bias], [out.name], {"axis": axis}, engine="vector")
        node.epilogue = [part]
        return []
    shape = [-1 if index == axis else 1 for index in range(axis, len(out.shape))]
    shape[0] = graph.tensors[bias].elements
    view = edit.add_tensor(graph, f"{bias}.view", tuple(shape), graph.tensors[bias].dtype)
    node.epilogue = [Node(f"{node.name}.bias", "Add", [total, view], [out.name], {}, engine="vector")]
    return [Node(f"{node.name}.bias.view", "Reshape", [bias], [view], {"shape": shape}, engine="alias")]


def _absorb_all(state: State) -> int:
    graph, consumers = state.graph, state.graph.consumers()
    gone: list[Node] = []
    absorbed: set[int] = set()
    last_first = graph.nodes[::-1]
    for node in sorted(last_first, key=lambda node: node.engine != "matrix"):
        while id(node) not in absorbed and (follower := _follower(state, consumers, node)) is not None:
            for name in follower.reads:
                consumers[name] = [node if reader is follower else reader for reader in consumers[name]]
            node.epilogue += edit.parts(follower)
            gone.append(follower)
            absorbed.add(id(follower))
    edit.drop(graph, gone)
    return len(gone)


def _follower(state: State, consumers: dict[str, list[Node]], node: Node) -> Node | None:
    """The node to fuse behind ``node`` next, or None."""
    graph = state.graph
    if node.engine not in ("matrix", "vector") or len(node.writes) != 1 or _ends_in_pool(node):
        return None
    follower = edit.only_consumer(graph, consumers, node.writes[0])
    if follower is None or follower.engine != "vector" or len(follower.outputs) != 1:
        return None
    if follower.op == "Bias" and node.engine == "matrix" and not node.epilogue:
        return follower
    if not state.options.fuse:
        return None
    rule = _behind_matrix if node.engine == "matrix" else _behind_vector
    return follower if rule(state, node, follower) else None


def _ends_in_pool(node: Node) -> bool:
    return bool(node.epilogue) and _kind(node.epilogue[-1]) == "pool"


def _kind(node: Node) -> str:
    return base.get(node.op).kind


def _behind_matrix(state: State, node: Node, follower: Node) -> bool:
    assert state.chip.matrix is not None
    if not state.chip.matrix.epilogue:
        return False
    along = all(_along_channels(state.graph, node, part) for part in edit.parts(follower))
    return (along and _is_elementwise(state.graph, node, follower)) or _pools(state, node, follower)


def _along_channels(graph: Graph, node: Node, part: Node) -> bool:
    """Whether the parameters of a step between codes and numbers are one each, or one per channel of ``node``.

    Results leave the accumulators tile by tile, and only channels are cut out of parameters.
    """
    if _kind(part) != "quantise":
        return True
    values = [part.attrs[name] for name in PARAMETERS if name in part.attrs]
    single = all(np.size(value) == 1 for value in values)
    axis = channel_axis(graph, node)
    return single or (axis is not None and part.attrs.get("axis") == axis and not part.attrs.get("block"))


def _behind_vector(state: State, node: Node, follower: Node) -> bool:
    return _kind(node) in ELEMENTWISE and _is_elementwise(state.graph, node, follower)


def _is_elementwise(graph: Graph, node: Node, follower: Node) -> bool:
    """Whether ``follower`` maps each element of the result of ``node`` to one in the same place."""
    result, parts = node.writes[0], edit.parts(follower)
    if follower.inputs.count(result) != 1 or any(result in part.inputs for part in follower.epilogue):
        return False
    shape = graph.tensors[result].shape
    same = all(graph.tensors[name].shape == shape for part in parts for name in part.outputs)
    return same and all(_kind(part) in ELEMENTWISE for part in parts)


def _pools(state: State, node: Node, follower: Node) -> bool:
    """Whether ``follower`` pools a convolution whose sums of one image fit half of the accumulators."""
    if _kind(follower) != "pool" or follower.epilogue or node.op != "Conv":
        return False
    view = gemm_view(state.graph, node)
    if view is None or view.conv is None or state.chip.matrix is None:
        return False
    needed_B = prod(view.conv.out) * state.chip.matrix.cols * PARTIAL_SUM_B
    return needed_B <= accumulator_B(state.chip) // 2


def accumulator_B(chip: Chip) -> int:
    """Capacity of the buffers that hold partial sums, B."""
    return int(sum(buffer.capacity for buffer in chip.buffers.values() if "partial_sums" in buffer.holds))
