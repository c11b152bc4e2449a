"""Resize by nearest neighbour, linearly or by cubic splines, one axis after the other (ONNX operator Resize, opset 19).

Along an axis every result element is a sum over *taps*: input elements around the place where its centre lies, weighted
by the kernel of the mode at their distance. Antialiasing stretches the kernel by 1 / scale where the axis shrinks.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.values import Infers, Ins, Values, array, require, tensor

# where the centre of result element i lies in the input; (i, scale, size of the result, size of the input)
_COORDINATE: dict[str, Callable[[Array, float, int, int], Array]] = {
    "half_pixel": lambda i, scale, out, size: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, scale, out, size: (i + 0.5) / scale - 0.5 + (size - out / scale) / 2,
    "pytorch_half_pixel": lambda i, scale, out, size: (i + 0.5) / scale - 0.5 if out > 1 else i * 0.0,
    "asymmetric": lambda i, scale, out, size: i / scale,
    "align_corners": lambda i, scale, out, size: i * ((size - 1) / _span(scale, out, size)),
}
_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _span(scale: float, out: int, size: int) -> float:
    """Length of the result minus 1; the length is size * scale, which need not be whole. 1 where nothing is left."""
    length = scale * size
    length = out if abs(length - out) < 1e-4 else length
    return float(length - 1) if length > 1 else 1.0


def _triangle(distance: Array, a: float) -> Array:
    return np.asarray(np.maximum(0, 1 - distance))


def _cubic(distance: Array, a: float) -> Array:
    """Cubic convolution (Keys 1981, IEEE Trans. ASSP 29(6), equation 4, with free parameter ``a``)."""
    t = distance
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = a * (((t - 5) * t + 8) * t - 4)
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


KERNELS: dict[str, tuple[int, Callable[[Array, float], Array]]] = {"linear": (1, _triangle), "cubic": (2, _cubic)}
"""Mode -> half the width of its kernel, and the kernel over the distance."""


def _infer(node: Node, ins: Ins) -> Infers:
    x, a = tensor(node, ins, 0), node.attrs
    require(len(a["sizes"]) == len(a["scales"]) == len(x.shape), node, "sizes and scales", "one per axis")
    for name, table in (
        ("coordinate", {*_COORDINATE, "tf_crop_and_resize"}),
        ("nearest_mode", _NEAREST),
        ("mode", {"nearest", *KERNELS}),
    ):
        require(a[name] in table, node, f"{name} {a[name]!r}", " or ".join(sorted(table)))
    return [(tuple(a["sizes"]), x.dtype)]


def _kernel(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    y = x
    for axis in _changed(node, x.shape):
        y = _along(node, y, axis, x.shape[axis])
    if x.dtype.kind in "iu" and y.dtype.kind == "f":
        limits = np.iinfo(x.dtype)
        y = np.clip(np.rint(y), limits.min, limits.max)
    return [np.asarray(y, x.dtype)]


def _changed(node: Node, shape: tuple[int, ...]) -> list[int]:
    """Axes along which the result differs from the input."""
    a, rank = node.attrs, len(shape)
    roi = a.get("roi") or [0] * rank + [1] * rank
    return [
        axis
        for axis, size in enumerate(shape)
        if a["sizes"][axis] != size or a["scales"][axis] != 1 or (roi[axis], roi[rank + axis]) != (0, 1)
    ]


def _along(node: Node, x: Array, axis: int, size: int) -> Array:
    a, out, scale = node.attrs, node.attrs["sizes"][axis], node.attrs["scales"][axis]
    steps = np.arange(out, dtype=np.float64)
    if a["coordinate"] == "tf_crop_and_resize":
        where = _cropped(a["roi"][axis], a["roi"][x.ndim + axis], steps, out, size)
    else:
        where = _COORDINATE[a["coordinate"]](steps, scale, out, size)
    if a["mode"] == "nearest":
        index = np.clip(_NEAREST[a["nearest_mode"]](where), 0, size - 1).astype(np.int64)
        y = np.asarray(np.take(x, index, axis=axis))
    else:
        y = _weighted(x, axis, *_taps(node, where, scale, size))
    outside = (where < 0) | (where > size - 1)
    if a["coordinate"] == "tf_crop_and_resize" and outside.any():
        shape = (-1, *[1] * (x.ndim - 1 - axis))
        y = np.where(outside.reshape(shape), y.dtype.type(a["extrapolation_value"]), y)
    return y


def _cropped(start: float, end: float, steps: Array, out: int, size: int) -> Array:
    """Evenly from ``start`` to ``end`` of the input (both relative to its last element); one step is in the middle."""
    if out == 1:
        return np.full(1, 0.5 * (start + end) * (size - 1))
    return np.asarray(start * (size - 1) + steps * (end - start) * (size - 1) / (out - 1))


def _taps(node: Node, where: Array, scale: float, size: int) -> tuple[Array, Array]:
    """Indices and weights [taps, out] of the input elements that make up each result element."""
    a = node.attrs
    radius, kernel = KERNELS[a["mode"]]
    stretch = 1 / min(scale, 1.0) if a.get("antialias", 0) else 1.0
    reach = ceil(radius * stretch)
    taps = np.floor(where) + np.arange(1 - reach, reach + 1)[:, None]
    weights = kernel(np.abs(taps - where) / stretch, a.get("cubic_coeff_a", -0.75))
    if a.get("exclude_outside", 0):
        weights = np.where((taps < 0) | (taps > size - 1), 0, weights)
    if a.get("exclude_outside", 0) or stretch > 1:
        total = weights.sum(axis=0)
        weights = weights / np.where(total == 0, 1, total)
    return np.clip(taps, 0, size - 1).astype(np.int64), weights


def _weighted(x: Array, axis: int, taps: Array, weights: Array) -> Array:
    """Sum of the taps along ``axis``, in the float type of ``x`` (integers: float64)."""
    kind = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    shape = (-1, *[1] * (x.ndim - 1 - axis))
    y: Array | None = None
    for index, weight in zip(taps, weights, strict=True):
        part = np.take(x, index, axis=axis) * weight.astype(kind).reshape(shape)
        y = part if y is None else y + part
    assert y is not None
    return y


def _work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    """Per changed axis and result element one multiply per tap and the additions between them."""
    if node.attrs["mode"] == "nearest":
        return Work()
    radius, _ = KERNELS[node.attrs["mode"]]
    each = 0
    for axis in _changed(node, tensor(node, ins, 0).shape):
        stretch = 1 / min(node.attrs["scales"][axis], 1.0) if node.attrs.get("antialias", 0) else 1.0
        each += 4 * ceil(radius * stretch) - 1
    return Work(ops=each * outs[0].elements)


register(Op("Resize", "move", _infer, _kernel, _work, family="sampling", keeps=True))
