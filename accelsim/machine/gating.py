"""How many multiplications of a product have no zero operand: what a unit with zero gating spends energy on."""

from __future__ import annotations

import numpy as np

from accelsim.workload.graph import Array, Graph, Node
from accelsim.workload.matrix import a_matrix, b_matrix
from accelsim.workload.ops import base


def nonzero_macs(a: Array, b: Array) -> int:
    """Multiplications without a zero in a [..., M, K] x b [..., K, N]: sum over k of nonzeros in column and row k."""
    columns = np.count_nonzero(a, axis=-2).astype(np.int64)
    rows = np.count_nonzero(b, axis=-1).astype(np.int64)
    return int(np.sum(columns * rows))


def of_node(node: Node, graph: Graph, a: Array, b: Array) -> int:
    """The same of a whole matrix node with operands ``a`` and ``b``."""
    op = base.get(node.op)
    assert op.gemm is not None
    ins = [graph.tensors[name] if name else None for name in node.inputs]
    gemm = op.gemm(node, ins, [graph.tensors[node.outputs[0]]])
    assert gemm is not None
    return sum(
        nonzero_macs(a_matrix(gemm, a, group, node), b_matrix(gemm, b, group, node))
        for group in range(gemm.groups)
    )
