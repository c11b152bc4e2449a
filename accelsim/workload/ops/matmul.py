"""MatMul (NumPy rules) and Gemm (alpha * A B + beta * C)."""

from __future__ import annotations

from math import prod

import numpy as np

from accelsim.errors import ModelError
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Gemm, Op, Shape, Work, register
from accelsim.workload.ops.conv import accumulator
from accelsim.workload.ops.product import is_integer, product, shifted
from accelsim.workload.ops.values import Infers, Ins, Values, array, broadcast, common_shape, optional, require, tensor


def _operands(node: Node, values: Values) -> tuple[Array, Array]:
    a = shifted(array(values, 0), node.attrs.get("a_zero_point", 0))
    return a, shifted(array(values, 1), node.attrs.get("b_zero_point", 0))


def _matrices(a: Shape, b: Shape) -> tuple[Shape, Shape]:
    """Operand shapes with vectors made matrices: [K] is [1, K] on the left and [K, 1] on the right."""
    return (a if len(a) > 1 else (1, *a)), (b if len(b) > 1 else (*b, 1))


def _shapes(node: Node, x: Tensor, w: Tensor) -> tuple[Shape, Shape]:
    """Shapes of both operands as they are multiplied."""
    a, b = _matrices(x.shape, w.shape)
    return a, ((*b[:-2], b[-1], b[-2]) if node.attrs.get("transB") else b)


def _matmul_infer(node: Node, ins: Ins) -> Infers:
    x, w = tensor(node, ins, 0), tensor(node, ins, 1)
    require(len(x.shape) > 0 and len(w.shape) > 0, node, "a scalar operand", "at least one axis")
    require(not node.attrs.get("transB") or len(w.shape) > 1, node, "a vector cannot be transposed")
    a, b = _shapes(node, x, w)
    require(a[-1] == b[-2], node, f"inner sizes {a[-1]} and {b[-2]} of {x.shape} and {w.shape} differ")
    batch = broadcast(node, [a[:-2], b[:-2]])
    rows = (a[-2],) if len(x.shape) > 1 else ()
    columns = (b[-1],) if len(w.shape) > 1 else ()
    return [((*batch, *rows, *columns), accumulator(x.dtype))]


def _matmul(node: Node, values: Values) -> list[Array]:
    a, b = _operands(node, values)
    b = np.swapaxes(b, -1, -2) if node.attrs.get("transB") else b
    if not is_integer(a):
        return [np.asarray(_float_matmul(a, b))]
    left, right = _matrices(a.shape, b.shape)
    y = product(a.reshape(left), b.reshape(right))
    y = y if a.ndim > 1 else y[..., 0, :]
    return [y if b.ndim > 1 else y[..., 0]]


def _float_matmul(a: Array, b: Array) -> Array:
    if b.ndim == 2 and a.ndim > 2:  # one large product instead of one per batch entry
        return np.asarray(np.matmul(a.reshape(-1, a.shape[-1]), b)).reshape(*a.shape[:-1], b.shape[-1])
    return np.asarray(np.matmul(a, b))


def _matmul_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    return Work(macs=outs[0].elements * tensor(node, ins, 0).shape[-1])


def _matmul_gemm(node: Node, ins: Ins, outs: list[Tensor]) -> Gemm:
    x, w = tensor(node, ins, 0), tensor(node, ins, 1)
    a, b = _shapes(node, x, w)
    if prod(b[:-2]) == 1:  # the same B for the whole batch: the batch becomes part of M
        return Gemm(1, prod(a[:-1]), b[-1], a[-1], x.name, w.name)
    batch = common_shape(a[:-2], b[:-2])
    return Gemm(prod(batch), a[-2], b[-1], a[-1], x.name, w.name, batch=batch)


register(Op("MatMul", "matrix", _matmul_infer, _matmul, _matmul_work, _matmul_gemm))


def _sizes(node: Node, ins: Ins) -> tuple[int, int, int]:
    """M, N, K of a Gemm; ModelError when the operands do not fit."""
    x, w = tensor(node, ins, 0), tensor(node, ins, 1)
    if len(x.shape) != 2 or len(w.shape) != 2:
        raise ModelError(f"operands {list(x.shape)} and {list(w.shape)}", node.name, "two matrices")
    m, k = x.shape[::-1] if node.attrs["transA"] else x.shape
    k2, n = w.shape[::-1] if node.attrs["transB"] else w.shape
    require(k == k2, node, f"inner sizes {k} and {k2} differ")
    return m, n, k


def _gemm_infer(node: Node, ins: Ins) -> Infers:
    m, n, _ = _sizes(node, ins)
    if len(ins) > 2 and ins[2] is not None:
        require(broadcast(node, [(m, n), ins[2].shape]) == (m, n), node, f"C {ins[2].shape} is larger than Y")
    return [((m, n), accumulator(tensor(node, ins, 0).dtype))]


def _gemm_kernel(node: Node, values: Values) -> list[Array]:
    a, b = _operands(node, values)
    a = a.T if node.attrs["transA"] else a
    b = b.T if node.attrs["transB"] else b
    return [finish_gemm(node, product(a, b), optional(values, 2))]


def finish_gemm(node: Node, y: Array, c: Array | None) -> Array:
    """alpha * y + beta * c in the type of ``y``: what a Gemm does after its matrix product."""
    alpha, beta = node.attrs["alpha"], node.attrs["beta"]
    if alpha != 1:
        y = y * y.dtype.type(alpha)
    if c is None or beta == 0:
        return y
    return np.asarray(y + (c if beta == 1 else c * c.dtype.type(beta)), y.dtype)


def _gemm_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    m, n, k = _sizes(node, ins)
    added = len(ins) > 2 and ins[2] is not None and node.attrs["beta"] != 0
    # per element: scale by alpha, scale C by beta, add C; factors of 1 cost nothing
    steps = int(node.attrs["alpha"] != 1) + (1 + int(node.attrs["beta"] != 1) if added else 0)
    return Work(macs=m * n * k, ops=steps * m * n)


def _gemm_view(node: Node, ins: Ins, outs: list[Tensor]) -> Gemm:
    m, n, k = _sizes(node, ins)
    return Gemm(1, m, n, k, tensor(node, ins, 0).name, tensor(node, ins, 1).name)


register(
    Op(
        "Gemm",
        "matrix",
        _gemm_infer,
        _gemm_kernel,
        _gemm_work,
        _gemm_view,
        onnx={"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0},
    )
)
