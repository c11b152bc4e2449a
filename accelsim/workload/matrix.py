"""Matrix views of the operands of a matrix op, for machines that execute it tile by tile.

``y_from_matrix(stack of a_matrix @ b_matrix)`` followed by ``finish`` is what the op's kernel computes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from accelsim.types import Array, Ints
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Conv, Gemm, Shape
from accelsim.workload.ops.conv import columns_of
from accelsim.workload.ops.matmul import finish_gemm
from accelsim.workload.ops.product import shifted
from accelsim.workload.ops.values import row_major
from accelsim.workload.ops.window import Window, padded


def a_matrix(gemm: Gemm, value: Array, group: int, node: Node | None = None) -> Array:
    """Activations of one group, [M, K], in the type of ``value`` (a view where the layout allows it).

    Conv: implicit im2col, rows in the order of ``rows_of``, columns (channel, r, s), zeros in the padding. ``node`` is
    needed for what its attrs say: transA of a Gemm, and ``a_zero_point``, which is subtracted (giving int32).
    """
    zero = _zero_point(node, "a_zero_point", value)
    if gemm.conv is not None:
        return in_order(gemm.conv, _im2col(gemm.conv, shifted(value, zero), group), 0)

    def view(whole: Array) -> Array:
        return _one_of_batch(gemm, whole, group, (gemm.M, gemm.K), _attr(node, "transA"))

    return shifted(view(value), view(zero) if isinstance(zero, np.ndarray) else zero)


def b_matrix(gemm: Gemm, value: Array, group: int, node: Node | None = None) -> Array:
    """Weights (or the second activation) of one group, [K, N]; ``node`` for transB and ``b_zero_point``."""
    zero = _zero_point(node, "b_zero_point", value)

    def view(whole: Array) -> Array:
        if gemm.conv is not None:
            return whole[group * gemm.N : (group + 1) * gemm.N].reshape(gemm.N, gemm.K).T
        return _one_of_batch(gemm, whole, group, (gemm.K, gemm.N), _attr(node, "transB"))

    return shifted(view(value), view(zero) if isinstance(zero, np.ndarray) else zero)


def y_from_matrix(gemm: Gemm, y: Array, out_shape: Shape) -> Array:
    """Products ``y`` [groups, M, N] as the result tensor: a conv's in NCHW, the others' row-major."""
    if gemm.conv is None:
        return y.reshape(out_shape)
    positions = y.shape[1] // gemm.conv.batch  # fewer than M behind a fused pooling
    if gemm.conv.strip:
        y = y[:, np.argsort(rows_of(gemm.conv))]
    by_image = y.reshape(gemm.groups, gemm.conv.batch, positions, gemm.N).transpose(1, 0, 3, 2)
    return by_image.reshape(out_shape)


@lru_cache(maxsize=16)
def rows_of(conv: Conv) -> Ints:
    """Return which output pixel each row of the product is, as an index of (image, p, q), [M]."""
    pixels = np.arange(conv.batch * conv.out[0] * conv.out[1]).reshape(conv.batch, *conv.out)
    cuts = range(conv.strip, conv.out[1], conv.strip) if conv.strip else ()
    strips = [part.reshape(conv.batch, -1) for part in np.split(pixels, list(cuts), axis=2)]
    return np.concatenate(strips, axis=1).reshape(-1)


def in_order(conv: Conv, rows: Array, axis: int) -> Array:
    """Rows (image, p, q) along an axis in the order in which the product has them."""
    return np.take(row_major(rows), rows_of(conv), axis) if conv.strip else rows


def finish(node: Node, y: Array, extra: Array | None) -> Array:
    """Return what follows the product: bias of a Conv, alpha and beta * C of a Gemm; ``extra`` is its input 2."""
    if node.op == "Gemm":
        return finish_gemm(node, y, extra)
    return y if extra is None else y + extra.reshape(-1, *[1] * (y.ndim - 2))


def _attr(node: Node | None, name: str) -> int:
    return int(node.attrs.get(name, 0)) if node is not None else 0


def _zero_point(node: Node | None, name: str, operand: Array) -> int | Array:
    """A zero point that is the same everywhere as a number, else spread over the operand (a view)."""
    zero = 0 if node is None else node.attrs.get(name, 0)
    if not isinstance(zero, np.ndarray) or zero.size == 1:
        return int(zero)
    return np.broadcast_to(zero, operand.shape)


def _im2col(conv: Conv, value: Array, group: int) -> Array:
    size, (top, left, bottom, right) = (conv.height, conv.width), conv.pad
    window = Window(size, conv.kernel, conv.stride, conv.dilation, (top, left), (bottom, right), conv.out)
    mine = value[:, group * conv.channels : (group + 1) * conv.channels]
    frame = padded(mine.reshape(conv.batch, 1, conv.channels, conv.height, conv.width), window)
    columns = [columns_of(image, window, 0, conv.out[0])[0] for image in frame]
    return (columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)).T


def _one_of_batch(gemm: Gemm, value: Array, group: int, shape: Shape, transposed: int) -> Array:
    stored = shape[::-1] if transposed else shape
    if not gemm.batch:
        whole = value.reshape(stored)
        return whole.T if transposed else whole
    position = np.unravel_index(group, gemm.batch)
    axes = value.shape[: max(value.ndim - 2, 0)]
    mine = position[len(position) - len(axes) :] if axes else ()
    index = tuple(0 if extent == 1 else int(at) for at, extent in zip(mine, axes, strict=True))
    mine_only = np.asarray(value[index]).reshape(stored)
    return mine_only.T if transposed else mine_only
