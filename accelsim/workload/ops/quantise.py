"""Quantise, dequantise, requantise and bias of an accumulator, by the arithmetic of ``formats.integer``."""

from __future__ import annotations

import numpy as np

from accelsim.formats import integer
from accelsim.types import Array
from accelsim.workload.graph import Node
from accelsim.workload.ops.base import Op, register
from accelsim.workload.ops.values import Infers, Ins, Values, array, in_format, per_result, require, same, tensor


def _parameters(node: Node, x: Array) -> tuple[Array, Array, int | None]:
    """scale, zero point and axis; parameters of blocks are repeated to one per element of ``x``."""
    a = node.attrs
    scale, zero, axis = np.asarray(a["scale"]), np.asarray(a["zero_point"]), a["axis"]
    block = a.get("block", 0)
    if not block:
        return scale, zero, axis
    whole = (slice(None),) * axis + (slice(x.shape[axis]),)
    scale, zero = (np.repeat(values, block, axis)[whole] if values.ndim else values for values in (scale, zero))
    return scale, zero, None


def _quantise(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    scale, zero, axis = _parameters(node, x)
    return [integer.quantise(x, scale, node.attrs["dtype"], zero, axis)]


def _dequantise(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    return [integer.dequantise(x, *_parameters(node, x))]


def _dynamic_infer(node: Node, ins: Ins) -> Infers:
    return [(tensor(node, ins, 0).shape, "uint8"), ((), "fp32"), ((), "uint8")]


def _dynamic(node: Node, values: Values) -> list[Array]:
    from accelsim.formats.scale_of_range import dynamic_quantise

    codes, scale, zero = dynamic_quantise(array(values, 0))
    return [codes, np.asarray(scale, np.float32), np.asarray(zero, np.uint8)]


def _requantise(node: Node, values: Values) -> list[Array]:
    a = node.attrs
    if a.get("fixed_point"):
        from accelsim.formats import fixed_point

        mantissa, shift = fixed_point.from_multiplier(a["multiplier"])
        x, zero = array(values, 0), a["zero_point"]
        return [fixed_point.requantise(x, mantissa, shift, a["dtype"], zero, a["axis"])]
    return [integer.requantise(array(values, 0), a["multiplier"], a["dtype"], a["zero_point"], a["axis"])]


def _shift(node: Node, values: Values) -> list[Array]:
    """clip((x + 2^(shift-1)) >> shift, -128, 127): an arithmetic shift, half up; shift 0 only clips."""
    x, shift = array(values, 0).astype(np.int64), int(node.attrs["shift"])
    half = 1 << (shift - 1) if shift else 0
    return [np.clip((x + half) >> shift, -128, 127).astype(np.int8)]


def _bias_infer(node: Node, ins: Ins) -> Infers:
    x, bias = tensor(node, ins, 0), tensor(node, ins, 1)
    want = (x.shape[node.attrs["axis"]],)
    require(bias.shape == want, node, f"bias of shape {list(bias.shape)}", str(list(want)))
    return same(node, ins)


def _bias(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    return [np.asarray(x + integer.along(array(values, 1), x.ndim, node.attrs["axis"]), x.dtype)]


_TO_DTYPE = in_format(attribute="dtype")
# scale, round, add the zero point, clip; the range of a dynamic one: two comparisons; back: subtract, scale
register(Op("Quantize", "quantise", _TO_DTYPE, _quantise, per_result(4), family="quantisation"))
register(Op("DynamicQuantizeLinear", "reduce", _dynamic_infer, _dynamic, per_result(6)))
register(Op("Requantize", "quantise", _TO_DTYPE, _requantise, per_result(4), family="quantisation"))
register(Op("RequantizeShift", "quantise", in_format("int8"), _shift, per_result(4), family="quantisation"))
register(Op("Dequantize", "quantise", in_format("fp32"), _dequantise, per_result(2), family="quantisation"))
register(Op("Bias", "elementwise", _bias_infer, _bias, per_result(), family="arithmetic"))
