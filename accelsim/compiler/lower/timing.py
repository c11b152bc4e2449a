"""Durations that a command carries: vector clocks, streamed rows, host time. Used by estimate and lowering alike."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from accelsim.compiler.lower.actions import nbytes
from accelsim.errors import ModelError, Problem
from accelsim.program.roles import Roles
from accelsim.spec.models import Chip, Processor
from accelsim.time import FS_PER_S
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops.base import Work, find


def cycles_per_row(roles: Roles, dtype: str, a_dtype: str) -> int:
    """Clocks per streamed row: the unit's rate for the format, or what the buffers around it can feed and take."""
    unit = roles.matrix
    feed = nbytes(a_dtype, unit.rows)
    take = nbytes(unit.formats[dtype].accumulate, unit.cols)
    return max(
        unit.formats[dtype].cycles_per_row,
        -(-feed // roles.buffer(roles.activations).read_width),
        -(-take // roles.buffer(roles.sums).write_width),
    )


def node_work(graph: Graph, node: Node) -> Work:
    """Algorithmic work of a fused node: its own and its epilogue's."""
    macs = ops = 0
    for part in (node, *node.epilogue):
        op = find(part.op)
        if op is None:
            outs = [graph.tensors[name] for name in part.outputs if name]
            ops += sum(tensor.elements for tensor in outs)
            continue
        ins = [graph.tensors[name] if name else None for name in part.inputs]
        work = op.work(part, ins, [graph.tensors[name] for name in part.outputs if name])
        macs, ops = macs + work.macs, ops + work.ops
    return Work(macs, ops)


def vector_clocks(
    chip: Chip, functions: list[tuple[str, int]], read_B: int, write_B: int, source: str, target: str
) -> int:
    """Clocks of the vector unit for functions on so many elements each, or what the two buffers can move in that time.

    Chained functions follow each other within a clock, so the slowest sets the pace; others take their turns.
    """
    unit = chip.vector
    assert unit is not None
    passes = [-(-elements // unit.lanes) * unit.functions.get(name, 1) for name, elements in functions] or [1]
    compute = max(passes) if unit.chained else sum(passes)
    ratio = Fraction(unit.clock or chip.clock) / Fraction(chip.clock)
    moved = [
        ceil(-(-size // width) * ratio)
        for size, width in (
            (read_B, chip.buffers[source].read_width if source in chip.buffers else 0),
            (write_B, chip.buffers[target].write_width if target in chip.buffers else 0),
        )
        if width
    ]
    return unit.latency + max(1, compute, *moved)


def host_fs(host: Processor | None, graph: Graph, node: Node, moved_B: int) -> int:
    """Time of a node on the host processor, fs: dispatch plus the larger of arithmetic and memory traffic.

    Raises ModelError when the chip has no host.
    """
    if host is None:
        raise ModelError(Problem(f"{node.op} must run on a host processor and the chip has none", node.name))
    work = node_work(graph, node)
    fmt = graph.tensors[node.writes[0]].dtype
    peak = host.peak.get(fmt, host.peak.get("fp32", next(iter(host.peak.values()))))
    arithmetic = (2 * work.macs + work.ops) / (peak * host.efficiency)
    memory = moved_B / host.memory.rate_Bps
    return round((host.overhead + max(arithmetic, memory)) * FS_PER_S)
