"""Fuse: what runs on the results of a node before they are written, as ``Node.epilogue``."""

from __future__ import annotations

from collections import Counter
from math import prod

import numpy as np

from accelsim.compiler.graph import edit
from accelsim.compiler.state import EAGER, State
from accelsim.errors import count_of
from accelsim.program.roles import ON_THE_WAY, function_unit, function_units, units
from accelsim.program.writing.facts import channel_axis
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import gemm_view, is_function, is_product
from accelsim.workload.ops import base
from accelsim.workload.ops.base import Shape

ELEMENTWISE = frozenset({"elementwise", "quantise"})
"""Kinds of ops that work element by element."""

PARAMETERS = ("scale", "multiplier", "zero_point")
"""Attributes of a quantisation step that may hold several values."""


def fuse(state: State) -> None:
    """Split the bias of matrix nodes off into an epilogue node ``Bias``, then fuse followers.

    A follower is fused when nobody else reads what lies between, its result has the same shape and it works
    element by element (its other operands broadcast). Behind a matrix node one pooling may come last, when
    the open sums of one image fit half of the accumulators. Matrix nodes go first, later ones before earlier
    ones, so that an Add of two branches is fused into the branch that is computed last. With
    ``options.fusion`` 'eager' or 'sdpa', or results that do not pass the vector unit, only the bias is, and with these
    what belongs to the gradient of one function.
    """
    graph = state.graph
    nodes, graph.nodes, functions = graph.nodes, [], function_unit(state.chip)
    for node in nodes:
        if is_product(node):
            graph.nodes += _split_bias(graph, node, functions.name if functions else node.engine)
        graph.nodes.append(node)
    absorbed = _absorb_all(state)
    edit.sort(graph)
    if absorbed:
        state.notes.append(f"fuse: {count_of(absorbed, 'node')} fused into the node that feeds them")


def _split_bias(graph: Graph, node: Node, engine: str) -> list[Node]:
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
        part = Node(f"{node.name}.bias", "Bias", [total, bias], [out.name], {"axis": axis}, engine=engine)
        node.epilogue = [part]
        return []
    shape = [-1 if index == axis else 1 for index in range(axis, len(out.shape))]
    shape[0] = graph.tensors[bias].elements
    view = edit.add_tensor(graph, f"{bias}.view", tuple(shape), graph.tensors[bias].dtype)
    node.epilogue = [Node(f"{node.name}.bias", "Add", [total, view], [out.name], {}, engine=engine)]
    return [Node(f"{node.name}.bias.view", "Reshape", [bias], [view], {"shape": shape}, engine="alias")]


def _absorb_all(state: State) -> int:
    absorbing = _Absorbing(state)
    last_first = state.graph.nodes[::-1]
    for node in sorted(last_first, key=lambda node: not is_product(node)):
        absorbing.behind(node)
    return absorbing.finish()


class _Absorbing:
    """Nodes while they are fused. Everything about a node that has absorbed others is kept up to date with each of
    them, so that a chain of n nodes takes n steps, in whatever order its links are closed.
    """

    def __init__(self, state: State) -> None:
        self.state, self.graph = state, state.graph
        self.outputs = frozenset(self.graph.outputs)
        self.readers = self.graph.consumers()
        self.times = Counter(name for node in self.graph.nodes for part in edit.parts(node) for name in part.inputs)
        self.taken: dict[int, Node] = {}
        """Node that was absorbed -> the one that absorbed it."""
        self.followers: dict[int, list[Node]] = {}
        """Node -> what it absorbed itself, in order."""
        self.ends: dict[int, Node] = {}
        """Node -> the last node of all that it absorbed."""
        self.shapes: dict[int, Shape | None] = {}
        """Node -> shape of all its results where every part works element by element, else None."""
        self.engines = function_units(state.chip)
        self.functions: dict[int, set[str]] = {}
        """Node -> functions among its parts, see ``_functions``; kept only where engines differ in them."""

    def behind(self, node: Node) -> None:
        """Absorb what can be fused behind a node that is still there."""
        while id(node) not in self.taken and (follower := self._follower(node)) is not None:
            shape, more = self._shape(node), self._shape(follower)
            self.shapes[id(node)] = shape if shape == more else None
            if len(self.engines) > 1:
                self.functions[id(node)] = self._functions(node) | self._functions(follower)
            self.followers.setdefault(id(node), []).append(follower)
            self.ends[id(node)] = self.ends.get(id(follower), follower)
            self.taken[id(follower)] = node

    def finish(self) -> int:
        """Write the epilogues, take out what was absorbed; returns how many nodes went."""
        for node in self.graph.nodes:
            if id(node) not in self.taken and id(node) in self.followers:
                node.epilogue += self._parts_behind(node)
                self._move(node)
        gone = [node for node in self.graph.nodes if id(node) in self.taken]
        edit.drop(self.graph, gone)
        return len(gone)

    def _move(self, node: Node) -> None:
        """Functions that became one node run on the first engine that does all of them."""
        unit = function_unit(self.state.chip, self.functions.get(id(node), ()))
        if unit is not None and len(self.engines) > 1 and is_function(node):
            node.engine = unit.name

    def _parts_behind(self, node: Node) -> list[Node]:
        """Parts of everything that was absorbed behind a node, in order; without recursion, for chains are long."""
        found, left = list[Node](), self.followers[id(node)][::-1]
        while left:
            follower = left.pop()
            found += edit.parts(follower)
            left += self.followers.get(id(follower), [])[::-1]
        return found

    def _follower(self, node: Node) -> Node | None:
        """The node to fuse behind ``node`` next, or None."""
        end = self.ends.get(id(node), node)
        fusible = is_product(node) or is_function(node)
        if not fusible or len(end.writes) != 1 or _ends_in_pool(node, end):
            return None
        follower = self._only_reader(end.writes[0])
        if follower is None or not is_function(follower) or len(follower.outputs) != 1:
            return None
        if follower.op == "Bias" and is_product(node) and not node.epilogue and end is node:
            return follower
        if self.state.options.fusion in EAGER and not _one_call(node, follower):
            return None
        rule = self._behind_product if is_product(node) else self._behind_function
        return follower if rule(node, end.writes[0], follower) else None

    def _only_reader(self, name: str) -> Node | None:
        """The node that reads a tensor now, when there is one and the graph does not return the tensor."""
        nodes = self.readers.get(name, [])
        return self._holder(nodes[0]) if len(nodes) == 1 and name not in self.outputs else None

    def _holder(self, node: Node) -> Node:
        """The node that holds another one now; the way to it is made shorter for the next time."""
        path = [node]
        while id(path[-1]) in self.taken:
            path.append(self.taken[id(path[-1])])
        for passed in path[:-1]:
            self.taken[id(passed)] = path[-1]
        return path[-1]

    def _shape(self, node: Node) -> Shape | None:
        if id(node) not in self.shapes:
            parts = edit.parts(node)
            shapes = {self.graph.tensors[name].shape for part in parts for name in part.outputs if name}
            single = len(shapes) == 1 and all(_kind(part) in ELEMENTWISE for part in parts)
            self.shapes[id(node)] = shapes.pop() if single else None
        return self.shapes[id(node)]

    def _behind_product(self, node: Node, result: str, follower: Node) -> bool:
        if not units(self.state.chip)[node.engine].spec.has_epilogue:
            return False
        if not self._one_engine(node, follower):
            return False
        along = all(_along_channels(self.graph, node, part) for part in self._all_parts(follower))
        return (along and self._is_elementwise(result, follower)) or self._pools(node, follower)

    def _all_parts(self, node: Node) -> list[Node]:
        behind = self._parts_behind(node) if id(node) in self.followers else []
        return [*edit.parts(node), *behind]

    def _behind_function(self, node: Node, result: str, follower: Node) -> bool:
        if not self._one_engine(node, follower):
            return False
        return _kind(node) in ELEMENTWISE and self._is_elementwise(result, follower)

    def _one_engine(self, node: Node, follower: Node) -> bool:
        """Return whether one engine of the chip does all functions of both; where there is only one, it does."""
        if len(self.engines) < 2:
            return True
        ops = self._functions(node) | self._functions(follower)
        return any(ops <= unit.spec.functions.keys() for unit in self.engines)

    def _functions(self, node: Node) -> set[str]:
        """Functions among the parts of a node and of all that it absorbed."""
        if id(node) not in self.functions:
            parts = node.epilogue if is_product(node) else edit.parts(node)
            self.functions[id(node)] = {part.op for part in parts} - ON_THE_WAY
        return self.functions[id(node)]

    def _is_elementwise(self, result: str, follower: Node) -> bool:
        """Return whether ``follower`` maps each element of ``result`` to one in the same place."""
        if follower.inputs.count(result) != 1 or self.times[result] != 1:
            return False
        return self._shape(follower) == self.graph.tensors[result].shape

    def _pools(self, node: Node, follower: Node) -> bool:
        return id(follower) not in self.followers and _pools(self.state, node, follower)


def _one_call(node: Node, follower: Node) -> bool:
    """Return whether both are of the gradient of one function, for which a framework has a kernel of its own."""
    return bool(node.part_of) and node.part_of == follower.part_of and not is_product(node)


def _ends_in_pool(node: Node, end: Node) -> bool:
    """Return whether the last part behind ``node``, which is the last of ``end``, is a pooling."""
    last = edit.parts(end)[-1]
    return last is not node and _kind(last) == "pool"


def _kind(node: Node) -> str:
    return base.get(node.op).kind


def _along_channels(graph: Graph, node: Node, part: Node) -> bool:
    """Return whether the parameters of a step between codes and numbers are one each, or one per channel of ``node``.

    Results leave the accumulators tile by tile, and only channels are cut out of parameters.
    """
    if _kind(part) != "quantise":
        return True
    values = [part.attrs[name] for name in PARAMETERS if name in part.attrs]
    single = all(np.size(value) == 1 for value in values)
    axis = channel_axis(graph, node)
    return single or (axis is not None and part.attrs.get("axis") == axis and not part.attrs.get("block"))


def _pools(state: State, node: Node, follower: Node) -> bool:
    """Return whether ``follower`` pools a convolution whose sums of one image fit half of the accumulators."""
    if _kind(follower) != "pool" or follower.epilogue or node.op != "Conv":
        return False
    view = gemm_view(state.graph, node)
    if view is None or view.conv is None:
        return False
    seen = ((chip, units(chip)[node.engine]) for chip in state.chip.views())
    return all(unit.spec.pools(chip, prod(view.conv.out)) for chip, unit in seen)
