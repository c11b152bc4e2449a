"""Count the multiplications of a product without a zero operand, on which a unit with zero gating spends energy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.program.roles import multiplier
from accelsim.spec.chip import Chip
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.matrix import a_matrix, b_matrix
from accelsim.workload.ops import base
from accelsim.workload.ops.experts import by_expert


def gates_zeros(chip: Chip) -> bool:
    """Return whether the engine that multiplies spends no energy on zeros."""
    unit = multiplier(chip)
    return unit is not None and bool(unit.spec.gates_zeros)


def nonzero_macs(a: Array, b: Array) -> int:
    """Multiplications without a zero in a [..., M, K] x b [..., K, N]: sum over k of nonzeros in column and row k."""
    columns = np.count_nonzero(a, axis=-2).astype(np.int64)
    rows = np.count_nonzero(b, axis=-1).astype(np.int64)
    return int(np.sum(columns * rows))


def of_node(node: Node, graph: Graph, operands: Sequence[Array]) -> int:
    """Count the multiplications without a zero in a whole matrix node with its ``operands``."""
    op = base.get(node.op)
    assert op.gemm is not None
    a, b = operands[:2]
    if node.op == "ExpertMatMul":
        ones, others = ((side != 0).astype(np.float64) for side in (a, b))
        return int(by_expert(node, ones, others, operands[2], np.matmul).sum())
    ins = [graph.tensors[name] if name else None for name in node.inputs]
    gemm = op.gemm(node, ins, [graph.tensors[node.outputs[0]]])
    assert gemm is not None
    return sum(
        nonzero_macs(a_matrix(gemm, a, group, node), b_matrix(gemm, b, group, node)) for group in range(gemm.groups)
    )
