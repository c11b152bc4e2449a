"""Batch normalisation as it is trained: with the mean and variance of the batch instead of stored ones."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.workload.gradient.context import Context, Value
from accelsim.workload.gradient.normalise import but_channel, per_channel
from accelsim.workload.graph import Graph, Node


@dataclass(frozen=True)
class Statistics:
    """What one BatchNormalization was made into.

    ``mean`` and ``variance`` are the names of its stored statistics, ``batch_mean`` and ``batch_variance`` of
    tensors [C] of the same format with those of the batch (the variance divides by ``count``, the number of
    elements per channel; times count / (count - 1) it is the unbiased one that PyTorch stores).
    """

    node: str
    mean: str
    variance: str
    batch_mean: str
    batch_variance: str
    count: int


def batch_statistics(graph: Graph) -> tuple[Graph, list[Statistics]]:
    """A copy of ``graph`` in which every BatchNormalization uses the statistics of its batch, and their names.

    Ioffe and Szegedy, arXiv:1502.03167, algorithm 1, written with ReduceMean and elementwise ops, so that gradients
    flow through the statistics too. They are computed in the format of the stored ones. Stored statistics stay in
    the graph, unread; running averages are the caller's: running = (1 - momentum) running + momentum batch.
    """
    trained, found = graph.copy(), []
    nodes: list[Node] = []
    for node in trained.nodes:
        if node.op == "BatchNormalization":
            found.append(_in_training(trained, nodes, node))
        else:
            nodes.append(node)
    trained.nodes = nodes
    return trained, found


def _in_training(graph: Graph, nodes: list[Node], node: Node) -> Statistics:
    """Append to ``nodes`` what replaces ``node``; its result keeps its name."""
    ctx = Context(graph, nodes, f"{node.name}.batch")
    x, scale, bias, stored_mean, stored_var = ctx.inputs(node)
    axes = but_channel(x)
    wide = x.cast(stored_mean.dtype)
    mean = wide.mean(axes)
    centred = wide - mean
    variance = (centred * centred).mean(axes)
    normal = centred * (variance + node.attrs["epsilon"]).op("Sqrt").op("Reciprocal")
    kept = [item.reshape(stored_mean.shape) for item in (mean, variance)]
    y = normal * per_channel(scale, normal) + per_channel(bias, normal)
    _call(y.cast(x.dtype), node)
    return Statistics(node.name, stored_mean.name, stored_var.name, kept[0].name, kept[1].name, x.count(axes))


def _call(value: Value, node: Node) -> None:
    """Give the last value the name of the result of ``node``, and its node the name of ``node``."""
    last = value.ctx.nodes[-1]
    del value.ctx.graph.tensors[last.outputs[0]]
    last.name, last.outputs = node.name, list(node.outputs)
