"""Facts about a graph's tensors for a layout: their readers, and the memories in which they start."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import NamedTuple

from accelsim.program.roles import HOST, Roles
from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.nodes import is_product, readers_behind_views


class GraphFacts:
    """Facts about the tensors of ``graph`` on a core with these ``roles``. ``roots``: view of a tensor -> the tensor
    whose bytes it shows."""

    def __init__(self, graph: Graph, roles: Roles) -> None:
        self.graph, self.roles = graph, roles
        self.consumers, self.staying = graph.once("consumers", graph.consumers), graph.staying
        self.readers = graph.once("readers", self._readers)
        self.roots = graph.once("roots", self._roots)
        self._epilogues = graph.once("epilogues", dict[int, EpilogueReads])  # by id of the node
        self._homes: dict[str, str] = {}  # next value of a state -> its memory

    def _readers(self) -> dict[str, list[Node]]:
        return {name: [n for n in nodes if n.engine != HOST] for name, nodes in self.consumers.items()}

    def _roots(self) -> dict[str, str]:
        roots: dict[str, str] = {}
        for node in self.graph.nodes:
            if node.engine == "alias":
                roots[node.writes[0]] = roots.get(node.reads[0], node.reads[0])
        return roots

    def activations(self, node: Node) -> list[str]:
        """Return what a node reads that is no constant."""
        return [name for name in node.reads if not self.graph.tensors[name].is_constant]

    def constants(self, node: Node) -> list[str]:
        """The constants that a node reads."""
        return [name for name in node.reads if self.graph.tensors[name].is_constant]

    def epilogue_reads(self, node: Node) -> EpilogueReads:
        """``sides.epilogue_reads`` of a node of the graph, worked out once."""
        found = self._epilogues.get(id(node))
        if found is None:
            found = self._epilogues[id(node)] = epilogue_reads(self.graph, node)
        return found

    def only_leaves(self, tensor: str) -> bool:
        """Return whether nobody on the chip reads a tensor: it is a result of the graph, or only the host needs it."""
        return not self.readers.get(tensor)

    def input_home(self, tensor: Tensor) -> str:
        """Graph inputs arrive at the host; states stay where they are used, see ``state_home``."""
        late = self.graph.states.get(tensor.name)
        return self.roles.host_home if late is None else self.state_home(late)

    def state_home(self, late: str) -> str:
        """Memory of a state, given as its next value: where the weights are; of a cache that only the host reads, that
        of the host.
        """
        if self.graph.trains:
            return self.roles.weights_home
        if late not in self._homes:
            readers = {node.engine for node in readers_behind_views(self.consumers, late)}
            self._homes[late] = self.roles.host_home if readers == {HOST} else self.roles.weights_home
        return self._homes[late]

    def room_B(self, tensor: Tensor) -> int:
        """Bytes to reserve for a tensor: of a state that grows in place, those that it will have."""
        later = self.graph.tensors[self.graph.states.get(tensor.name, tensor.name)]
        return max(tensor.nbytes, later.nbytes)

    def alike_products(self, node: Node) -> int:
        """Return how many products of the graph have operands of the shapes that those of ``node`` have."""
        return self._alike[self._shapes(node)]

    @cached_property
    def _alike(self) -> Counter[tuple[tuple[int, ...], ...]]:
        return self.graph.once("alike", lambda: Counter(map(self._shapes, filter(is_product, self.graph.nodes))))

    def _shapes(self, node: Node) -> tuple[tuple[int, ...], ...]:
        return tuple(self.graph.tensors[name].shape for name in node.inputs[:2])

    @cached_property
    def weight_B(self) -> float:
        """Bytes of one weight: those of the widest constant operand of a matrix node."""
        nodes = [node for node in self.graph.nodes if is_product(node) and len(node.inputs) > 1]
        tensors = [self.graph.tensors[node.inputs[1]] for node in nodes]
        return max((tensor.element_B for tensor in tensors if tensor.is_constant), default=1.0)


class EpilogueReads(NamedTuple):
    """``parameters``: constants with at most one value per channel (bias, scales), which the vector unit keeps in
    registers. ``sides``: operands with values of their own for every result: residuals (the node's own input may be
    one), masks."""

    parameters: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()


def epilogue_reads(graph: Graph, node: Node) -> EpilogueReads:
    """Return what the epilogue of a matrix node reads beside its sums."""
    names = _epilogue_reads(node) if node.epilogue else []
    if not names:
        return EpilogueReads()
    biases = {part.inputs[1] for part in node.epilogue if part.op == "Bias"}
    result, axis = graph.tensors[node.outputs[0]].shape, channel_axis(graph, node)
    kept = {
        name
        for name in names
        if graph.tensors[name].is_constant and (name in biases or per_channel(graph.tensors[name].shape, result, axis))
    }
    return EpilogueReads(
        tuple(name for name in names if name in kept), tuple(name for name in names if name not in kept)
    )


def channel_axis(graph: Graph, node: Node) -> int | None:
    """Axis of the output channels in the result of a matrix op: 1 for a Conv, the last one for a product.

    None for a matrix times a vector: its one column is no axis of the result, whose last axis are the rows.
    """
    if node.op == "Conv":
        return 1
    if len(graph.tensors[node.inputs[1]].shape) < 2:
        return None
    return len(graph.tensors[node.outputs[0]].shape) - 1


def per_channel(shape: tuple[int, ...], result: tuple[int, ...], axis: int | None) -> bool:
    """Return whether a tensor of ``shape`` that broadcasts to ``result`` holds at most one value per channel."""
    aligned = (1,) * (len(result) - len(shape)) + tuple(shape)
    return all(extent == 1 for position, extent in enumerate(aligned) if position != axis)


def _epilogue_reads(node: Node) -> list[str]:
    inside = {name for part in (node, *node.epilogue) for name in part.outputs}
    names = dict.fromkeys(name for part in node.epilogue for name in part.inputs if name)
    return [name for name in names if name not in inside]
