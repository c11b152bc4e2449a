"""The fast value policy: each node at once, in the formats of its tensors, when its last command completes."""

from __future__ import annotations

from collections import Counter

from accelsim.compiler.program import Command, Program, Use
from accelsim.workload.execute import run_node
from accelsim.workload.graph import Array, Node


class Fast:
    """Values by tensor name; freed after their last reader unless ``keep``."""

    def __init__(self, program: Program, feeds: dict[str, Array], keep: bool) -> None:
        self._program, self._keep = program, keep
        self._values = {name: feeds[name] for name in program.graph.inputs}
        self._left = Counter(name for node in program.graph.nodes for name in node.reads)
        self._left.update(program.graph.outputs)
        self._views = {node.writes[0]: node for node in program.graph.nodes if node.engine == "alias"}

    def read(self, command: Command, use: Use) -> None:
        """Operands are taken by name when the node completes."""

    def forget(self, region: int) -> None:
        """Regions hold nothing here."""

    def complete(self, command: Command) -> None:
        """Run the node with its last command."""
        if command.effect.last and command.effect.what in ("node", "epilogue"):
            self._run(self._program.steps[command.op].node)

    def _run(self, node: Node) -> None:
        graph = self._program.graph
        self._make_views(node.reads)
        self._values.update(zip(node.writes, run_node(node, graph, self._values), strict=True))
        if self._keep:
            return
        for name in node.reads:
            self._left[name] -= 1
            if self._left[name] <= 0:
                self._values.pop(name, None)

    def _make_views(self, names: list[str]) -> None:
        """Views (Reshape and the like) have no command; they are made when somebody asks for them."""
        for name in names:
            if name not in self._values and name in self._views:
                self._run(self._views[name])

    def outputs(self) -> dict[str, Array]:
        """Graph outputs by name."""
        self._make_views(self._program.graph.outputs)
        return {name: self._values[name] for name in self._program.graph.outputs}

    def kept(self) -> dict[str, Array]:
        """Every tensor, when asked to keep them."""
        if not self._keep:
            return {}
        self._make_views(list(self._views))
        return dict(self._values)
