"""Gradients of normalisations. Their statistics are computed again rather than kept from the forward pass."""

from __future__ import annotations

from accelsim.workload.gradient.context import Value
from accelsim.workload.gradient.rules import Gradients, formula, formulas
from accelsim.workload.graph import Node


def _soft_axes(node: Node, rank: int) -> list[int]:
    first = node.attrs.get("flatten_from")
    return [node.attrs["axis"]] if first is None else list(range(first, rank))


def per_channel(parameter: Value, like: Value) -> Value:
    """A vector over axis 1 of ``like``, in its format, so that it broadcasts."""
    return parameter.cast(like.dtype).reshape((parameter.shape[0], *[1] * (like.rank - 2)))


def but_channel(x: Value) -> list[int]:
    """Return all axes but axis 1, that of the channels."""
    return [0, *range(2, x.rank)]


@formula("BatchNormalization")
def batch(node: Node, g: Value, y: Value, x: Value, scale: Value, bias: Value, mean: Value, var: Value) -> Gradients:
    """Differentiate y = (x - mean) f + b with f = scale / sqrt(var + epsilon): statistics are inputs of the op."""
    axes = but_channel(x)
    ratio = (var + node.attrs["epsilon"]).op("Sqrt").op("Reciprocal")
    factor = scale * ratio
    total = g.sum(axes, keepdims=False)
    moment = (g * (x - per_channel(mean, x))).sum(axes, keepdims=False)
    d_var = moment.cast(var.dtype) * factor * ratio * ratio * -0.5
    return [
        g * per_channel(factor, x),
        moment.cast(scale.dtype) * ratio,
        total,
        -(total.cast(scale.dtype) * factor),
        d_var,
    ]


def _standard(x: Value, axes: list[int], epsilon: float, centre: bool = True) -> tuple[Value, Value]:
    """(x - mean) / deviation over ``axes``, and 1 / deviation; without ``centre`` the mean counts as 0."""
    centred = x - x.mean(axes) if centre else x
    ratio = ((centred * centred).mean(axes) + epsilon).op("Sqrt").op("Reciprocal")
    return centred * ratio, ratio


def _standard_grad(normal: Value, ratio: Value, g: Value, axes: list[int], centre: bool = True) -> Value:
    """Gradient of x from ``g``, that of its standardised form ``normal`` (Ioffe and Szegedy 2015, section 3)."""
    rest = g - normal * (g * normal).mean(axes)
    return (rest - g.mean(axes) if centre else rest) * ratio


def _rows(node: Node, g: Value, centre: bool, x: Value, scale: Value, *bias: Value) -> Gradients:
    """Over all axes from ``axis`` on."""
    axes = list(range(node.attrs["axis"], x.rank))
    normal, ratio = _standard(x, axes, node.attrs["epsilon"], centre)
    dx = _standard_grad(normal, ratio, g * scale, axes, centre)
    found: Gradients = [dx, (g * normal).unbroadcast(scale.shape)]
    return [*found, *(g.unbroadcast(item.shape) for item in bias if item)]


formulas({
    "LogSoftmax": lambda node, g, y, x: [g - y.op("Exp") * g.sum(_soft_axes(node, y.rank))],
    "LayerNormalization": lambda node, g, y, *inputs: _rows(node, g, True, *inputs),
    "RMSNormalization": lambda node, g, y, *inputs: _rows(node, g, False, *inputs),
})  # fmt: skip


@formula("Softmax")
def softmax(node: Node, g: Value, y: Value, x: Value, *sinks: Value) -> Gradients:
    """Return (dY - sum of dY Y) Y; a sink takes what is left of the shares, whose result nothing reads."""
    axes = _soft_axes(node, y.rank)
    total = (g * y).sum(axes)
    return [(g - total) * y, *[(-total * (1 - y.sum(axes))).unbroadcast(each.shape) for each in sinks if each]]


@formula("InstanceNormalization")
def instance(node: Node, g: Value, y: Value, x: Value, scale: Value, bias: Value) -> Gradients:
    """Differentiate the normalisation over the spatial axes of each channel."""
    axes = list(range(2, x.rank))
    normal, ratio = _standard(x, axes, node.attrs["epsilon"])
    dx = _standard_grad(normal, ratio, g * per_channel(scale, x), axes)
    others = but_channel(x)
    return [dx, (g * normal).sum(others, keepdims=False), g.sum(others, keepdims=False)]


@formula("GroupNormalization")
def group(node: Node, g: Value, y: Value, x: Value, scale: Value, bias: Value) -> Gradients:
    """Differentiate over the channels of a group and their positions; scale and bias per channel or per group."""
    groups, channels = node.attrs["num_groups"], x.shape[1]
    grouped = (x.shape[0], groups, x.count(range(1, x.rank)) // groups)
    normal, ratio = _standard(x.reshape(grouped), [2], node.attrs["epsilon"])
    times = channels // scale.shape[0]
    wide = scale.reshape((scale.shape[0], 1)).expand((scale.shape[0], times)).reshape((channels,))
    dx = _standard_grad(normal, ratio, (g * per_channel(wide, x)).reshape(grouped), [2]).reshape(x.shape)

    def parameter(grad: Value) -> Value:
        per = grad.sum(but_channel(x), keepdims=False)
        return per.reshape((scale.shape[0], times)).sum([1], keepdims=False)

    return [dx, parameter(g * normal.reshape(x.shape)), parameter(g)]


@formula("LRN")
def local_response(node: Node, g: Value, y: Value, x: Value) -> Gradients:
    """Differentiate y = x D^-beta with D = bias + alpha times the mean of x^2 over the window of channels:
    dX = dY D^-beta - 2 alpha beta x times the mean of dY y / D over the mirrored window.
    """
    a = node.attrs
    before = (a["size"] - 1) // 2
    after = a["size"] - 1 - before
    base = _over_channels(x * x, before, after) * a["alpha"] + a["bias"]
    spread = _over_channels(g * y / base, after, before)
    return [g * base.op("Pow", g.ctx.scalar(-a["beta"], x.dtype)) - x * spread * (2 * a["alpha"] * a["beta"])]


def _over_channels(x: Value, before: int, after: int) -> Value:
    """Mean over so many channels before and after each, absent ones counting as 0: an average pool."""
    n, channels = x.shape[:2]
    flat = x.reshape((n, 1, channels, x.count(range(2, x.rank))))
    pooled = flat.op("AveragePool", kernel_shape=[before + after + 1, 1], strides=[1, 1], dilations=[1, 1],
                     pads=[before, 0, after, 0], ceil_mode=0, count_include_pad=1)  # fmt: skip
    return pooled.reshape(x.shape)
