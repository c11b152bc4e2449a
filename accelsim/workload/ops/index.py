"""Ops that take or put elements where an index says: gather and scatter, one-hot, triangles, the k largest."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.values import (
    Infers,
    Ins,
    Kernel,
    Values,
    array,
    known_within,
    no_work,
    per_result,
    require,
    same,
    tensor,
    within,
)


def _places(node: Node, x: Array, indices: Array) -> tuple[Array, ...]:
    """Position in ``x`` to which each element of ``indices`` points: its own, but the index along the axis."""
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[node.attrs["axis"]] = within(node, indices, x.shape[node.attrs["axis"]])
    return tuple(places)


def _entries(node: Node, indices: Array, sizes: tuple[int, ...]) -> Iterator[Array]:
    """The entries of each index along one of ``sizes``."""
    for entry, size in zip(np.moveaxis(indices, -1, 0), sizes, strict=False):
        yield within(node, entry, size)


def _along_infer(node: Node, ins: Ins) -> Infers:
    x, indices = tensor(node, ins, 0), tensor(node, ins, 1)
    require(len(indices.shape) == len(x.shape), node, f"indices {list(indices.shape)} of {list(x.shape)}", "one rank")
    _check_places(node, x, indices)
    return [(indices.shape, x.dtype)]


def _check_places(node: Node, x: Tensor, indices: Tensor) -> None:
    """``indices`` has the rank of ``x`` and is no larger but along the axis."""
    axis = node.attrs["axis"]
    sizes = zip(indices.shape, x.shape, strict=True)
    fits = len(x.shape) > axis and all(i <= n for at, (i, n) in enumerate(sizes) if at != axis)
    require(fits, node, f"indices {list(indices.shape)} along axis {axis} of {list(x.shape)}")
    known_within(node, indices, x.shape[axis])


def _gather_elements(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    return [np.asarray(x[_places(node, x, array(values, 1))])]


def _gather_nd_infer(node: Node, ins: Ins) -> Infers:
    x, indices, batch = tensor(node, ins, 0), tensor(node, ins, 1), node.attrs["batch_dims"]
    require(0 <= batch < len(indices.shape), node, f"batch_dims {batch} of {list(indices.shape)}")
    depth = indices.shape[-1]
    require(batch + depth <= len(x.shape), node, f"indices of {depth} entries into {list(x.shape)}")
    require(x.shape[:batch] == indices.shape[:batch], node, f"batches of {list(x.shape)} and {list(indices.shape)}")
    return [((*indices.shape[:-1], *x.shape[batch + depth :]), x.dtype)]


def _gather_nd(node: Node, values: Values) -> list[Array]:
    x, indices, batch = array(values, 0), array(values, 1), node.attrs["batch_dims"]
    rest = indices.ndim - 1 - batch
    grid: tuple[Array, ...] = np.indices(indices.shape[:batch], sparse=True)
    own = [index.reshape(*index.shape, *[1] * rest) for index in grid]
    return [np.asarray(x[(*own, *_entries(node, indices, x.shape[batch:]))])]


_COMBINE: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter_infer(node: Node, ins: Ins) -> Infers:
    require(node.attrs["reduction"] in ("none", *_COMBINE), node, f"reduction {node.attrs['reduction']!r}")
    return same(node, ins)


def _scatter_elements_infer(node: Node, ins: Ins) -> Infers:
    x, indices, updates = (tensor(node, ins, index) for index in range(3))
    shapes = f"indices {list(indices.shape)} for updates {list(updates.shape)} of {list(x.shape)}"
    require(indices.shape == updates.shape and len(indices.shape) == len(x.shape), node, shapes)
    _check_places(node, x, indices)
    return _scatter_infer(node, ins)


def _scatter_nd_infer(node: Node, ins: Ins) -> Infers:
    x, indices, updates = (tensor(node, ins, index) for index in range(3))
    depth = indices.shape[-1] if indices.shape else 0
    fits = depth <= len(x.shape) and updates.shape == (*indices.shape[:-1], *x.shape[depth:])
    shapes = f"indices {list(indices.shape)} for updates {list(updates.shape)} of {list(x.shape)}"
    require(bool(indices.shape) and fits, node, shapes)
    return _scatter_infer(node, ins)


def _put(x: Array, at: tuple[Array, ...], updates: Array, reduction: str) -> list[Array]:
    """``x`` with ``updates`` at ``at``; where one place is named twice, all are combined ('none': the last stays)."""
    y = x.copy()
    if reduction == "none":
        y[at] = updates
    else:
        _COMBINE[reduction].at(y, at, updates)
    return [y]


def _scatter_elements(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    return _put(x, _places(node, x, array(values, 1)), array(values, 2), node.attrs["reduction"])


def _scatter_nd(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    return _put(x, tuple(_entries(node, array(values, 1), x.shape)), array(values, 2), node.attrs["reduction"])


def _scatter_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    # one combination per update; nothing is computed where the update replaces
    return Work(ops=0 if node.attrs["reduction"] == "none" else tensor(node, ins, 2).elements)


register(Op("GatherElements", "move", _along_infer, _gather_elements, no_work, family="indexing"))
register(Op("GatherND", "move", _gather_nd_infer, _gather_nd, no_work, family="indexing", onnx={"batch_dims": 0}))
register(Op("ScatterElements", "move", _scatter_elements_infer, _scatter_elements, _scatter_work, family="indexing"))
_NONE = {"reduction": "none"}
register(Op("ScatterND", "move", _scatter_nd_infer, _scatter_nd, _scatter_work, family="indexing", onnx=_NONE))


def _one_hot_infer(node: Node, ins: Ins) -> Infers:
    shape, axis = tensor(node, ins, 0).shape, node.attrs["axis"]
    values = tensor(node, ins, 1)
    require(values.shape == (2,), node, f"values of shape {list(values.shape)}", "[off, on]")
    return [((*shape[:axis], node.attrs["depth"], *shape[axis:]), tensor(node, ins, 1).dtype)]


def _one_hot(node: Node, values: Values) -> list[Array]:
    indices, depth, axis = array(values, 0), node.attrs["depth"], node.attrs["axis"]
    counted = np.expand_dims(np.where(indices < 0, indices + depth, indices), axis)
    slots = np.arange(depth).reshape(-1, *[1] * (indices.ndim - axis))
    off, on = array(values, 1)
    return [np.where(counted == slots, on, off)]


register(Op("OneHot", "elementwise", _one_hot_infer, _one_hot, per_result(), family="indexing"))


def _trilu_infer(node: Node, ins: Ins) -> Infers:
    x = tensor(node, ins, 0)
    require(len(x.shape) >= 2, node, f"input of shape {list(x.shape)}", "[.., rows, columns]")
    return same(node, ins)


def _trilu(node: Node, values: Values) -> list[Array]:
    cut: Callable[..., Array] = np.triu if node.attrs["upper"] else np.tril
    return [np.asarray(cut(array(values, 0), node.attrs["k"]))]


register(Op("Trilu", "move", _trilu_infer, _trilu, no_work, family="indexing"))


def _top_infer(node: Node, ins: Ins) -> Infers:
    x, axis, k = tensor(node, ins, 0), node.attrs["axis"], node.attrs["k"]
    require(0 <= k <= x.shape[axis], node, f"{k} of {x.shape[axis]} elements")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [(shape, x.dtype), (shape, "int64")]


def _top(node: Node, values: Values) -> list[Array]:
    """The k largest (smallest) along an axis in order, equal ones by their index; NaN counts as the largest."""
    x, axis = array(values, 0), node.attrs["axis"]
    if node.attrs["largest"]:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    chosen = np.take(order, np.arange(node.attrs["k"]), axis=axis)
    return [np.take_along_axis(x, chosen, axis=axis), chosen.astype(np.int64)]


def _top_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    # a heap of the k best: about log2(k) + 1 comparisons per input element
    return Work(ops=tensor(node, ins, 0).elements * max(1, (max(node.attrs["k"], 1)).bit_length()))


register(Op("TopK", "reduce", _top_infer, _top, _top_work, family="ranking"))


def _scan(step: np.ufunc) -> Kernel:
    def kernel(node: Node, values: Values) -> list[Array]:
        x, axis = array(values, 0), node.attrs["axis"]
        run = np.flip(x, axis) if node.attrs["reverse"] else x
        y = np.asarray(step.accumulate(run, axis=axis), x.dtype)
        if node.attrs["exclusive"] and x.shape[axis]:
            first = np.full_like(np.take(y, [0], axis=axis), step.identity)
            y = np.concatenate([first, np.delete(y, -1, axis=axis)], axis=axis)
        return [np.flip(y, axis) if node.attrs["reverse"] else y]

    return kernel


register(Op("CumSum", "reduce", same, _scan(np.add), per_result(), family="scans"))
register(Op("CumProd", "reduce", same, _scan(np.multiply), per_result(), family="scans"))
