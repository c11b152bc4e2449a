"""Join: moves and elementwise functions around each other become one kernel, as serving stacks write theirs by hand.

Rotary positions are six such nodes (halves, swapped, two products, their sum, rows by head) and one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accelsim.compiler.graph import edit
from accelsim.compiler.graph.attend import merged
from accelsim.compiler.graph.fuse import ELEMENTWISE
from accelsim.compiler.state import SERVING, State
from accelsim.errors import count_of
from accelsim.program.roles import units
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import is_function
from accelsim.workload.ops import base

JOINED = ELEMENTWISE | {"move"}
"""Kinds of ops of such a kernel. Views (Reshape) may lie between them."""


def join(state: State) -> None:
    """Take, where ``options.fusion`` is 'serving', into each move or elementwise function those before it whose results
    nothing else reads, with the views between them; on engines that have fused attention.

    What lies between is not rounded to what memories hold. Results of a model that keeps keys and values stay on the
    chip with these: the next token is chosen there.
    """
    if state.options.fusion != SERVING:
        return
    able = {name for name, unit in units(state.chip).items() if unit.spec.attends}
    if able and (state.graph.states or state.graph.kept):
        state.graph.kept += [name for name in state.graph.outputs if name not in state.graph.staying]
    joining = _Joining(state.graph, able)
    for node in reversed(state.graph.nodes):
        joining.before(node)
    if joined := joining.finish():
        state.notes.append(f"join: {count_of(joined, 'node')} joined into the kernel that reads what they give")


class _Joining:
    """A graph while its kernels are joined. ``taken``: node -> the members of its kernel, in order of the graph."""

    def __init__(self, graph: Graph, able: set[str]) -> None:
        self.graph, self.able = graph, able
        self.readers: Mapping[str, Sequence[Node]] = graph.consumers()
        self.writer = {name: node for node in graph.nodes for name in node.writes}
        self.kept = graph.staying.union(graph.outputs)
        self.order = {id(node): place for place, node in enumerate(graph.nodes)}
        self.taken: dict[int, list[Node]] = {}

    def before(self, root: Node) -> None:
        """Take what can be joined into ``root``, the last of its kernel, unless another kernel has it."""
        if id(root) in self.taken or not self._works(root):
            return
        members, left = {id(root): root}, [root]
        while left:
            for name in left.pop().reads:
                node = self.writer.get(name)
                if node is not None and id(node) not in members and self._joins(node, members):
                    members[id(node)] = node
                    left.append(node)
        found = sorted(members.values(), key=lambda node: self.order[id(node)])
        while not self._works(found[0]):  # a view of what another kernel gives
            del found[0]
        if len(found) > 1:
            self.taken |= {id(node): found for node in found}

    def finish(self) -> int:
        """Put each kernel where its last member was; returns how many nodes went."""
        nodes = list[Node]()
        for node in self.graph.nodes:
            members = self.taken.get(id(node), [node])
            if node is members[-1]:
                nodes.append(node if len(members) == 1 else self._kernel(members))
        gone = len(self.graph.nodes) - len(nodes)
        self.graph.nodes = nodes
        return gone

    def _kernel(self, members: Sequence[Node]) -> Node:
        kernel = merged(self.graph, members[0], members[1:])
        kernel.name = members[-1].name
        return kernel

    def _works(self, node: Node) -> bool:
        """Return whether a node is a kernel that moves or works element by element."""
        if node.engine not in self.able or not is_function(node):
            return False
        return {base.get(part.op).kind for part in edit.parts(node)} <= JOINED

    def _joins(self, node: Node, members: Mapping[int, Node]) -> bool:
        """Return whether a node may be joined: nothing but members reads it."""
        view = node.engine == "alias" and not node.epilogue
        inside = all(id(reader) in members for name in node.writes for reader in self.readers[name])
        free = id(node) not in self.taken and self.kept.isdisjoint(node.writes)
        return free and inside and (view or self._works(node))
