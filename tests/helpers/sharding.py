"""Inference graphs as the ranks of a tensor-parallel group run them."""

from __future__ import annotations

from accelsim.cluster.plan.shard import Sharded, _Pass
from accelsim.workload.graph import Graph
from accelsim.workload.training.forward import trainable


def shard(graph: Graph, tp: int, sp: bool = False) -> Sharded:
    """An inference graph (a network, a block, a prefill, a step of decoding) as each of ``tp`` ranks runs it.

    Outputs are whole on every rank, but for states and what begins to stay on the chip (keys and values), which lie as
    they are made. What cannot be split, because of its sizes or of an op without a rule, is computed whole by every
    rank; an operand that is split is gathered before.
    """
    free = {*graph.states, *trainable(graph)}
    return _Pass(graph, tp, sp, free, {}).result()
