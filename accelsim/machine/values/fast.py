"""Value policy ``fast``: each node is computed at once when its last command completes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from accelsim.formats.dot import rule_of
from accelsim.machine.values.batch import part_of_batch, whole_batch
from accelsim.machine.values.gating import gates_zeros, of_node
from accelsim.program.commands import Command, Use
from accelsim.program.program import Program
from accelsim.types import Array
from accelsim.workload.execute import run_node
from accelsim.workload.graph import Graph, Node
from accelsim.workload.multiply import entering
from accelsim.workload.nodes import is_product
from accelsim.workload.ops.values import contain


def by_library(node: Node) -> Node:
    """A node whose float products a library may add in its own order, where a rule of blocks says how."""
    rule = node.attrs.get("dot", "")
    if not rule or rule_of(rule).kernel is not None:
        return node
    return replace(node, attrs={name: value for name, value in node.attrs.items() if name != "dot"})


class Fast:
    """One set of values per core."""

    def __init__(self, program: Program, feeds: dict[str, Array], keep: bool) -> None:
        self._program, self._keep = program, keep
        self._gating = gates_zeros(program.chip)
        self.nonzero_macs: dict[int, int] = {}
        self.mail: dict[str, Array] = {}
        self._cores = [_Values(program.graph, self._feeds(feeds, core), keep) for core in range(program.cores)]

    def _feeds(self, feeds: dict[str, Array], core: int) -> dict[str, Array]:
        """Inputs of one core, in the formats of their tensors."""
        graph, cores = self._program.graph, self._program.cores
        tensors = [graph.tensors[name] for name in graph.inputs if name not in self._program.received]
        return {
            tensor.name: contain(part_of_batch(feeds[tensor.name], core, cores, tensor.shape), tensor.dtype)
            for tensor in tensors
        }

    def read(self, command: Command, use: Use) -> None:
        """Do nothing: the node reads its operands by name when it completes."""

    def forget(self, region: int) -> None:
        """Do nothing: regions hold no values under this policy."""

    def complete(self, command: Command) -> None:
        """Run the node with its last command; a message goes into the mail, or comes out of it."""
        effect = command.effect
        if effect.what == "send":
            self.mail[effect.tensor] = self._cores[command.core].get(effect.operands[0][0])
        if effect.what == "receive":
            self._cores[command.core].put(effect.operands[0][0], self.mail.pop(effect.tensor))
        if command.effect.last and command.effect.what in ("node", "epilogue", "append"):
            node = self._program.steps[command.op].node
            values = self._cores[command.core]
            if self._gating and is_product(node):
                self.nonzero_macs[command.op] = self.nonzero_macs.get(command.op, 0) + values.nonzero_macs(node)
            values.run(node)

    def outputs(self) -> dict[str, Array]:
        """Graph outputs by name."""
        return self._together(list(self._program.graph.outputs))

    def kept(self) -> dict[str, Array]:
        """Every tensor, when asked to keep them."""
        return self._together(self._cores[0].names()) if self._keep else {}

    def _together(self, names: list[str]) -> dict[str, Array]:
        return {name: whole_batch([values.get(name) for values in self._cores]) for name in names}


class _Values:
    """Values by tensor name; freed after their last reader unless ``keep``."""

    def __init__(self, graph: Graph, feeds: dict[str, Array], keep: bool) -> None:
        self._graph, self._values, self._keep = graph, feeds, keep
        self._left = Counter(name for node in graph.nodes for name in node.reads)
        self._left.update(graph.outputs)
        self._views = {node.writes[0]: node for node in graph.nodes if node.engine == "alias"}

    def run(self, node: Node) -> None:
        """Compute a node; views that it reads are made now, for they have no command."""
        for name in node.reads:
            self._make(name)
        computed = run_node(by_library(node), self._graph, self._values)
        self._values.update(zip(node.writes, computed, strict=True))
        if self._keep:
            return
        for name in node.reads:
            self._left[name] -= 1
            if self._left[name] <= 0:
                self._values.pop(name, None)

    def nonzero_macs(self, node: Node) -> int:
        """Multiplications of a matrix node that have no zero operand."""
        for name in node.inputs:
            self._make(name)
        tensors = self._graph.tensors
        a, b = (entering(self._operand(name), tensors[name].dtype, node.format) for name in node.inputs[:2])
        return of_node(node, self._graph, [a, b, *(self._operand(name) for name in node.inputs[2:])])

    def _operand(self, name: str) -> Array:
        return self._values[name] if name in self._values else self._graph.tensors[name].value()

    def _make(self, name: str) -> None:
        if name not in self._values and name in self._views:
            self.run(self._views[name])

    def get(self, name: str) -> Array:
        """A tensor by name."""
        self._make(name)
        return self._values[name] if name in self._values else self._read_constant(name)

    def put(self, name: str, value: Array) -> None:
        """A tensor that came from elsewhere."""
        self._values[name] = value

    def _read_constant(self, name: str) -> Array:
        """A constant that is an output, or a view of which no command is the last."""
        tensor = self._graph.tensors[name]
        return contain(tensor.value(), tensor.dtype)

    def names(self) -> list[str]:
        """All tensors that exist."""
        return [*self._values, *(name for name in self._views if name not in self._values)]
