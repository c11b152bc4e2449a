"""Elementwise ops of two or more inputs, with NumPy broadcasting; one operation per result and step."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from accelsim.errors import ModelError
from accelsim.types import Array
from accelsim.workload.graph import Attributes, Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.values import Infers, Ins, Values, array, bits, broadcast, per_result, tensor

Compute = Callable[..., Array]


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


_PAIRS: dict[str, tuple[int, str, Compute, Attributes]] = {
    "Add": (1, "arithmetic", np.add, {}),
    "Sub": (1, "arithmetic", np.subtract, {}),
    "Mul": (1, "arithmetic", np.multiply, {}),
    "Div": (1, "arithmetic", _divide, {}),
    "Pow": (1, "powers", _power, {}),
    "PRelu": (2, "other_activations", _prelu, {}),
    "BitwiseAnd": (1, "bits", np.bitwise_and, {}),
    "BitwiseOr": (1, "bits", np.bitwise_or, {}),
    "BitwiseXor": (1, "bits", np.bitwise_xor, {}),
    "Mod": (1, "arithmetic", _modulo, {"fmod": 0}),
    "BitShift": (1, "bits", _shift, {"direction": ""}),
    "Equal": (1, "comparisons", np.equal, {}),
    "Less": (1, "comparisons", np.less, {}),
    "LessOrEqual": (1, "comparisons", np.less_equal, {}),
    "Greater": (1, "comparisons", np.greater, {}),
    "GreaterOrEqual": (1, "comparisons", np.greater_equal, {}),
    "And": (1, "logic", np.logical_and, {}),
    "Or": (1, "logic", np.logical_or, {}),
    "Xor": (1, "logic", np.logical_xor, {}),
}
"""Op of two inputs -> operations per element, family, kernel, and attributes that the kernel takes, with defaults."""
_VARIADIC: dict[str, Compute] = {"Min": np.minimum, "Max": np.maximum, "Sum": np.add, "Mean": np.add}


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


def _register_pair(name: str, count: int, family: str, compute: Compute, attributes: Attributes) -> None:
    def kernel(node: Node, values: Values) -> list[Array]:
        extra = [node.attrs[attribute] for attribute in attributes]
        with np.errstate(all="ignore"):
            return [np.asarray(compute(array(values, 0), array(values, 1), *extra))]

    infer = _to_bool if family in ("comparisons", "logic") else _pair
    register(Op(name, "elementwise", infer, kernel, per_result(count), family=family, onnx=attributes))


def _register_variadic(name: str, compute: Compute) -> None:
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


for _name, _pair_row in _PAIRS.items():
    _register_pair(_name, *_pair_row)
for _name, _compute in _VARIADIC.items():
    _register_variadic(_name, _compute)


def _where_infer(node: Node, ins: Ins) -> Infers:
    x = tensor(node, ins, 1)
    return [(broadcast(node, [tensor(node, ins, index).shape for index in range(3)]), x.dtype)]


def _where(node: Node, values: Values) -> list[Array]:
    return [np.where(array(values, 0), array(values, 1), array(values, 2))]


register(Op("Where", "elementwise", _where_infer, _where, per_result(), family="comparisons", onnx={}))
