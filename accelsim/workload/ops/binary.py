"""Elementwise ops of two or more inputs, with NumPy broadcasting; one operation per result and step."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from accelsim.errors import ModelError
from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.values import Infers, Ins, Values, array, bits, broadcast, tensor

Pair = Callable[[Array, Array], Array]


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    quotient = a // b
    return np.asarray(quotient + ((a % b != 0) & ((a < 0) != (b < 0))))  # truncates, as C and ONNX do


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b.astype(a.dtype)))
    return np.power(a.astype(np.float64), b).astype(a.dtype)


def _prelu(x: Array, slope: Array) -> Array:
    return np.where(x >= 0, x, x * slope)


def _shift(a: Array, b: Array, direction: str) -> Array:
    """``a`` shifted by ``b`` bits; by its width or more, or by a negative count, only a shift to the right leaves the
    sign.
    """
    bits = 8 * a.dtype.itemsize
    wide = np.where((b < 0) | (b >= bits), bits, b).astype(np.int64)
    within = np.minimum(wide, bits - 1).astype(a.dtype)
    if direction == "RIGHT":
        rest = np.asarray(np.right_shift(a, within))
        return rest if a.dtype.kind == "i" else np.where(wide < bits, rest, np.zeros(1, a.dtype))
    return np.where(wide < bits, np.left_shift(a, within), np.zeros(1, a.dtype))


def _modulo(a: Array, b: Array, fmod: int) -> Array:
    rest: Array = np.fmod(a, b) if fmod else np.mod(a, b)
    return rest


# op: (operations per element, family, kernel)
_ARITHMETIC: dict[str, tuple[int, str, Pair]] = {
    "Add": (1, "arithmetic", np.add),
    "Sub": (1, "arithmetic", np.subtract),
    "Mul": (1, "arithmetic", np.multiply),
    "Div": (1, "arithmetic", _divide),
    "Pow": (1, "powers", _power),
    "PRelu": (2, "other_activations", _prelu),
    "BitwiseAnd": (1, "bits", np.bitwise_and),
    "BitwiseOr": (1, "bits", np.bitwise_or),
    "BitwiseXor": (1, "bits", np.bitwise_xor),
}
# op: kernel of two inputs and one attribute, its name and default, family
_WITH_ATTRIBUTE: dict[str, tuple[str, Any, str, Callable[..., Array]]] = {
    "Mod": ("fmod", 0, "arithmetic", _modulo),
    "BitShift": ("direction", "", "bits", _shift),
}
_TO_BOOL: dict[str, tuple[str, Pair]] = {
    "Equal": ("comparisons", np.equal),
    "Less": ("comparisons", np.less),
    "LessOrEqual": ("comparisons", np.less_equal),
    "Greater": ("comparisons", np.greater),
    "GreaterOrEqual": ("comparisons", np.greater_equal),
    "And": ("logic", np.logical_and),
    "Or": ("logic", np.logical_or),
    "Xor": ("logic", np.logical_xor),
}
_VARIADIC: dict[str, Pair] = {"Min": np.minimum, "Max": np.maximum, "Sum": np.add, "Mean": np.add}


def _common(node: Node, ins: Ins) -> Infers:
    """Broadcast shape and the one format of all inputs (Pow: that of the base)."""
    tensors = [tensor(node, ins, index) for index in range(len(ins))]
    formats = sorted({item.dtype for item in tensors})
    if len(formats) > 1 and node.op != "Pow":
        raise ModelError(f"inputs of {node.op} have formats {', '.join(formats)}", node.name, "one")
    return [(broadcast(node, [item.shape for item in tensors]), tensors[0].dtype)]


def _pair(node: Node, ins: Ins) -> Infers:
    """Infer the result of an op with two inputs."""
    if node.op.startswith("Bit"):
        bits(node, ins)
    return _common(node, [tensor(node, ins, 0), tensor(node, ins, 1)])


def _to_bool(node: Node, ins: Ins) -> Infers:
    return [(_pair(node, ins)[0][0], "bool")]


def _register_pair(name: str, count: int, family: str, compute: Pair, infer: Callable[[Node, Ins], Infers]) -> None:
    def kernel(node: Node, values: Values) -> list[Array]:
        with np.errstate(all="ignore"):
            return [np.asarray(compute(array(values, 0), array(values, 1)))]

    def work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
        return Work(ops=count * outs[0].elements)

    register(Op(name, "elementwise", infer, kernel, work, family=family, onnx={}))


def _register_with_attribute(
    name: str, attribute: str, default: Any, family: str, compute: Callable[..., Array]
) -> None:
    def kernel(node: Node, values: Values) -> list[Array]:
        with np.errstate(all="ignore"):
            return [compute(array(values, 0), array(values, 1), node.attrs[attribute])]

    def work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
        return Work(ops=outs[0].elements)

    register(Op(name, "elementwise", _pair, kernel, work, family=family, onnx={attribute: default}))


def _register_variadic(name: str, compute: Pair) -> None:
    def kernel(node: Node, values: Values) -> list[Array]:
        arrays = [array(values, index) for index in range(len(values))]
        with np.errstate(all="ignore"):
            total = reduce(compute, arrays)
            if name == "Mean":
                total = np.asarray(total / total.dtype.type(len(arrays)), total.dtype)
        return [total]

    def work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
        return Work(ops=(len(ins) - 1 + (name == "Mean")) * outs[0].elements)  # n - 1 steps, Mean divides

    register(Op(name, "elementwise", _common, kernel, work, family="arithmetic", onnx={}))


for _name, (_count, _family, _compute) in _ARITHMETIC.items():
    _register_pair(_name, _count, _family, _compute, _pair)
for _name, (_attribute, _default, _family, _kernel) in _WITH_ATTRIBUTE.items():
    _register_with_attribute(_name, _attribute, _default, _family, _kernel)
for _name, (_family, _compute) in _TO_BOOL.items():
    _register_pair(_name, 1, _family, _compute, _to_bool)
for _name, _compute in _VARIADIC.items():
    _register_variadic(_name, _compute)


def _where_infer(node: Node, ins: Ins) -> Infers:
    x = tensor(node, ins, 1)
    return [(broadcast(node, [tensor(node, ins, index).shape for index in range(3)]), x.dtype)]


def _where(node: Node, values: Values) -> list[Array]:
    return [np.where(array(values, 0), array(values, 1), array(values, 2))]


def _where_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    return Work(ops=outs[0].elements)  # one select each


register(Op("Where", "elementwise", _where_infer, _where, _where_work, family="comparisons", onnx={}))
