"""Cut of a training problem into the stages of a pipeline: graphs of the forward, the backward, and the weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelsim.cluster.plan.objective import Objective
from accelsim.cluster.plan.plan import Recompute
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops import find


@dataclass(frozen=True)
class Stage:
    """A stage of a pipeline. All three graphs read weights by name.

    ``forward`` reads data and ``receives`` (activation -> the stage that makes it); what others read are its outputs.
    ``backward`` reads ``stash`` (tensors of the forward pass, made here or received, that are kept), data, and
    ``gradients`` (tensor -> the later stage that makes it); it first computes again what was not kept, the nodes
    ``again``. ``weight`` is what only gradients of weights need (empty unless they are split off); it reads ``stash``,
    and ``held``, which ``backward`` makes. ``grads``: weight -> tensor, an output of ``backward`` or ``weight``.
    """

    index: int
    weights: tuple[str, ...]
    grads: dict[str, str]
    forward: Graph
    backward: Graph
    weight: Graph
    receives: dict[str, int]
    gradients: dict[str, int]
    stash: tuple[str, ...]
    held: tuple[str, ...]
    again: tuple[str, ...]

    @property
    def stash_B(self) -> int:
        """Bytes that one microbatch keeps from its forward to its backward."""
        graphs = (self.forward, self.backward, self.weight)
        tensors = {name: tensor for graph in graphs for name, tensor in graph.tensors.items()}
        return sum(tensors[name].nbytes for name in self.stash)


def cut(
    made: Objective,
    graph: Graph | None = None,
    block: Mapping[str, int] | None = None,
    recompute: Recompute = "none",
    split: bool = False,
) -> list[Stage]:
    """Cut an objective into stages. ``graph`` and ``block``: a rank's form of its graph (``shard``) and the blocks of
    its nodes, by default its own. ``recompute``: what is not kept; ``split``: gradients of weights apart."""
    return _Cut(made, graph or made.graph, block or made.block, recompute, split).stages()


class _Cut:
    """Makers and readers of each tensor, and their stages."""

    def __init__(
        self, made: Objective, graph: Graph, block: Mapping[str, int], recompute: Recompute, split: bool
    ) -> None:
        self.made, self.graph, self.block, self.split = made, graph, dict(block), split
        self.maker = {name: node for node in graph.nodes for name in node.outputs}
        self.place: dict[str, int] = {}
        for node in graph.nodes:
            self.place[node.name] = self._stage(node)
        self.unkept = _unkept(graph, self.block, set(made.weights), recompute)

    def _stage(self, node: Node) -> int:
        """A node of the backward pass lies where the one lies whose gradient it is; sums, where their last term is."""
        if node.name in self.block:
            return self.made.place[self.block[node.name]]
        owner = node.part_of.removesuffix(".grad")
        if owner in self.block:
            return self.made.place[self.block[owner]]
        makers = [self.maker[name].name for name in node.inputs if name in self.maker]
        return min((self.place[name] for name in makers), default=0)

    def stages(self) -> list[Stage]:
        return [self._one(index) for index in range(self.made.stages)]

    def _one(self, index: int) -> Stage:
        mine = [node for node in self.graph.nodes if self.place[node.name] == index]
        forward = [node for node in mine if node.name in self.block]
        back = [node for node in mine if node.name not in self.block]
        again = self._again(forward, back)
        late = self._late(index, back) if self.split else set()
        backward = [*again, *(node for node in back if node.name not in late)]
        weight = [node for node in back if node.name in late]
        weights = tuple(name for name in self.made.weights if any(name in node.inputs for node in (*forward, *back)))
        grads = {name: self.made.grads[name] for name in weights}
        made_back, made_again = _outputs(back), _outputs(again)
        before = {name for name in _reads([*backward, *weight]) if self._forward(name)}
        stash = before - made_again
        held = _reads(weight) & _outputs(backward)
        outside = _reads([node for node in self.graph.nodes if self.place[node.name] != index])
        outside |= {*self.graph.outputs}
        received = self._received(forward, index)
        b_out = [name for name in _ordered(backward) if name in (outside & made_back) | held]
        graphs = (
            piece(self.graph, forward, f"F{index}", [n for n in _ordered(forward) if n in outside | stash]),
            piece(self.graph, backward, f"B{index}", b_out),
            piece(self.graph, weight, f"W{index}", [n for n in _ordered(weight) if n in outside]),
        )
        later = self._received([*backward, *weight], index)
        gradients = {name: maker for name, maker in later.items() if name not in before}
        kept = tuple(name for name in (*received, *_ordered(forward)) if name in stash)
        made = tuple(name for name in _ordered(backward) if name in held)
        repeated = tuple(node.name for node in again)
        return Stage(index, weights, grads, *graphs, received, gradients, kept, made, repeated)

    def _forward(self, name: str) -> bool:
        return name in self.maker and self.maker[name].name in self.block

    def _received(self, nodes: Sequence[Node], index: int) -> dict[str, int]:
        """Tensors that ``nodes`` read and another stage makes."""
        read = [name for node in nodes for name in node.inputs if name in self.maker]
        places = {name: self.place[self.maker[name].name] for name in read}
        return {name: place for name, place in places.items() if place != index}

    def _again(self, forward: Sequence[Node], back: Sequence[Node]) -> list[Node]:
        """Nodes of the forward pass that must run again, because what they made is wanted and was not kept."""
        wanted, found = _reads(back), []
        for node in reversed(forward):
            if self.unkept.intersection(node.outputs) and wanted.intersection(node.outputs):
                found.append(node)
                wanted.update(node.inputs)
        return found[::-1]

    def _late(self, index: int, back: Sequence[Node]) -> set[str]:
        """Nodes whose results only gradients of weights need: no gradient of an activation depends on them."""
        flows = set(self.made.flows.values())
        elsewhere = _reads([node for node in self.graph.nodes if self.place[node.name] != index])
        needed = (flows | elsewhere) - set(self.made.grads.values())
        late = set()
        for node in reversed(back):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
            else:
                late.add(node.name)
        return late


def _unkept(graph: Graph, block: Mapping[str, int], weights: set[str], recompute: Recompute) -> set[str]:
    """Tensors of the forward pass that are computed again: what costs nothing always, more as ``recompute`` says."""
    forward = [node for node in graph.nodes if node.name in block]
    makers = _outputs(forward)
    still = {*weights, *(tensor.name for tensor in graph.constants())}
    free: set[str] = set()
    for node in forward:
        op = find(node.op)
        if still.issuperset(name for name in node.inputs if name):
            still.update(node.outputs)
            free.update(node.outputs)
        elif node.op == "AllGather" or (op is not None and op.kind == "alias"):
            free.update(node.outputs)
    if recompute == "selective":
        free |= _attention(forward, makers)
    if recompute == "full":
        place = {name: block[node.name] for node in reversed(forward) for name in node.outputs}
        reads = ((name, block[node.name]) for node in forward for name in node.inputs)
        free |= makers - {name for name, reader in reads if name in makers and place[name] < reader}
    return free


def _attention(forward: Sequence[Node], made: set[str]) -> set[str]:
    """From the product of queries and keys to the shares of the softmax: what grows with the square of the tokens."""
    maker = {name: node for node in forward for name in node.outputs}
    readers: dict[str, list[Node]] = {}
    for node in forward:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    found: set[str] = set()
    for soft in (node for node in forward if node.op == "Softmax"):
        up = list(soft.outputs)
        while up:
            name = up.pop()
            found.add(name)
            if maker[name].op != "MatMul":
                up += [given for given in maker[name].inputs if given in made]
        down = list(soft.outputs)
        while down:
            name = down.pop()
            found.add(name)
            down += [out for node in readers.get(name, []) if node.op != "MatMul" for out in node.outputs]
    return found


def _reads(nodes: Iterable[Node]) -> set[str]:
    return {name for node in nodes for name in node.inputs if name}


def _outputs(nodes: Iterable[Node]) -> set[str]:
    return {name for node in nodes for name in node.outputs if name}


def _ordered(nodes: Iterable[Node]) -> list[str]:
    return [name for node in nodes for name in node.outputs if name]


def piece(graph: Graph, nodes: Sequence[Node], name: str, outputs: Sequence[str]) -> Graph:
    """Make a graph of some nodes of another. Its inputs are what they read and do not make."""
    made = _outputs(nodes)
    read = dict.fromkeys(given for node in nodes for given in node.inputs if given)
    tensors = {given: graph.tensors[given] for given in (*read, *_ordered(nodes))}
    inputs = [given for given in read if given not in made and not graph.tensors[given].is_constant]
    return Graph(f"{graph.name}.{name}", list(nodes), tensors, inputs, list(outputs), graph.opset, trains=True)
