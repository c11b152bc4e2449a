"""Sliding windows: output sizes, padding, and the strided views that convolutions and pools run over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from accelsim.errors import ModelError
from accelsim.types import Array, Index
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Shape


@dataclass(frozen=True)
class Window:
    """Geometry over the spatial axes: one entry per axis (``before`` and ``after`` are the paddings)."""

    size: Shape
    kernel: Shape
    stride: Shape
    dilation: Shape
    before: Shape
    after: Shape
    out: Shape

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """Yield every position inside the kernel, row-major."""
        return product(*(range(extent) for extent in self.kernel))


def window_of(node: Node, spatial: Shape) -> Window:
    """The window that ``node`` (a conv or pool) slides over ``spatial``; ModelError when it does not fit.

    With ceil_mode a last window that would start beyond the input and its left padding is dropped.
    """
    rank = len(spatial)
    kernel, stride = tuple(node.attrs["kernel_shape"]), tuple(node.attrs["strides"])
    dilation, pads = tuple(node.attrs["dilations"]), tuple(node.attrs["pads"])
    if not (len(kernel) == len(stride) == len(dilation) == rank and len(pads) == 2 * rank):
        what = f"kernel {list(kernel)}, strides {list(stride)}, dilations {list(dilation)}, pads {list(pads)}"
        raise ModelError(what, node.name, f"one entry per spatial axis of {list(spatial)} (pads: two)")
    if min((*kernel, *stride, *dilation), default=1) < 1:
        what = f"kernel {list(kernel)}, strides {list(stride)}, dilations {list(dilation)}"
        raise ModelError(what, node.name, "1 or more each")
    before, after = pads[:rank], pads[rank:]
    ceil = bool(node.attrs.get("ceil_mode", 0))
    out = tuple(_extent(spatial[i], before[i], after[i], kernel[i], stride[i], dilation[i], ceil) for i in range(rank))
    if min(out, default=1) < 1:
        what = f"window {list(kernel)} (dilations {list(dilation)}) does not fit into {list(spatial)}"
        raise ModelError(what, node.name)
    return Window(spatial, kernel, stride, dilation, before, after, out)


def _extent(size: int, before: int, after: int, kernel: int, stride: int, dilation: int, ceil: bool) -> int:
    span = size + before + after - (dilation * (kernel - 1) + 1)
    steps = -(-span // stride) if ceil else span // stride
    return steps + 1 - (ceil and steps * stride >= size + before)


def drops_a_window(node: Node, spatial: Shape) -> bool:
    """Return whether ceil_mode asks for a last window that would begin in the padding, and so is not there.

    The shape inference of ONNX counts it all the same; its kernels and ONNX Runtime do not make it.
    """
    if not node.attrs.get("ceil_mode", 0):
        return False
    window = window_of(node, spatial)
    return any(
        out * stride < size + before + after - (dilation * (kernel - 1) + 1) + stride
        for out, stride, size, before, after, dilation, kernel in zip(
            window.out, window.stride, window.size, window.before, window.after, window.dilation, window.kernel,
            strict=True,
        )
    )  # fmt: skip


def padded(x: Array, window: Window, value: float = 0) -> Array:
    """``x`` [.., *spatial] with ``value`` around it so that all windows fit; ``x`` itself if they do."""
    rank = len(window.size)
    reach = [
        (out - 1) * stride + (kernel - 1) * dilation + 1
        for out, stride, kernel, dilation in zip(window.out, window.stride, window.kernel, window.dilation, strict=True)
    ]
    total = [max(r, b + s) for r, b, s in zip(reach, window.before, window.size, strict=True)]
    if tuple(total) == window.size:
        return x
    frame = np.full(x.shape[: x.ndim - rank] + tuple(total), value, x.dtype)
    inside = (slice(b, b + s) for b, s in zip(window.before, window.size, strict=True))
    index: Index = (..., *inside)
    frame[index] = x
    return frame


def view(x: Array, window: Window, offset: Sequence[int]) -> Array:
    """Return what kernel position ``offset`` sees in each window of ``x`` (already padded): [.., *out], a view."""
    cuts = (
        slice(o * d, o * d + (n - 1) * s + 1, s)
        for o, d, n, s in zip(offset, window.dilation, window.out, window.stride, strict=True)
    )
    index: Index = (..., *cuts)
    return np.asarray(x[index])
