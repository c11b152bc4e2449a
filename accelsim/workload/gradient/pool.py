"""Gradients of pools."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from accelsim.types import Array
from accelsim.workload.gradient.context import Context, Value
from accelsim.workload.gradient.matrix import spread_over
from accelsim.workload.gradient.rules import Gradients, only, rule
from accelsim.workload.graph import Node
from accelsim.workload.ops.window import Window, padded, view, window_of


@rule("MaxPool")
def max_pool(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """MaxPoolGrad: dY to the first maximum of each window."""
    x, y = ctx.value(node.inputs[0]), ctx.value(node.outputs[0])
    return [ctx.op("MaxPoolGrad", [x, y, only(grads)], **node.attrs)]


@rule("GlobalMaxPool")
def global_max_pool(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """MaxPoolGrad with one window over everything."""
    x, y = ctx.value(node.inputs[0]), ctx.value(node.outputs[0])
    rank = x.rank - 2
    window = {
        "kernel_shape": list(x.shape[2:]),
        "strides": [1] * rank,
        "pads": [0] * 2 * rank,
        "dilations": [1] * rank,
        "ceil_mode": 0,
    }
    return [ctx.op("MaxPoolGrad", [x, y, only(grads)], **window)]


@rule("AveragePool")
def average_pool(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """The mean, back to the elements; dY is scaled where a window averages fewer elements than the kernel has."""
    x, g, a = ctx.value(node.inputs[0]), only(grads), node.attrs
    size = prod(a["kernel_shape"])
    seen = _averaged(window_of(node, x.shape[2:]), bool(a["count_include_pad"]))
    if np.any(seen != size):
        g = g * ctx.constant(size / seen, g.dtype)
    return [_mean_back(node, x, g)]


def _mean_back(node: Node, x: Value, g: Value) -> Value:
    """``g`` / kernel size, summed over the windows that see each element of ``x``: an average of stride 1 over ``g``
    with zeros between its elements.
    """
    spread, pads = spread_over(node, x.shape, g)
    a, ones = node.attrs, [1] * (x.rank - 2)
    return spread.op("AveragePool", kernel_shape=list(a["kernel_shape"]), strides=ones, pads=pads,
                     dilations=list(a["dilations"]), ceil_mode=0, count_include_pad=1)  # fmt: skip


@rule("LpPool")
def norm_pool(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """y = (sum of abs(x)^p)^(1/p): sign(x) abs(x)^(p-1) times the sum of dY y^(1-p); 0 where y is 0."""
    x, y, g, p = ctx.value(node.inputs[0]), ctx.value(node.outputs[0]), only(grads), node.attrs["p"]
    if p == 1:
        slope = x.op("Sign")
    else:
        g = g * (y + y.is_zero()).op("Pow", ctx.scalar(1 - p, x.dtype))
        slope = x.op("Sign") * x.op("Abs").op("Pow", ctx.scalar(p - 1, x.dtype))
    return [_mean_back(node, x, g) * slope * float(prod(node.attrs["kernel_shape"]))]


def _averaged(window: Window, include_pad: bool) -> Array:
    """Elements that each window averages, at least 1: [*out]."""
    if include_pad:
        around = zip(window.before, window.size, window.after, strict=True)
        none = (0,) * len(window.size)
        window = replace(window, size=tuple(map(sum, around)), before=none, after=none)
    frame = padded(np.ones(window.size), window)
    total = sum((view(frame, window, offset) for offset in window.offsets()), np.zeros(window.out))
    return np.maximum(total, 1)


@rule("GlobalAveragePool")
def global_average_pool(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY / n to every element."""
    x = ctx.value(node.inputs[0])
    return [(only(grads) * (1 / prod(x.shape[2:]))).expand(x.shape)]
