"""Ops that only rename: the result is another view of the input, and nothing moves."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from accelsim.types import Array
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Op, Shape, register
from accelsim.workload.ops.values import Infers, Ins, Values, array, no_work, require, tensor

ShapeRule = Callable[[Node, Shape], Shape]


def _reshape(node: Node, shape: Shape) -> Shape:
    return tuple(node.attrs["shape"])


def _flatten(node: Node, shape: Shape) -> Shape:
    axis = node.attrs["axis"]
    return prod(shape[:axis]), prod(shape[axis:])


def _squeeze(node: Node, shape: Shape) -> Shape:
    axes = node.attrs["axes"]
    require(all(shape[axis] == 1 for axis in axes), node, f"axes {list(axes)} of {list(shape)} are not all 1")
    return tuple(extent for axis, extent in enumerate(shape) if axis not in axes)


def _unsqueeze(node: Node, shape: Shape) -> Shape:
    axes, rest = set(node.attrs["axes"]), iter(shape)
    return tuple(1 if axis in axes else next(rest) for axis in range(len(shape) + len(axes)))


def _unchanged(node: Node, shape: Shape) -> Shape:
    return shape


def _register(name: str, rule: ShapeRule, onnx: dict[str, int] | None = None) -> None:
    def infer(node: Node, ins: Ins) -> Infers:
        x = tensor(node, ins, 0)
        shape = rule(node, x.shape)
        require(prod(shape) == x.elements, node, f"{list(x.shape)} cannot become {list(shape)}")
        return [(shape, x.dtype)]

    def kernel(node: Node, values: Values) -> list[Array]:
        x = array(values, 0)
        return [x.reshape(rule(node, x.shape))]

    register(Op(name, "alias", infer, kernel, no_work, onnx=onnx))


for _name, _rule in {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Dropout": _unchanged,
}.items():
    _register(_name, _rule)
_register("Identity", _unchanged, onnx={})
