"""Gradients of products: every one is again a product of the same kind, so it runs on the matrix unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from accelsim.types import Array
from accelsim.workload.gradient.context import Context, Value
from accelsim.workload.gradient.rules import Gradients, formula
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Shape
from accelsim.workload.transposed import Geometry, transposed_conv


@formula("MatMul")
def matmul(node: Node, g: Value, y: Value, a: Value, b: Value) -> Gradients:
    """Return dA = dY B^T and dB = A^T dY, summed over the axes of the batch that were broadcast.

    One matrix B for a whole batch: the batch is made rows first, so that dB is one product.
    """
    turned = bool(node.attrs.get("transB"))
    rows, columns = _stack(a, 0), b.swap() if turned else _stack(b, 1)
    batch = g.shape[: g.rank - (a.rank > 1) - (b.rank > 1)]
    g = g.reshape((*batch, rows.shape[-2], columns.shape[-1]))
    da = g.matmul(columns.swap()).unbroadcast(rows.shape)
    left, right = (_as_rows(rows), _as_rows(g)) if columns.rank == 2 else (rows, g)
    db = left.swap().matmul(right).unbroadcast(columns.shape)
    return [da.reshape(a.shape), (db.swap() if turned else db).reshape(b.shape)]


def _stack(x: Value, axis: int) -> Value:
    """An operand as a stack of matrices: a vector on the left is one row (axis 0), on the right one column."""
    if x.rank > 1:
        return x
    return x.reshape((1, *x.shape) if axis == 0 else (*x.shape, 1))


def _as_rows(x: Value) -> Value:
    """All axes but the last as rows."""
    return x.reshape((x.count(range(x.rank - 1)), x.shape[-1]))


@formula("Gemm")
def gemm(node: Node, g: Value, y: Value, a: Value, b: Value, *rest: Value) -> Gradients:
    """Multiply by the transposes, as transA and transB of a Gemm; alpha goes along, C gets beta * dY."""
    left, right = node.attrs["transA"], node.attrs["transB"]

    def product(x: Value, y: Value, trans_x: int, trans_y: int) -> Value:
        return x.op("Gemm", y, alpha=node.attrs["alpha"], beta=1.0, transA=int(trans_x), transB=int(trans_y),
                    a_zero_point=0, b_zero_point=0)  # fmt: skip

    da = product(b, g, right, 1) if left else product(g, b, 0, not right)
    db = product(g, a, 1, left) if right else product(a, g, not left, 0)
    if not rest or not rest[0]:
        return [da, db]
    return [da, db, g.unbroadcast(rest[0].shape) * node.attrs["beta"]]


@formula("Conv")
def conv(node: Node, g: Value, y: Value, x: Value, w: Value, *bias: Value) -> Gradients:
    """Return two convolutions of the same ``group``, for any rank, stride, dilation and padding.

    dX slides the kernel, reversed and with its channels exchanged, over dY; where the stride is above 1, it is a
    transposed convolution of dY (``workload.transposed``). dW slides dY, with the roles of stride and dilation
    exchanged, over X, images and channels exchanged. Source: Dumoulin and Visin, arXiv:1603.07285, section 4.
    """
    found: Gradients = [_conv_input(node, x, w, g), _conv_kernel(node, x, w, g)]
    if bias and bias[0]:
        found.append(g.sum([0, *range(2, g.rank)], keepdims=False))
    return found


def _slide(
    x: Value, w: Value, strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int], group: int
) -> Value:
    return x.op("Conv", w, kernel_shape=list(w.shape[2:]), strides=list(strides), dilations=list(dilations),
                pads=list(pads), group=group, a_zero_point=0, b_zero_point=0)  # fmt: skip


class _Made(NamedTuple):
    """Appends the nodes of a transposed convolution; ``like``: a tensor of its format."""

    ctx: Context
    like: Value

    def add(self, op: str, *inputs: Value, **attrs: object) -> Value:
        """Append a node of one result."""
        return self.ctx.op(op, inputs, **attrs)

    def constant(self, value: Array) -> Value:
        """Return places in a tensor as a constant."""
        return self.ctx.constant(value, "int64")

    def zeros(self, *shape: int) -> Value:
        """Return a constant of zeros."""
        return self.ctx.filled(shape, 0.0, self.like.dtype)


def _conv_input(node: Node, x: Value, w: Value, g: Value) -> Value:
    group, rank, a = node.attrs["group"], x.rank - 2, node.attrs
    geometry = Geometry(
        g.shape[0], g.shape[1], x.shape[1], group, g.shape[2:], w.shape[2:], tuple(a["strides"]),
        tuple(a["dilations"]), tuple(a["pads"][:rank]), x.shape[2:],
    )  # fmt: skip
    if max(a["strides"]) > 1 and geometry.fits:
        return transposed_conv(_Made(g.ctx, g), g, w, None, geometry)
    out, depth = w.shape[0] // group, w.shape[1]
    split = w.reshape((group, out, depth, *w.shape[2:])) if group > 1 else w
    order = [0, 2, 1, *range(3, rank + 3)] if group > 1 else [1, 0, *range(2, rank + 2)]
    turned = split.transpose(order).reshape((group * depth, out, *w.shape[2:])).flip(range(2, rank + 2))
    spread, pads = spread_over(node, x.shape, g)
    return _slide(spread, turned, [1] * rank, node.attrs["dilations"], pads, group)


def spread_over(node: Node, shape: Shape, g: Value) -> tuple[Value, list[int]]:
    """The gradient of a window op's result with zeros between its elements, and the pads with which a window of
    stride 1 over it gives the ``shape`` of the input. What would need negative pads is cut away.
    """
    rank, a = len(shape) - 2, node.attrs
    wide = g.dilate([1, 1, *a["strides"]])
    reach = [d * (k - 1) for d, k in zip(a["dilations"], a["kernel_shape"], strict=True)]
    before = [reach[i] - a["pads"][i] for i in range(rank)]
    after = [shape[i + 2] - wide.shape[i + 2] - before[i] + reach[i] for i in range(rank)]
    cut = wide.fit([0, 0, *(min(0, n) for n in before)], [0, 0, *(min(0, n) for n in after)])
    return cut, [max(0, n) for n in (*before, *after)]


def _conv_kernel(node: Node, x: Value, w: Value, g: Value) -> Value:
    a, rank, group = node.attrs, x.rank - 2, node.attrs["group"]
    spatial = list(range(2, rank + 2))
    images, depth = x.shape[0], w.shape[1]
    if group > 1:
        split = x.reshape((images, group, depth, *x.shape[2:])).transpose([2, 1, 0, *range(3, rank + 3)])
        exchanged = split.reshape((depth, group * images, *x.shape[2:]))
    else:
        exchanged = x.transpose([1, 0, *spatial])
    after = [max(0, a["pads"][rank + i] - _unseen(node, x, g, i)) for i in range(rank)]
    pads = [*a["pads"][:rank], *after]
    full = _slide(exchanged, g.transpose([1, 0, *spatial]), a["dilations"], a["strides"], pads, group)
    surplus = [full.shape[axis] - w.shape[axis] for axis in spatial]
    return full.fit([0] * full.rank, [0, 0, *(-n for n in surplus)]).transpose([1, 0, *spatial])


def _unseen(node: Node, x: Value, g: Value, i: int) -> int:
    """Return how many of the last elements of spatial axis ``i`` of the padded input no window reaches."""
    a, rank = node.attrs, x.rank - 2
    padded = x.shape[i + 2] + a["pads"][i] + a["pads"][rank + i]
    reach = a["strides"][i] * (g.shape[i + 2] - 1) + a["dilations"][i] * (a["kernel_shape"][i] - 1) + 1
    return int(padded - reach)
