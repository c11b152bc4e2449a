"""Expert parallelism as a pass: ranks have samples and experts of their own, and copies of all other weights.

Each rank routes its rows; every product of experts sends them to the ranks that have these, and gets the results back.
Gradients of experts are added up where these lie, all others on all ranks (GShard, arXiv:2006.16668).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

import numpy as np

from accelsim.cluster.plan.objective import Objective
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.plan.shard import Sharded, shard_objective
from accelsim.cluster.plan.spmd import add, collectives
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node

GROUP = "ep"
PRODUCT, EXCHANGED = "ExpertMatMul", "ExpertExchange"


def sharded(made: Objective, plan: Plan) -> Sharded:
    """Return what each rank of a replica's stage runs."""
    return share_experts(made, plan.ep) if plan.ep > 1 else shard_objective(made, plan.tp, plan.sp)


def experts_of(graph: Graph) -> dict[str, int]:
    """Return the weights of experts and how many experts they are of."""
    weights = (node.inputs[1] for node in graph.nodes if node.op == PRODUCT)
    return {name: graph.tensors[name].shape[0] for name in weights}


def share_experts(made: Objective, ranks: int) -> Sharded:
    """Share the experts of an objective, whose batch is that of one rank, among ``ranks``."""
    return share_call(made.graph, ranks, made.weights, made.grads, made.block)


def share_call(
    whole: Graph, ranks: int, weights: Container[str], grads: Mapping[str, str], block: Mapping[str, int]
) -> Sharded:
    """Share the experts among ``weights`` of a graph, whose batch is that of one rank; ``grads``: of weights."""
    graph = whole.copy()
    own = [name for name in experts_of(graph) if name in weights]
    parts, graph.nodes = set(own), []
    for node in whole.nodes:
        node = replace(node, attrs=dict(node.attrs), inputs=list(node.inputs), outputs=list(node.outputs))
        if node.op == "Transpose" and node.inputs[0] in parts:
            parts.add(node.outputs[0])
        elif node.op == PRODUCT and node.inputs[1] in parts:
            node.op, node.attrs["group"] = EXCHANGED, GROUP
        graph.nodes.append(node)
    for name in parts:
        _cut(graph, whole, name, ranks)
    for weight, grad in grads.items():
        _added_up(graph, grad, weight in own, ranks)
    split = dict.fromkeys([*own, *(grads[name] for name in own if name in grads)], 0)
    return Sharded(graph, collectives(graph, ranks), split, ranks, dict(block))


def _cut(graph: Graph, whole: Graph, name: str, ranks: int) -> None:
    """A weight is that of the rank's experts."""
    tensor, old = graph.tensors[name], whole.tensors[name]
    tensor.shape = (old.shape[0] // ranks, *old.shape[1:])
    if tensor.is_constant:
        tensor.data = None

        def part() -> Array:
            return np.split(old.value(), ranks)[0].copy()

        tensor.source = part


def _added_up(graph: Graph, grad: str, parted: bool, ranks: int) -> None:
    """Add up a gradient over all ranks, after the node that makes it."""
    maker = next(node for node in graph.nodes if grad in node.outputs)
    mine, total = f"{grad}.own", graph.tensors[grad]
    graph.tensors[mine] = replace(total, name=mine)
    for node in graph.nodes:
        node.inputs = [mine if name == grad else name for name in node.inputs]
    maker.outputs = [mine if name == grad else name for name in maker.outputs]
    made: list[Node] = []
    if parted:
        add(graph, made, "ReduceScatter", [mine], grad, ranks, group=GROUP, axis=0)
    else:
        add(graph, made, "AllReduce", [mine], grad, ranks, group=GROUP, reduce="sum")
    made[0].part_of = maker.part_of
    graph.nodes.insert(1 + next(at for at, node in enumerate(graph.nodes) if node is maker), made[0])
