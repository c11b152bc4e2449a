"""Canonical forms of QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear."""

from __future__ import annotations

import numpy as np

from accelsim.errors import ModelError
from accelsim.formats import table
from accelsim.types import Array
from accelsim.workload.graph import Attributes, Node
from accelsim.workload.onnx.canonical.rules import RULES, Foreign, Scope, axis_of, make, optional, rule
from accelsim.workload.onnx.importing.read import RawNode
from accelsim.workload.onnx.importing.types import FORMATS

_EXACT_BITS = 8
"""Codes of at most so many bits times a half-precision scale are exact in float32, so one rounding follows."""


@rule("QuantizeLinear", "com.microsoft::QuantizeLinear")
def quantize(raw: RawNode, scope: Scope) -> Node:
    """QuantizeLinear with constant float32 parameters: per tensor, per slice of an axis, or in blocks."""
    point = optional(raw, 2)
    stated = raw.attrs.get("output_dtype", 0)
    dtype = scope.tensors[point].dtype if point else FORMATS.get(stated or 2, "")
    saturates = bool(raw.attrs.get("saturate", 1)) or is_whole(dtype)
    if not saturates or raw.attrs.get("precision", 1) not in (0, 1) or not _is_code(dtype, 16):
        raise Foreign
    if scope.tensors[raw.inputs[1]].dtype != "fp32":
        raise Foreign
    return make(raw, 1, "Quantize", dtype=dtype, **_parameters(raw, scope))


@rule("DequantizeLinear", "com.microsoft::DequantizeLinear")
def dequantize(raw: RawNode, scope: Scope) -> list[Node]:
    """DequantizeLinear with constant parameters; with half-precision scales the result is rounded once more."""
    codes, scale = scope.tensors[raw.inputs[0]].dtype, scope.tensors[raw.inputs[1]].dtype
    given = FORMATS.get(raw.attrs.get("output_dtype", 0) or 0, scale)
    if not _is_code(codes, 32) or given != scale:
        raise Foreign
    node = make(raw, 1, "Dequantize", **_parameters(raw, scope))
    if scale == "fp32":
        return [node]
    if scale not in ("fp16", "bf16") or table.get(codes).bits > _EXACT_BITS:
        raise Foreign
    wide = f"{raw.outputs[0]}.fp32"
    node.outputs = [wide]
    return [node, Node(f"{raw.name}.cast", "Cast", [wide], [raw.outputs[0]], {"to": scale})]


# an op of its own, since its parameters come from the values
RULES["DynamicQuantizeLinear"] = lambda raw, scope: make(raw, outputs=3)


def is_whole(dtype: str) -> bool:
    """Return whether this is an integer format."""
    return dtype in table.FORMATS and table.get(dtype).kind == "int"


def _is_code(dtype: str, bits: int) -> bool:
    """Return whether tensors of this format hold codes of at most ``bits`` bits: integers, or floats of up to 8
    bits."""
    if dtype not in table.FORMATS:
        return False
    row = table.get(dtype)
    return (row.kind == "int" and row.bits <= bits) or (row.kind == "float" and row.bits <= 8)


def _parameters(raw: RawNode, scope: Scope) -> Attributes:
    """scale, zero_point, axis, and block where there are blocks; ModelError where they do not fit the data."""
    scale, zero = scope.constant(raw.inputs[1]), scope.constant(optional(raw, 2))
    if scale is None or (zero is None and optional(raw, 2)):
        raise Foreign
    check_scale(scale, raw, 1)
    if zero is not None and zero.size != scale.size:
        what = f"{raw.op} has {zero.size} zero points and {scale.size} scales"
        raise ModelError(what, raw.name, "as many of both")
    if scale.size == 1 and not raw.attrs.get("block_size", 0):
        point = 0 if zero is None else zero.reshape(-1)[0].item()
        return {"scale": scale.reshape(()).astype(np.float32), "zero_point": int(point), "axis": None}
    axis = axis_of(raw.attrs.get("axis", 1), scope.rank(raw.inputs[0]))
    block = int(raw.attrs.get("block_size", 0))
    _check_slices(raw, scope.shape(raw.inputs[0]), scale.shape, axis, block)
    found = {"scale": scale.astype(np.float32), "zero_point": _one_if_equal(zero), "axis": axis}
    return found | ({"block": block} if block else {})


def check_scale(scale: Array, raw: RawNode, index: int) -> None:
    """Raise ModelError unless every scale is a positive, finite number."""
    wrong = scale[~((scale > 0) & np.isfinite(scale))]
    if wrong.size:
        what = f"{raw.op} has the scale {wrong.reshape(-1)[0].item():g} (tensor {raw.inputs[index]!r})"
        raise ModelError(what, raw.name, "positive, finite scales")


def _check_slices(raw: RawNode, data: tuple[int, ...], scale: tuple[int, ...], axis: int, block: int) -> None:
    """Raise ModelError unless the scales are one per slice of ``axis``, or one per block along it."""
    length = data[axis] if axis < len(data) else 0
    if not block:
        want: tuple[int, ...] = (length,)
    else:
        want = (*data[:axis], -(-length // block), *data[axis + 1 :])
    if scale != want:
        of = f"blocks of {block} along" if block else "slices of"
        what = f"{raw.op} has scales of shape {list(scale)} for {of} axis {axis} of data {list(data)}"
        raise ModelError(what, raw.name, f"shape {list(want)}")


def _one_if_equal(zero: Array | None) -> int | Array:
    """The zero point as one integer where all slices have the same."""
    if zero is None:
        return 0
    first = zero.reshape(-1)[0].item()
    return int(first) if (zero == first).all() else zero
