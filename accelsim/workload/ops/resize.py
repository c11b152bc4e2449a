"""Resize by nearest neighbour or linearly, one axis after the other (ONNX operator Resize, opset 13+)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelsim.workload.graph import Array, Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.values import Infers, Ins, Values, array, require, tensor

# where the centre of result element i lies in the input; (i, scale, size of the result, size of the input)
_COORDINATE: dict[str, Callable[[Array, float, int, int], Array]] = {
    "half_pixel": lambda i, scale, out, size: (i + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda i, scale, out, size: (i + 0.5) / scale - 0.5 if out > 1 else i * 0.0,
    "asymmetric": lambda i, scale, out, size: i / scale,
    "align_corners": lambda i, scale, out, size: i * (size - 1) / (out - 1) if out > 1 else i * 0.0,
}
_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _infer(node: Node, ins: Ins) -> Infers:
    x, a = tensor(node, ins, 0), node.attrs
    require(len(a["sizes"]) == len(a["scales"]) == len(x.shape), node, "sizes and scales", "one per axis")
    for name, table in (
        ("coordinate", _COORDINATE),
        ("nearest_mode", _NEAREST),
        ("mode", {"nearest", "linear"}),
    ):
        require(a[name] in table, node, f"{name} {a[name]!r}", " or ".join(sorted(table)))
    return [(tuple(a["sizes"]), x.dtype)]


def _kernel(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    y = x
    for axis, (out, scale) in enumerate(zip(node.attrs["sizes"], node.attrs["scales"], strict=True)):
        if out != x.shape[axis] or scale != 1:
            y = _along(node, y, axis, out, scale)
    return [y]


def _along(node: Node, x: Array, axis: int, out: int, scale: float) -> Array:
    size = x.shape[axis]
    where = _COORDINATE[node.attrs["coordinate"]](np.arange(out, dtype=np.float64), scale, out, size)
    if node.attrs["mode"] == "nearest":
        index = np.clip(_NEAREST[node.attrs["nearest_mode"]](where), 0, size - 1).astype(np.int64)
        return np.asarray(np.take(x, index, axis=axis))
    where = np.clip(where, 0, size - 1)
    low = np.floor(where).astype(np.int64)
    part = (where - low).astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1 - axis))
    left, right = np.take(x, low, axis=axis), np.take(x, np.minimum(low + 1, size - 1), axis=axis)
    return np.asarray(left * (1 - part) + right * part, x.dtype)


def _work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    if node.attrs["mode"] == "nearest":
        return Work()
    axes = sum(a != b for a, b in zip(tensor(node, ins, 0).shape, outs[0].shape, strict=True))
    return Work(ops=3 * axes * outs[0].elements)  # two multiplies and an addition per axis


register(Op("Resize", "move", _infer, _kernel, _work))
