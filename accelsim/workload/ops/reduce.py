"""Reductions over axes: one operation per input element and step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Op, Shape, register
from accelsim.workload.ops.values import Infers, Ins, Kernel, Values, array, mean, per_input, require, tensor

Reduce = Callable[..., Array]


def _sum_squares(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.sum(x * x, axis=axis, keepdims=keepdims))


def _l1(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.asarray(np.sum(np.abs(x), axis=axis, keepdims=keepdims))


def _l2(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    return np.sqrt(_sum_squares(x, axis, keepdims))


def extreme(find: Reduce, least: bool) -> Reduce:
    """``find``, and of no elements the number that loses against every other."""

    def reduce(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
        if x.size:
            return np.asarray(find(x, axis=axis, keepdims=keepdims))
        worst = np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max if x.dtype.kind in "iu" else 1
        if not least:
            worst = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min if x.dtype.kind in "iu" else 0
        return np.asarray(find(x, axis=axis, keepdims=keepdims, initial=worst))

    return reduce


REDUCTIONS: dict[str, tuple[int, Reduce]] = {
    "ReduceMean": (1, mean),
    "ReduceSum": (1, np.sum),
    "ReduceMax": (1, extreme(np.max, least=False)),
    "ReduceMin": (1, extreme(np.min, least=True)),
    "ReduceProd": (1, np.prod),
    "ReduceL1": (2, _l1),
    "ReduceL2": (2, _l2),
    "ReduceSumSquare": (2, _sum_squares),
}
"""Op -> operations per input element, kernel."""


def _shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def _infer(node: Node, ins: Ins) -> Infers:
    x, axes = tensor(node, ins, 0), tuple(node.attrs["axes"])
    require(all(0 <= axis < len(x.shape) for axis in axes), node, f"axes {list(axes)} of {list(x.shape)}")
    return [(_shape(x.shape, axes, bool(node.attrs["keepdims"])), x.dtype)]


def _register(name: str, count: int, reduce: Reduce) -> None:
    def kernel(node: Node, values: Values) -> list[Array]:
        x = array(values, 0)
        with np.errstate(all="ignore"):
            y = reduce(x, axis=tuple(node.attrs["axes"]), keepdims=bool(node.attrs["keepdims"]))
        return [np.asarray(y, x.dtype)]

    register(Op(name, "reduce", _infer, kernel, per_input(count), family="reductions"))


for _name, (_count, _reduce) in REDUCTIONS.items():
    _register(_name, _count, _reduce)


def _arg_infer(node: Node, ins: Ins) -> Infers:
    x, axis = tensor(node, ins, 0), node.attrs["axis"]
    chosen = 0 <= axis < len(x.shape) and x.shape[axis] > 0
    require(chosen, node, f"axis {axis} of {list(x.shape)}", "elements to choose from")
    return [(_shape(x.shape, (axis,), bool(node.attrs["keepdims"])), "int64")]


def _arg(find: Reduce) -> Kernel:
    def kernel(node: Node, values: Values) -> list[Array]:
        x, axis = array(values, 0), node.attrs["axis"]
        last = bool(node.attrs.get("select_last_index", 0))
        found = find(np.flip(x, axis) if last else x, axis=axis, keepdims=bool(node.attrs["keepdims"]))
        return [np.asarray(x.shape[axis] - 1 - found if last else found, np.int64)]

    return kernel


register(Op("ArgMax", "reduce", _arg_infer, _arg(np.argmax), per_input(), family="ranking"))
register(Op("ArgMin", "reduce", _arg_infer, _arg(np.argmin), per_input(), family="ranking"))
