"""GridSample: the input at places that another tensor names (ONNX operator GridSample, opset 22), of any rank."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.resize import KERNELS
from accelsim.workload.ops.values import Infers, Ins, Values, array, require, tensor

_CUBIC = -0.75
_MODES = ("nearest", *KERNELS)
_PADDINGS = ("zeros", "border", "reflection")


def _infer(node: Node, ins: Ins) -> Infers:
    x, grid, a = tensor(node, ins, 0), tensor(node, ins, 1), node.attrs
    axes = len(x.shape) - 2
    fits = len(grid.shape) == axes + 2 and grid.shape[-1:] == (axes,) and grid.shape[:1] == x.shape[:1]
    require(0 not in x.shape[2:], node, f"no samples in {list(x.shape)}", "sizes from 1")
    require(axes >= 1 and fits, node, f"grid {list(grid.shape)} of {list(x.shape)}", "[N, *places, axes]")
    require(a["mode"] in _MODES, node, f"mode {a['mode']!r}", " or ".join(_MODES))
    require(a["padding_mode"] in _PADDINGS, node, f"padding_mode {a['padding_mode']!r}", " or ".join(_PADDINGS))
    return [((*x.shape[:2], *grid.shape[1:-1]), x.dtype)]


def _kernel(node: Node, values: Values) -> list[Array]:
    x, grid = array(values, 0), array(values, 1)
    last = np.moveaxis(x, 1, -1)  # channels behind, so that one index takes all of them
    image = np.arange(x.shape[0]).reshape(-1, *[1] * (grid.ndim - 2))
    places = np.moveaxis(grid, -1, 0)[::-1]  # the grid names the last axis first
    along = [_taps(node, place, size) for place, size in zip(places, x.shape[2:], strict=True)]
    y = np.zeros((*grid.shape[:-1], x.shape[1]), x.dtype)
    for taps in product(*along):
        weight = reduce(np.multiply, (part for _, part in taps))
        y += last[(image, *(index for index, _ in taps))] * weight[..., None].astype(x.dtype)
    return [np.moveaxis(y, -1, 1)]


def _taps(node: Node, place: Array, size: int) -> list[tuple[Array, Array]]:
    """(index, weight) of each input element along one axis; ``place`` runs from -1 to 1."""
    mode, aligned = node.attrs["mode"], bool(node.attrs["align_corners"])
    where = place.astype(np.float64)
    where = (where + 1) / 2 * (size - 1) if aligned else ((where + 1) * size - 1) / 2
    if mode != "cubic":
        where = _inside(node, where, size)
    if mode == "nearest":
        at = np.rint(where)
        return [_tap(node, at, np.ones_like(at), size)]
    radius, kernel = KERNELS[mode]
    steps = (np.floor(where) + offset for offset in range(1 - radius, radius + 1))
    return [_tap(node, at, kernel(np.abs(at - where), _CUBIC), size) for at in steps]


def _tap(node: Node, at: Array, weight: Array, size: int) -> tuple[Array, Array]:
    """An element that exists: beyond the border its weight is 0, or another one stands for it."""
    if node.attrs["padding_mode"] == "zeros":
        weight = np.where((at < 0) | (at > size - 1), 0, weight)
    return np.clip(_inside(node, at, size), 0, size - 1).astype(np.int64), weight


def _inside(node: Node, where: Array, size: int) -> Array:
    """``where`` carried into the input as the padding says."""
    if node.attrs["padding_mode"] == "border":
        return np.clip(where, 0, size - 1)
    if node.attrs["padding_mode"] == "zeros":
        return where
    low, span = (0.0, size - 1.0) if node.attrs["align_corners"] else (-0.5, float(size))
    if span == 0:
        return np.zeros_like(where)
    turned = np.mod(where - low, 2 * span)
    return np.asarray(np.where(turned > span, 2 * span - turned, turned) + low)


def _work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    """A multiply and an addition per tap of each result; nothing where the nearest element is taken."""
    if node.attrs["mode"] == "nearest":
        return Work()
    radius, _ = KERNELS[node.attrs["mode"]]
    taps = (2 * radius) ** (len(tensor(node, ins, 0).shape) - 2)
    return Work(ops=2 * taps * outs[0].elements)


register(Op("GridSample", "move", _infer, _kernel, _work, family="sampling"))
