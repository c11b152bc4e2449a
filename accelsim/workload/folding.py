"""Constants: what ONNX nodes give without reading an input, and ops on constants, computed on first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from accelsim.errors import ModelError, Problem
from accelsim.workload.graph import Array, Node, Tensor
from accelsim.workload.normalise import Scope
from accelsim.workload.onnx_read import FORMATS, RawNode
from accelsim.workload.ops import base
from accelsim.workload.ops.values import CONTAINERS, contain

LAZY_ELEMENTS = 1024
"""Constants of more elements are made on first use."""

UNFOLDED = ("Dequantize",)
"""Ops that stay in the graph even on constants: what they would fold away (8-bit weights) is modelled."""


@dataclass(frozen=True)
class Filled:
    """``value`` everywhere: an array [shape]."""

    shape: tuple[int, ...]
    value: Any
    dtype: str

    def __call__(self) -> Array:
        """The array, in the container type of its format."""
        return np.full(self.shape, self.value, CONTAINERS[self.dtype])


@dataclass(frozen=True, eq=False)
class Computed:
    """Output ``index`` of an op of the registry on constants."""

    node: Node
    inputs: tuple[Tensor | None, ...]
    index: int

    def __call__(self) -> Array:
        """The values by the op's own kernel."""
        values = [None if tensor is None else _once(tensor) for tensor in self.inputs]
        return base.get(self.node.op).kernel(self.node, values)[self.index]


def _once(tensor: Tensor) -> Array:
    """The values of a constant, not kept: a constant behind another one would be in memory twice."""
    return tensor.value() if tensor.data is not None or tensor.source is None else tensor.source()


def folded(node: Node, ins: list[Tensor | None], shapes: list[tuple[tuple[int, ...], str]]) -> list[Tensor]:
    """The outputs of ``node`` as constant tensors, values not yet computed."""
    outputs = zip(node.outputs, shapes, strict=False)
    return [
        Tensor(name, shape, dtype, source=Computed(node, tuple(ins), index))
        for index, (name, (shape, dtype)) in enumerate(outputs)
    ]


def constant_tensor(name: str, values: Array) -> Tensor:
    """A constant from an array of any ONNX type; bfloat16 and float16 in a float32 container."""
    dtype = format_of(values.dtype)
    return Tensor(name, values.shape, dtype, data=values.astype(CONTAINERS[dtype], copy=False))


_KINDS = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "object": "string",
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)},
    **{f"float8_{kind}": f"fp8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
    "float4_e2m1fn": "fp4_e2m1fn", "float8_e8m0fnu": "e8m0",
}  # fmt: skip


def format_of(dtype: Any) -> str:
    """Format of a NumPy type; ModelError for one that no format stands for."""
    name = "object" if dtype.kind in "US" else dtype.name
    if name not in _KINDS:
        raise ModelError(Problem(f"NumPy type {name!r} has no format", expected=", ".join(_KINDS)))
    return _KINDS[name]


def _constant(raw: RawNode, scope: Scope) -> Tensor | None:
    kinds: dict[str, Any] = {
        "value": None, "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64,
        "value_ints": np.int64, "value_string": np.object_, "value_strings": np.object_,
    }  # fmt: skip
    for attr, kind in kinds.items():
        if attr in raw.attrs:
            return constant_tensor(raw.outputs[0], np.asarray(raw.attrs[attr], kind))
    raise ModelError(Problem("Constant without a dense value", raw.name, ", ".join(kinds)))


def _constant_of_shape(raw: RawNode, scope: Scope) -> Tensor | None:
    shape = scope.constant(raw.inputs[0])
    if shape is None:
        return None
    value = np.asarray(raw.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)
    source = Filled(tuple(int(size) for size in shape), value[0].item(), format_of(value.dtype))
    return _lazy(Tensor(raw.outputs[0], source.shape, source.dtype, source=source))


def _lazy(tensor: Tensor) -> Tensor:
    if tensor.elements <= LAZY_ELEMENTS:
        tensor.value()
    return tensor


def _shape(raw: RawNode, scope: Scope) -> Tensor | None:
    shape = scope.shape(raw.inputs[0])
    part = shape[slice(raw.attrs.get("start", 0), raw.attrs.get("end"))]
    return constant_tensor(raw.outputs[0], np.array(part, np.int64))


def _size(raw: RawNode, scope: Scope) -> Tensor | None:
    return constant_tensor(raw.outputs[0], np.array(prod(scope.shape(raw.inputs[0])), np.int64))


def _range(raw: RawNode, scope: Scope) -> Tensor | None:
    start, limit, step = (scope.constant(name) for name in raw.inputs)
    if start is None or limit is None or step is None:
        return None
    dtype = scope.tensors[raw.inputs[0]].dtype
    values = np.arange(start.item(), limit.item(), step.item())
    return Tensor(raw.outputs[0], values.shape, dtype, data=contain(values, dtype))


def _eye_like(raw: RawNode, scope: Scope) -> Tensor | None:
    like = scope.tensors[raw.inputs[0]]
    dtype = FORMATS.get(raw.attrs.get("dtype", 0), like.dtype)
    rows, columns = like.shape
    values = np.eye(rows, columns, k=raw.attrs.get("k", 0))
    return Tensor(raw.outputs[0], like.shape, dtype, data=contain(values, dtype))


CONSTANT_OPS: dict[str, Callable[[RawNode, Scope], Tensor | None]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Size": _size,
    "Range": _range,
    "EyeLike": _eye_like,
}
"""ONNX ops whose result is known from shapes and constants alone; None where this node's is not."""
