"""What each step of a network's forward pass adds on a chip whose memory holds all of it."""

from __future__ import annotations

from itertools import pairwise

from accelsim.cluster.step.costs import Costs
from accelsim.cluster.step.passes import in_format, local
from accelsim.machine.simulate import simulate
from accelsim.program.program import Program
from accelsim.workload.graph import Graph


def step_times(graph: Graph, costs: Costs) -> tuple[Program, list[int]]:
    """The program of a graph, and by how much each of its steps ends behind the one before, fs."""
    program = costs.compiled(local(in_format(graph.copy(), costs.dtype)))
    run = simulate(program, None, "off")
    ends = [0, *(end for _, end in run.step_spans)]
    return program, [max(0, end - start) for start, end in pairwise(ends)]
