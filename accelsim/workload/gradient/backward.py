"""Reverse-mode differentiation: the gradient of a graph is more nodes of the same graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accelsim.errors import ModelError, Problem, nearest
from accelsim.workload.gradient.context import Context, Value, is_float
from accelsim.workload.gradient.rules import ENDS, REFUSED, RULES, Gradients
from accelsim.workload.graph import Graph, Node
from accelsim.workload.nodes import needed_nodes


def backward(graph: Graph, loss: str, wrt: Sequence[str], seed: str = "") -> dict[str, str]:
    """Append to ``graph`` the nodes that compute d ``loss`` / d x for every x of ``wrt``.

    Returns x -> the name of its gradient, a tensor of the shape and format of x: ``'{x}.grad'`` (with a suffix
    where that is taken), except where the gradient is a tensor that has another name already: the two terms of an
    addition have one gradient. ``loss`` has one element and the gradient 1, unless ``seed`` names a tensor of its
    shape to use instead. Contributions of several readers are added in the order of their nodes, last first. What
    does not reach the loss has the constant gradient 0. The new nodes are ordinary ones, in topological order after
    all others; those that no gradient of ``wrt`` needs are left out. Raises ModelError, all problems at once, for
    names that are not in the graph, formats without gradients, and ops without a rule on the way.

    Source: Griewank and Walther, Evaluating Derivatives (2nd edition, 2008), section 3.2: incremental reverse mode.
    """
    _check(graph, loss, wrt, seed)
    way = _on_the_way(graph, loss, wrt)
    _check_rules(way)
    run = _Reverse(graph, wrt)
    run.start(loss, seed)
    for node in reversed(way):
        run.step(node)
    return run.finish(wrt)


def _check(graph: Graph, loss: str, wrt: Sequence[str], seed: str) -> None:
    names = [*wrt, loss, *([seed] if seed else [])]
    problems = [
        Problem(f"no tensor {name!r}", graph.name, nearest=nearest(name, graph.tensors))
        for name in dict.fromkeys(names)
        if name not in graph.tensors
    ]
    known = [graph.tensors[name] for name in dict.fromkeys(names) if name in graph.tensors]
    problems += [
        Problem(f"tensor {item.name!r} is {item.dtype}", graph.name, "a float format")
        for item in known
        if not is_float(item.dtype)
    ]
    problems += [
        Problem(f"{node.op} is fused", node.name, "a graph before its compilation")
        for node in graph.nodes
        if node.epilogue
    ]
    if not problems:
        problems = list(_check_loss(graph, loss, seed))
    ModelError.raise_for(problems)


def _check_loss(graph: Graph, loss: str, seed: str) -> Iterator[Problem]:
    shape = list(graph.tensors[loss].shape)
    if not seed and graph.tensors[loss].elements != 1:
        yield Problem(f"loss {loss!r} has shape {shape}", graph.name, "one element, or a seed gradient")
    if seed and list(graph.tensors[seed].shape) != shape:
        yield Problem(f"seed {seed!r} has shape {list(graph.tensors[seed].shape)}", graph.name, str(shape))


def _on_the_way(graph: Graph, loss: str, wrt: Sequence[str]) -> list[Node]:
    """Nodes, in order, through which ``loss`` depends on ``wrt`` in a way that has a derivative."""
    active = set(wrt)
    moving: list[Node] = []
    for node in graph.nodes:
        if node.op not in ENDS and active.intersection(node.inputs):
            moving.append(node)
            active.update(name for name in node.outputs if name and is_float(graph.tensors[name].dtype))
    needed = {loss}
    way: list[Node] = []
    for node in reversed(moving):
        if needed.intersection(node.outputs) and active.intersection(node.outputs):
            way.append(node)
            needed.update(name for name in node.inputs if name in active)
    return way[::-1]


def _check_rules(way: Sequence[Node]) -> None:
    ModelError.raise_for(
        Problem(f"{node.op} has no gradient: {REFUSED.get(node.op, 'no rule knows this op')}", node.name)
        for node in way
        if node.op not in RULES
    )


class _Reverse:
    """One reverse sweep: the contributions to the gradient of every tensor, and the nodes made so far."""

    def __init__(self, graph: Graph, wrt: Sequence[str]) -> None:
        self.graph = graph
        self.before = set(graph.tensors)
        self.nodes: list[Node] = []
        self.ctx = Context(graph, self.nodes)
        self.given: dict[str, list[Value]] = {}
        self.total: dict[str, Value] = {}

    def start(self, loss: str, seed: str) -> None:
        """Give the loss its own gradient: ``seed``, else 1."""
        tensor = self.graph.tensors[loss]
        one = self.ctx.value(seed) if seed else self.ctx.filled(tensor.shape, 1.0, tensor.dtype)
        self._give(loss, one)

    def step(self, node: Node) -> None:
        """Gradients of the results of ``node`` become contributions to those of its inputs."""
        grads: Gradients = [self._gradient(name) if name else None for name in node.outputs]
        if all(grad is None for grad in grads):
            return
        self.ctx.prefix = f"{node.name}.grad"
        first = len(self.nodes)
        found = RULES[node.op](self.ctx, node, grads)
        for made in self.nodes[first:]:
            made.part_of = f"{node.name}.grad"
        for name, grad in zip(node.inputs, found, strict=False):
            if name and grad is not None and is_float(self.graph.tensors[name].dtype):
                self._give(name, grad)

    def _give(self, name: str, grad: Value) -> None:
        want = self.graph.tensors[name]
        assert grad.shape == want.shape, f"gradient {list(grad.shape)} of {name!r} {list(want.shape)}"
        self.given.setdefault(name, []).append(grad.cast(want.dtype))

    def _gradient(self, name: str) -> Value | None:
        """The sum of all contributions to the gradient of ``name``, None when there are none."""
        if name not in self.total and name in self.given:
            self.ctx.prefix = f"{name}.grad"
            total, *others = self.given[name]
            for other in others:
                total = total + other
            self.total[name] = total
        return self.total.get(name)

    def finish(self, wrt: Sequence[str]) -> dict[str, str]:
        """The gradients of ``wrt`` by name, nodes and tensors that they do not need removed."""
        found = {name: self._gradient(name) or self._zero(name) for name in wrt}
        names = {name: value.name for name, value in found.items()}
        self._prune(set(names.values()))
        renamed = self._rename({name: value.name for name, value in self.total.items()} | names)
        self.graph.nodes += self.nodes
        return {name: renamed.get(grad, grad) for name, grad in names.items()}

    def _zero(self, name: str) -> Value:
        tensor = self.graph.tensors[name]
        self.ctx.prefix = f"{name}.grad"
        return self.ctx.filled(tensor.shape, 0.0, tensor.dtype)

    def _prune(self, needed: set[str]) -> None:
        self.nodes[:] = needed_nodes(self.nodes, needed)
        used = {name for node in self.nodes for name in (*node.inputs, *node.outputs)}
        for name in [name for name in self.graph.tensors if name not in self.before | needed | used]:
            del self.graph.tensors[name]

    def _rename(self, gradients: dict[str, str]) -> dict[str, str]:
        """Call the gradient of each tensor after it: old name -> new name of the tensors that were renamed."""
        renamed: dict[str, str] = {}
        tensors = self.graph.tensors
        for name, old in gradients.items():
            if old in tensors and old not in self.before and old not in renamed:
                tensor = tensors.pop(old)
                tensor.name = renamed[old] = self.ctx.unique(f"{name}.grad")
                tensors[tensor.name] = tensor
        for node in self.nodes:
            node.inputs = [renamed.get(name, name) for name in node.inputs]
            node.outputs = [renamed.get(name, name) for name in node.outputs]
            node.name = node.outputs[0]
        return renamed
