"""Whether every node that must run on a host has one."""

from __future__ import annotations

from accelsim.errors import ModelError, Problem
from accelsim.program.commands import OUTSIDE
from accelsim.program.roles import HOST
from accelsim.spec.chip import Chip
from accelsim.workload.graph import Graph


def check_host(graph: Graph, chip: Chip) -> None:
    """ModelError on a chip without a host that names every node which needs one, and what would do instead."""
    if chip.host is not None:
        return
    problems = []
    for node in graph.nodes:
        if node.engine == HOST and not node.attrs.get(OUTSIDE):
            what = f"{node.op} must run on a host processor and {chip.name} has none"
            instead = "'host:' in the spec of the chip"
            if node.attrs.get("edge"):
                instead = f"--edges outside (somebody else converts inputs and outputs), or {instead}"
            problems.append(Problem(what, node.name, instead))
    if problems:
        raise ModelError(problems)
