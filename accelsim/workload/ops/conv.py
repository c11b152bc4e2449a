"""Conv as an implicit GEMM: weights [Co, K] times columns [K, P*Q] are NCHW already."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from accelsim.types import Array, Index
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops import base
from accelsim.workload.ops.base import Gemm, Op, Work, register
from accelsim.workload.ops.product import is_integer, product, shifted
from accelsim.workload.ops.values import INTEGER_OPERANDS, Infers, Ins, Values, array, optional, require, tensor
from accelsim.workload.ops.window import Window, padded, view, window_of

_COLUMNS = 1 << 20
"""Elements of the column matrix made at a time (4 MB in float32: stays in the cache of a core)."""


def _infer(node: Node, ins: Ins) -> Infers:
    x, w = tensor(node, ins, 0), tensor(node, ins, 1)
    group = node.attrs["group"]
    require(len(x.shape) >= 3 and len(w.shape) == len(x.shape), node, f"shapes {x.shape} and {w.shape}", "[N,C,*S]")
    require(
        x.shape[1] == w.shape[1] * group and w.shape[0] % group == 0,
        node,
        f"{x.shape[1]} channels against weights {list(w.shape)} in {group} groups",
        "C = group * C/g and Co a multiple of group",
    )
    bias = ins[2] if len(ins) > 2 else None
    if bias is not None:
        require(bias.shape == w.shape[:1], node, f"a bias of shape {list(bias.shape)}", f"[{w.shape[0]}]")
    require(tuple(node.attrs["kernel_shape"]) == w.shape[2:], node, "kernel_shape differs from the weights")
    window = window_of(node, x.shape[2:])
    return [((x.shape[0], w.shape[0], *window.out), accumulator(x.dtype))]


def accumulator(dtype: str) -> str:
    """Format of the result of a matrix op on operands of ``dtype``: int32 for integers, else the same."""
    return "int32" if dtype in INTEGER_OPERANDS else dtype


def _kernel(node: Node, values: Values) -> list[Array]:
    x = shifted(array(values, 0), node.attrs.get("a_zero_point", 0))
    w = shifted(array(values, 1), node.attrs.get("b_zero_point", 0))
    window = window_of(node, x.shape[2:])
    y = _convolve(x, w, window, node.attrs["group"])
    bias = optional(values, 2)
    if bias is not None:
        y += bias.reshape(-1, *[1] * len(window.out))
    return [y]


def _convolve(x: Array, w: Array, window: Window, group: int) -> Array:
    """Convolution of ``x`` [N, g*C, *S] with ``w`` [Co, C, *k]: [N, Co, *out], float or int32."""
    frame = padded(x, window)
    frame = frame.reshape(x.shape[0], group, w.shape[1], *frame.shape[2:])
    weights = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    y = np.empty((*frame.shape[:2], weights.shape[1], *window.out), np.int32 if is_integer(x) else x.dtype)
    if w.shape[1] == 1 and group > 1:
        _depthwise(frame, weights, window, y)
    else:
        _by_columns(frame, weights, window, y)
    return y.reshape(x.shape[0], w.shape[0], *window.out)


def _depthwise(frame: Array, weights: Array, window: Window, y: Array) -> None:
    """One input channel per group: what each kernel offset sees times its weight, summed; no columns."""
    kernels = weights.reshape(*weights.shape[:2], *window.kernel, *[1] * len(window.out)).astype(y.dtype)
    part = np.empty(y.shape[1:], y.dtype)
    for image, out in zip(frame, y, strict=True):
        source = image.astype(y.dtype, copy=False)
        for index, offset in enumerate(window.offsets()):
            at: Index = (slice(None), slice(None), *offset)
            np.multiply(view(source, window, offset), kernels[at], out=part if index else out)
            if index:
                out += part


def _by_columns(frame: Array, weights: Array, window: Window, y: Array) -> None:
    """GEMM over columns [g, K, positions], some output rows at a time so that they stay in the cache."""
    groups, depth = weights.shape[0], prod(weights.shape[2:])
    matrix = weights.reshape(groups, weights.shape[1], depth)
    row = prod(window.out[1:])
    together = _COLUMNS // max(1, groups * depth * prod(window.out))
    if together > 1 and len(frame) > 1 and not is_integer(frame):
        _several_images(frame, matrix, window, y, together)
        return
    step = max(1, _COLUMNS // max(1, groups * depth * row))
    for image, out in zip(frame, y, strict=True):
        flat = out.reshape(groups, weights.shape[1], -1)
        for start in range(0, window.out[0], step):
            stop = min(start + step, window.out[0])
            block = flat[:, :, start * row : stop * row]
            columns = columns_of(image, window, start, stop)
            if is_integer(image):
                block[...] = product(matrix, columns)
            else:
                np.matmul(matrix, columns, out=block)


def _several_images(frame: Array, matrix: Array, window: Window, y: Array, together: int) -> None:
    """Convolve by columns of several small images at once: fewer calls than ``_by_columns``, the same products."""
    positions = prod(window.out)
    for start in range(0, len(frame), together):
        part, out = frame[start : start + together], y[start : start + together]
        columns = np.empty((*part.shape[:3], *window.kernel, *window.out), part.dtype)
        for offset in window.offsets():
            at: Index = (slice(None), slice(None), slice(None), *offset)
            columns[at] = view(part, window, offset)
        shape = (len(part), matrix.shape[0], -1, positions)
        np.matmul(matrix, columns.reshape(shape), out=out.reshape(shape))


def columns_of(image: Array, window: Window, start: int, stop: int) -> Array:
    """Columns [g, C * kernel, positions] of output rows start..stop of one padded image [g, C, *S].

    A pointwise kernel of stride 1 gives a view of the image, not a copy.
    """
    groups, channels = image.shape[:2]
    rows = slice(start, stop)
    if prod(window.kernel) == 1:
        seen = view(image, window, [0] * len(window.out))[:, :, rows]
        return seen.reshape(groups, channels, -1)
    out = (stop - start, *window.out[1:])
    columns = np.empty((groups, channels, *window.kernel, *out), image.dtype)
    if prod(out) < prod(window.kernel):  # a large kernel at few places, as in the gradient of the weights
        turned = replace(window, stride=window.dilation, dilation=window.stride, out=window.kernel)
        for position in np.ndindex(*out):
            columns[(..., *position)] = view(image, turned, (position[0] + start, *position[1:]))
    else:
        for offset in window.offsets():
            at: Index = (slice(None), slice(None), *offset)
            columns[at] = view(image, window, offset)[:, :, rows]
    return columns.reshape(groups, channels * prod(window.kernel), -1)


def _work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    w, y = tensor(node, ins, 1), outs[0]
    bias = len(ins) > 2 and ins[2] is not None
    return Work(macs=y.elements * prod(w.shape[1:]), ops=y.elements if bias else 0)  # bias: one addition each


def _gemm(node: Node, ins: Ins, outs: list[Tensor]) -> Gemm | None:
    x, w, group = tensor(node, ins, 0), tensor(node, ins, 1), node.attrs["group"]
    if len(x.shape) > 4:
        return None
    geometry = _geometry(window_of(node, x.shape[2:]), x.shape[0], w.shape[1])
    positions = x.shape[0] * prod(geometry.out)
    return Gemm(group, positions, w.shape[0] // group, prod(w.shape[1:]), x.name, w.name, geometry)


def _geometry(window: Window, batch: int, channels: int) -> base.Conv:
    """Return a convolution as a 2-D one: a 1-D one gets height 1."""

    def two(values: tuple[int, ...], missing: int) -> tuple[int, int]:
        return (values[0], values[1]) if len(values) == 2 else (missing, values[0])

    size, before, after = two(window.size, 1), two(window.before, 0), two(window.after, 0)
    return base.Conv(
        batch, channels, size[0], size[1], two(window.kernel, 1), two(window.stride, 1),
        (before[0], before[1], after[0], after[1]), two(window.dilation, 1), two(window.out, 1),
    )  # fmt: skip


register(Op("Conv", "matrix", _infer, _kernel, _work, _gemm))
