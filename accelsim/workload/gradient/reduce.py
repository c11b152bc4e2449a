"""Gradients of reductions: dY spread over the axes that were reduced, times the derivative of the step."""

from __future__ import annotations

from collections.abc import Callable

from accelsim.workload.gradient.context import Value
from accelsim.workload.gradient.rules import Formula, formulas
from accelsim.workload.graph import Node


def _kept(value: Value, x: Value, node: Node) -> Value:
    """A result of the reduction with its axes there again, of size 1."""
    axes = tuple(node.attrs["axes"])
    return value.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])


def _extreme(x: Value, y: Value, g: Value, axes: list[int]) -> Value:
    """dY shared evenly by all elements that reach the extreme value."""
    reached = (x - y).is_zero()
    return reached * (g / reached.sum(axes))


def _product(x: Value, y: Value, g: Value, axes: list[int]) -> Value:
    """dY times the product of the other elements, also where one or more of them are zero."""
    zero = x.is_zero()
    without = x + zero
    others = without.op("ReduceProd", axes=axes, keepdims=1) / without
    return g * others * (zero.sum(axes) - zero).is_zero()


# op: gradient from x, y (with its axes), dY (with its axes), axes
_STEPS: dict[str, Callable[[Value, Value, Value, list[int]], Value]] = {
    "ReduceMax": _extreme,
    "ReduceMin": _extreme,
    "ReduceProd": _product,
    "ReduceL1": lambda x, y, g, axes: g * x.op("Sign"),
    "ReduceL2": lambda x, y, g, axes: x * (g / (y + y.is_zero())),
    "ReduceSumSquare": lambda x, y, g, axes: x * (g * 2),
}


def _stepwise(step: Callable[[Value, Value, Value, list[int]], Value]) -> Formula:
    return lambda node, g, y, x: [step(x, _kept(y, x, node), _kept(g, x, node), list(node.attrs["axes"]))]


formulas({
    "ReduceSum": lambda node, g, y, x: [_kept(g, x, node).expand(x.shape)],
    "ReduceMean": lambda node, g, y, x: [(_kept(g, x, node) * (1 / x.count(node.attrs["axes"]))).expand(x.shape)],
    **{op: _stepwise(step) for op, step in _STEPS.items()},
})  # fmt: skip
