"""Constants that ONNX nodes give without reading an input."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil, isfinite, prod

import numpy as np

from accelsim.errors import ModelError
from accelsim.types import Array
from accelsim.workload.constants import LAZY_ELEMENTS, Made, constant_tensor, format_of
from accelsim.workload.graph import Tensor
from accelsim.workload.onnx.canonical.rules import Scope, ints, scalar
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.onnx.importing.types import FORMATS

UNFOLDED = ("Dequantize",)
"""Ops that stay in the graph even on constants: what they would leave (8-bit weights) is modelled."""


def _constant(raw: RawNode, scope: Scope) -> Tensor | None:
    kinds: dict[str, type[np.generic] | None] = {
        "value": None,
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
        "value_string": np.object_,
        "value_strings": np.object_,
    }
    for attr, kind in kinds.items():
        if attr in raw.attrs:
            return constant_tensor(raw.outputs[0], np.asarray(raw.attrs[attr], kind))
    raise ModelError("Constant without a dense value", raw.name, ", ".join(kinds))


def _made(raw: RawNode, scope: Scope, shape: tuple[int, ...], dtype: str, make: Callable[[], Array]) -> Tensor:
    """A constant that is made on first use: now, if it is small."""
    tensor = Tensor(raw.outputs[0], shape, dtype, source=Made(make, shape, dtype, raw.name))
    if tensor.elements <= LAZY_ELEMENTS and min(shape, default=0) >= 0:
        tensor.value()
    return tensor


def _constant_of_shape(raw: RawNode, scope: Scope) -> Tensor | None:
    shape = ints(raw, scope, 0) if scope.constant(raw.inputs[0]) is not None else None
    if shape is None:
        return None
    value = np.asarray(raw.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)
    if value.size != 1:
        what = f"the value of ConstantOfShape has {value.size} elements"
        raise ModelError(what, raw.name, "one")
    return _made(raw, scope, tuple(shape), format_of(value.dtype), partial(np.full, shape, value[0]))


def _shape(raw: RawNode, scope: Scope) -> Tensor | None:
    shape = scope.shape(raw.inputs[0])
    part = shape[slice(raw.attrs.get("start", 0), raw.attrs.get("end"))]
    return constant_tensor(raw.outputs[0], np.array(part, np.int64))


def _size(raw: RawNode, scope: Scope) -> Tensor | None:
    return constant_tensor(raw.outputs[0], np.array(prod(scope.shape(raw.inputs[0])), np.int64))


def _range(raw: RawNode, scope: Scope) -> Tensor | None:
    ends = [
        scalar(raw, scope, index) if scope.constant(name) is not None else None for index, name in enumerate(raw.inputs)
    ]
    start, limit, step = ends
    if start is None or limit is None or step is None:
        return None
    if not all(isfinite(number) for number in (start, limit, step)) or not step:
        raise ModelError(f"Range from {start} to {limit} by {step}", raw.name, "finite numbers, a step")
    count = max(ceil((limit - start) / step), 0)
    dtype = scope.tensors[raw.inputs[0]].dtype
    return _made(raw, scope, (count,), dtype, partial(_steps, start, step, count))


def _steps(start: float, step: float, count: int) -> Array:
    kind = np.float64 if isinstance(start, float) or isinstance(step, float) else np.int64
    values: Array = np.arange(count, dtype=kind)
    values *= step
    values += start
    return values


def _eye_like(raw: RawNode, scope: Scope) -> Tensor | None:
    like = scope.tensors[raw.inputs[0]]
    dtype = FORMATS.get(raw.attrs.get("dtype", 0), like.dtype)
    rows, columns = like.shape
    diagonal = max(-rows, min(raw.attrs.get("k", 0), columns))
    return _made(raw, scope, like.shape, dtype, partial(np.eye, rows, columns, diagonal))


ConstantOp = Callable[[RawNode, Scope], "Tensor | None"]
CONSTANT_OPS: dict[str, ConstantOp] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Size": _size,
    "Range": _range,
    "EyeLike": _eye_like,
}
"""ONNX ops whose result is known from shapes and constants alone; None where this node's is not."""
