"""Gradients of pools."""

from __future__ import annotations

from math import prod

import numpy as np

from accelsim.workload.gradient.context import Value
from accelsim.workload.gradient.matrix import spread_over
from accelsim.workload.gradient.rules import Gradients, formula, formulas
from accelsim.workload.graph import Node
from accelsim.workload.ops.pool import window_counts
from accelsim.workload.ops.window import window_of


def _whole_window(x: Value) -> dict[str, object]:
    """Attributes of a pool with one window over everything."""
    rank = x.rank - 2
    return {
        "kernel_shape": list(x.shape[2:]),
        "strides": [1] * rank,
        "pads": [0] * 2 * rank,
        "dilations": [1] * rank,
        "ceil_mode": 0,
    }


formulas({
    # dY to the first maximum of each window
    "MaxPool": lambda node, g, y, x: [x.op("MaxPoolGrad", y, g, **node.attrs)],
    "GlobalMaxPool": lambda node, g, y, x: [x.op("MaxPoolGrad", y, g, **_whole_window(x))],
    "GlobalAveragePool": lambda node, g, y, x: [(g * (1 / prod(x.shape[2:]))).expand(x.shape)],
})  # fmt: skip


@formula("AveragePool")
def average_pool(node: Node, g: Value, y: Value, x: Value) -> Gradients:
    """Spread means over their elements; dY is scaled where a window averages fewer elements than the kernel has."""
    a = node.attrs
    size = prod(a["kernel_shape"])
    seen = window_counts(window_of(node, x.shape[2:]), bool(a["count_include_pad"]))
    if np.any(seen != size):
        g = g * g.ctx.constant(size / seen, g.dtype)
    return [_mean_back(node, x, g)]


def _mean_back(node: Node, x: Value, g: Value) -> Value:
    """``g`` / kernel size, summed over the windows that see each element of ``x``: an average of stride 1 over ``g``
    with zeros between its elements.
    """
    spread, pads = spread_over(node, x.shape, g)
    a, ones = node.attrs, [1] * (x.rank - 2)
    return spread.op("AveragePool", kernel_shape=list(a["kernel_shape"]), strides=ones, pads=pads,
                     dilations=list(a["dilations"]), ceil_mode=0, count_include_pad=1)  # fmt: skip


@formula("LpPool")
def norm_pool(node: Node, g: Value, y: Value, x: Value) -> Gradients:
    """Differentiate y = (sum of abs(x)^p)^(1/p): sign(x) abs(x)^(p-1) times the sum of dY y^(1-p); 0 where y is 0."""
    p = node.attrs["p"]
    if p == 1:
        slope = x.op("Sign")
    else:
        g = g * (y + y.is_zero()).op("Pow", g.ctx.scalar(1 - p, x.dtype))
        slope = x.op("Sign") * x.op("Abs").op("Pow", g.ctx.scalar(p - 1, x.dtype))
    return [_mean_back(node, x, g) * slope * float(prod(node.attrs["kernel_shape"]))]
