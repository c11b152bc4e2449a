"""Lower: the graph, step by step, becomes commands; tensors move only when they must and are freed with their last use."""

from __future__ import annotations

from collections import Counter

from accelsim.compiler.builder import Builder
from accelsim.compiler.layout import Layout
from accelsim.compiler.lower_matrix import MatrixStep
from accelsim.compiler.lower_simple import lower_host, lower_vector
from accelsim.compiler.place import gemm_view
from accelsim.compiler.program import Program, Step
from accelsim.compiler.roles import Roles
from accelsim.compiler.search import choose
from accelsim.compiler.state import State
from accelsim.compiler.timing import node_work
from accelsim.workload.graph import Graph, Node


def lower(state: State) -> Program:
    """Commands for a placed graph, one core. Raises Infeasible when something does not fit, ModelError without a host."""
    roles = Roles(state.chip)
    layout = Layout(state.graph, roles, Builder(roles.engines()))
    uses = _Uses(state.graph)
    steps: list[Step] = []
    for node in state.graph.nodes:
        if node.engine == "alias":
            layout.places[node.writes[0]] = layout.place(node.reads[0])
        else:
            steps.append(_lower_node(state, layout, len(steps), node))
        for place in uses.finished(node):
            _free(layout, place)
    return _program(state, layout, steps)


def _lower_node(state: State, layout: Layout, index: int, node: Node) -> Step:
    graph = state.graph
    work = node_work(graph, node)
    step = Step(node.name, node.label(), node.engine, graph.outs(node)[0].shape, node, work.macs, work.ops, note=node.note)
    if node.engine == "matrix":
        gemm = gemm_view(graph, node)
        assert gemm is not None
        step.gemm = gemm
        choice = choose(state, layout, node, gemm)
        step.mapping, step.binds, step.scored = choice.mapping, choice.binds, choice.scored
        MatrixStep(layout, index, node, gemm, step.mapping, state.dtype).lower()
    elif node.engine == "vector":
        lower_vector(layout, index, node)
    else:
        lower_host(layout, index, node)
    return step


class _Uses:
    """Counts the readers that are still to come; views of one tensor count together."""

    def __init__(self, graph: Graph) -> None:
        self._root: dict[str, str] = {}
        for node in graph.nodes:
            if node.engine == "alias":
                self._root[node.writes[0]] = self.root(node.reads[0])
        self._left = Counter(self.root(name) for node in graph.nodes if node.engine != "alias" for name in node.reads)
        self._left.update(self.root(name) for name in graph.outputs)

    def root(self, name: str) -> str:
        """The tensor whose bytes these are."""
        return self._root.get(name, name)

    def finished(self, node: Node) -> list[str]:
        """Tensors that nobody reads any more now that this node is done."""
        if node.engine == "alias":
            return []
        names = {self.root(name): None for name in node.reads}
        for name in names:
            self._left[name] -= 1
        return [name for name in (*names, *(self.root(out) for out in node.writes)) if self._left[name] <= 0]


def _free(layout: Layout, tensor: str) -> None:
    place = layout.places.get(tensor)
    if place is not None and place.chip is not None:
        layout.release(layout.roles.activations, [place.chip])
        place.chip = None


def _program(state: State, layout: Layout, steps: list[Step]) -> Program:
    results = {name: layout.store_whole(len(steps) - 1, name, layout.roles.host_home) for name in state.graph.outputs}
    builder = layout.builder
    return Program(
        graph=state.graph, chip=state.chip, dtype=state.dtype, commands=builder.commands, regions=builder.regions, steps=steps,
        presets=layout.presets, results=results, engines=builder.engines, notes=state.notes,
    )  # fmt: skip
