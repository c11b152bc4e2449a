"""Multiply-accumulates of a whole graph."""

from __future__ import annotations

from accelsim.workload.graph import Graph
from accelsim.workload.ops import base


def macs(graph: Graph) -> int:
    total = 0
    for node in graph.nodes:
        ins = [graph.tensors[name] if name else None for name in node.inputs]
        total += base.get(node.op).work(node, ins, graph.outs(node)).macs
    return total
