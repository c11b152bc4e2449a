"""Normalisations: batch (inference), LRN, softmax, layer, RMS, instance and group."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.values import (
    Infer,
    Infers,
    Ins,
    Kernel,
    Values,
    WorkRule,
    array,
    mean,
    optional,
    per_result,
    require,
    same,
    tensor,
)


def _rows(node: Node, ins: Ins) -> Infers:
    """Scale and bias are as large as the axes that are normalised, or broadcast to them."""
    x, axis = tensor(node, ins, 0), node.attrs["axis"]
    tensor(node, ins, 1)
    for parameter in ins[1:]:
        shape = () if parameter is None else parameter.shape
        fits = len(shape) <= len(x.shape) and all(a in (1, b) for a, b in zip(shape[::-1], x.shape[::-1], strict=False))
        require(fits, node, f"a parameter of shape {list(shape)}", f"{list(x.shape[axis:])}")
    return same(node, ins)


def _by_channel(node: Node, ins: Ins) -> Infers:
    """Every parameter has one number for each channel."""
    x = tensor(node, ins, 0)
    require(len(x.shape) >= 2, node, f"input of shape {list(x.shape)}", "[batch, channels, ..]")
    _require_shapes(node, [each for each in ins[1:] if each is not None], (x.shape[1],))
    return same(node, ins)


def _require_shapes(node: Node, parameters: list[Tensor], *shapes: tuple[int, ...]) -> None:
    """Raise ModelError for a parameter of none of these shapes, of which the first one is said."""
    for each in parameters:
        require(each.shape in shapes, node, f"a parameter of shape {list(each.shape)}", f"{list(shapes[0])}")


def _in_groups(node: Node, ins: Ins) -> Infers:
    """Groups divide the channels; a parameter has one number for each group or for each channel."""
    x, groups = tensor(node, ins, 0), node.attrs["num_groups"]
    require(len(x.shape) >= 2, node, f"input of shape {list(x.shape)}", "[batch, channels, ..]")
    require(groups >= 1 and x.shape[1] % groups == 0, node, f"{groups} groups of {x.shape[1]} channels")
    _require_shapes(node, [tensor(node, ins, index) for index in (1, 2)], (x.shape[1],), (groups,))
    return same(node, ins)


def _between_channels(node: Node, ins: Ins) -> Infers:
    x, size = tensor(node, ins, 0), node.attrs["size"]
    require(len(x.shape) >= 2 and size >= 1, node, f"size {size} on shape {list(x.shape)}", "1 or more channels")
    return same(node, ins)


def _channels(parameter: Array, rank: int) -> Array:
    return parameter.reshape(-1, *[1] * (rank - 2))


def _batch(node: Node, values: Values) -> list[Array]:
    x, scale, bias, mean, var = (array(values, index) for index in range(5))
    factor = scale / np.sqrt(var + scale.dtype.type(node.attrs["epsilon"]))
    shift = bias - mean * factor
    y = x * _channels(factor, x.ndim)
    y += _channels(shift, x.ndim)
    return [np.asarray(y, x.dtype)]


def _neighbours(size: int, channels: int) -> tuple[int, int]:
    """Channels of a window before and after its own, of which there are no more than others."""
    before = (size - 1) // 2
    return min(before, max(0, channels - 1)), min(size - 1 - before, max(0, channels - 1))


def _lrn(node: Node, values: Values) -> list[Array]:
    x, size = array(values, 0), node.attrs["size"]
    channels = x.shape[1]
    before, behind = _neighbours(size, channels)
    squares = np.zeros((x.shape[0], before + channels + behind, *x.shape[2:]), x.dtype)
    np.multiply(x, x, out=squares[:, before : before + channels])
    total = squares[:, :channels].copy()
    for shift in range(1, before + behind + 1):
        total += squares[:, shift : shift + channels]
    return [np.asarray(x / (node.attrs["bias"] + node.attrs["alpha"] / size * total) ** node.attrs["beta"], x.dtype)]


def _lrn_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    # square, an addition per neighbour, multiply, add, power, divide
    others = sum(_neighbours(node.attrs["size"], tensor(node, ins, 0).shape[1]))
    return Work(ops=outs[0].elements * (others + 5))


def _soft(x: Array, axis: int, log: bool, sinks: Array | None = None) -> Array:
    largest = x.max(axis=axis, keepdims=True)
    largest = largest if sinks is None else np.maximum(largest, sinks)
    shifted = x - largest
    powers = np.exp(shifted)
    total = powers.sum(axis=axis, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks - largest)
    return np.asarray(shifted - np.log(total) if log else powers / total)


def _softmax(log: bool) -> Kernel:
    def kernel(node: Node, values: Values) -> list[Array]:
        x = array(values, 0)
        first = node.attrs.get("flatten_from")
        with np.errstate(all="ignore"):
            if first is None:
                return [_soft(x, node.attrs["axis"], log, optional(values, 1))]
            rows = int(np.prod(x.shape[:first], dtype=np.int64))
            return [_soft(x.reshape(rows, -1), 1, log).reshape(x.shape)]

    return kernel


def _standard(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """(x - mean) / sqrt(variance + epsilon) over ``axes``; two passes, so that nothing cancels."""
    if not x.size:
        return x
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + x.dtype.type(epsilon)))


def _from_axis(node: Node, x: Array) -> tuple[int, ...]:
    return tuple(range(node.attrs["axis"], x.ndim))


def _affine(y: Array, scale: Array, bias: Array | None) -> list[Array]:
    y *= scale
    if bias is not None:
        y += bias
    return [y]


def _layer(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    y = _standard(x, _from_axis(node, x), node.attrs["epsilon"])
    return _affine(y, array(values, 1), optional(values, 2))


def _rms(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    mean_square = mean(x * x, _from_axis(node, x), keepdims=True)
    return _affine(x / np.sqrt(mean_square + x.dtype.type(node.attrs["epsilon"])), array(values, 1), None)


def _instance(node: Node, values: Values) -> list[Array]:
    x = array(values, 0)
    y = _standard(x, tuple(range(2, x.ndim)), node.attrs["epsilon"])
    return _affine(y, _channels(array(values, 1), x.ndim), _channels(array(values, 2), x.ndim))


def _group(node: Node, values: Values) -> list[Array]:
    x, groups = array(values, 0), node.attrs["num_groups"]
    grouped = x.reshape(x.shape[0], groups, x[:1].size // groups if x.size else 0)
    y = _standard(grouped, (2,), node.attrs["epsilon"]).reshape(x.shape)
    # opset 18 gives one scale per group, opset 21 one per channel
    scale, bias = (np.repeat(p, x.shape[1] // p.size) for p in (array(values, 1), array(values, 2)))
    return _affine(y, _channels(scale, x.ndim), _channels(bias, x.ndim))


_OPS: dict[str, tuple[Infer, Kernel, WorkRule, Mapping[str, float] | None]] = {
    # the four parameters make one factor and one shift: multiply, add
    "BatchNormalization": (_by_channel, _batch, per_result(2), None),
    "LRN": (_between_channels, _lrn, _lrn_work, {"size": 1, "alpha": 0.0001, "beta": 0.75, "bias": 1.0}),
    # maximum, subtract, exp, sum, divide (log: subtract); the one logarithm per row is not counted
    "Softmax": (same, _softmax(False), per_result(5), None),
    "LogSoftmax": (same, _softmax(True), per_result(5), None),
    # sum, subtract, square, sum, divide, scale, add; without a mean: square, sum, divide, scale
    "LayerNormalization": (_rows, _layer, per_result(7), None),
    "InstanceNormalization": (_by_channel, _instance, per_result(7), {"epsilon": 1e-05}),
    "GroupNormalization": (_in_groups, _group, per_result(7), {"num_groups": 1, "epsilon": 1e-05}),
    "RMSNormalization": (_rows, _rms, per_result(4), None),
}
for _name, (_infer, _kernel, _work, _onnx) in _OPS.items():
    _family = "softmaxes" if _name.endswith("Softmax") else "normalisations"
    register(Op(_name, "normalise", _infer, _kernel, _work, family=_family, onnx=_onnx))
