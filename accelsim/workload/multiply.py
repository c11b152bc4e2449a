"""Operands as a matrix unit receives them, and products of units that do not add up as BLAS does.

``Node.format`` names the format in which the unit multiplies. Real numbers that are wider are rounded to it as they
enter the array (TF32; bf16 on a TPU); codes that a float unit computes with become the floats of the same value.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from accelsim.formats import codec, dot
from accelsim.formats.table import FORMATS
from accelsim.types import Array
from accelsim.workload.graph import Graph, Node
from accelsim.workload.matrix import a_matrix, b_matrix, finish, y_from_matrix
from accelsim.workload.ops import base
from accelsim.workload.ops.experts import by_expert
from accelsim.workload.ops.product import is_integer, shifted
from accelsim.workload.ops.values import ROUNDED

ZERO_POINTS = ("a_zero_point", "b_zero_point")


def multiplies_floats(name: str) -> bool:
    """Return whether a unit of this format adds up real numbers."""
    return name in FORMATS and FORMATS[name].kind == "float"


def rounded_to(node: Node) -> str:
    """Format to which the operands of a matrix node are rounded as they enter the array: that of the unit, or the one
    that it emulates (TF32 by a unit of FP32).
    """
    name: str = node.attrs.get("emulates", node.format)
    return name


def entering(value: Array, dtype: str, name: str) -> Array:
    """An operand of format ``dtype`` as the unit of format ``name`` multiplies it; same shape."""
    if not multiplies_floats(name):
        return value
    if is_integer(value):
        return value.astype(np.float32)
    return codec.cast(value, name) if name in ROUNDED and dtype != name else value


def matrix_kernel(node: Node, graph: Graph, arrays: list[Array | None]) -> list[Array]:
    """Result of a matrix node of whole tensors, in the arithmetic that its ``format`` and its ``dot`` rule say."""
    op = base.get(node.op)
    a, b = arrays[:2]
    assert a is not None and b is not None
    rounded = rounded_to(node)
    if multiplies_floats(node.format):
        a, b = (shifted(x, node.attrs.get(key, 0)) for x, key in zip((a, b), ZERO_POINTS, strict=True))
        a, b = (
            entering(x, graph.tensors[name].dtype, rounded) for x, name in zip((a, b), node.inputs[:2], strict=True)
        )
        node = replace(node, attrs={**node.attrs, **dict.fromkeys(ZERO_POINTS, 0)})
    rule = node.attrs.get("dot", "")
    if rule and node.op == "ExpertMatMul":
        a, b = (shifted(x, node.attrs.get(key, 0)) for x, key in zip((a, b), ZERO_POINTS, strict=True))
        chosen = arrays[2]
        assert chosen is not None
        return [by_expert(node, a, b, chosen, lambda x, w: _by_dot(x, w, rule, node.format))]
    if rule:
        return [_by_rule(node, graph, a, b, arrays[2] if len(arrays) > 2 else None, rule)]
    return op.kernel(node, [a, b, *arrays[2:]])


def _by_dot(x: Array, w: Array, rule: str, name: str) -> Array:
    """One product by the rule of a unit."""
    return np.asarray(dot.product(x[np.newaxis], w[np.newaxis], rule, name)[0])


def _by_rule(node: Node, graph: Graph, a: Array, b: Array, extra: Array | None, rule: str) -> Array:
    op = base.get(node.op)
    assert op.gemm is not None
    ins = [graph.tensors[name] if name else None for name in node.inputs]
    out = graph.tensors[node.outputs[0]]
    gemm = op.gemm(node, ins, [out])
    assert gemm is not None
    products = [
        dot.product(a_matrix(gemm, a, group, node), b_matrix(gemm, b, group, node), rule, node.format)
        for group in range(gemm.groups)
    ]
    return finish(node, y_from_matrix(gemm, np.stack(products), out.shape), extra)
