"""Ops that only training needs: the way back through a maximum, scatter-add, attention, fake quantisation."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from accelsim.formats import table
from accelsim.formats.fake_quant import fake_quantise, fake_quantise_grad
from accelsim.formats.integer import along
from accelsim.types import Array, Index
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Op, Work, register
from accelsim.workload.ops.values import Infers, Ins, Values, array, per_input, per_result, require, same, tensor
from accelsim.workload.ops.window import padded, view, window_of


def _max_pool_infer(node: Node, ins: Ins) -> Infers:
    x, y, g = (tensor(node, ins, index) for index in range(3))
    want = (*x.shape[:2], *window_of(node, x.shape[2:]).out)
    require(y.shape == want and g.shape == want, node, f"Y and dY of {list(y.shape)}, {list(g.shape)}", str(list(want)))
    return same(node, ins)


def _max_pool_grad(node: Node, values: Values) -> list[Array]:
    """Each dY is added to the first element of its window, row-major, that equals Y (as PyTorch does)."""
    x, y, g = (array(values, index) for index in range(3))
    window = window_of(node, x.shape[2:])
    frame = padded(x, window, float(np.finfo(x.dtype).min))
    total, left = np.zeros_like(frame), np.ones(y.shape, np.bool_)
    for offset in window.offsets():
        first = left & (view(frame, window, offset) == y)
        place = view(total, window, offset)
        np.add(place, g, out=place, where=first)
        left &= ~first
    cuts = (slice(before, before + size) for before, size in zip(window.before, window.size, strict=True))
    inside: Index = (..., *cuts)
    return [np.ascontiguousarray(total[inside])]


def _max_pool_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    # per element of the kernel one comparison, per window one addition
    return Work(ops=tensor(node, ins, 1).elements * (prod(node.attrs["kernel_shape"]) + 1))


register(Op("MaxPoolGrad", "reduce", _max_pool_infer, _max_pool_grad, _max_pool_work, family="training"))


def _gather_infer(node: Node, ins: Ins) -> Infers:
    g, indices = tensor(node, ins, 0), tensor(node, ins, 1)
    axis, rank = node.attrs["axis"], len(indices.shape)
    require(g.shape[axis : axis + rank] == indices.shape, node, f"dY {list(g.shape)}, indices {list(indices.shape)}")
    return [((*g.shape[:axis], node.attrs["size"], *g.shape[axis + rank :]), g.dtype)]


def _gather_grad(node: Node, values: Values) -> list[Array]:
    """Slices of dY added up where they were gathered from, in the order of the indices."""
    g, indices, axis = array(values, 0), array(values, 1), node.attrs["axis"]
    parts = g.reshape(*g.shape[:axis], indices.size, *g.shape[axis + indices.ndim :])
    total = np.zeros((*g.shape[:axis], node.attrs["size"], *g.shape[axis + indices.ndim :]), g.dtype)
    where: tuple[Any, ...] = (*[slice(None)] * axis, indices.reshape(-1))
    np.add.at(total, where, parts)
    return [total]


register(Op("GatherGrad", "reduce", _gather_infer, _gather_grad, per_input(), family="training"))


def _attention_infer(node: Node, ins: Ins) -> Infers:
    q, k, v, y, g = (tensor(node, ins, index) for index in range(5))
    ranks = all(len(each.shape) == 4 for each in (q, k, v, y, g))
    require(ranks, node, f"q, k and v of {list(q.shape)}, {list(k.shape)}, {list(v.shape)}", "four axes each")
    batch, heads, rows, depth = q.shape
    groups, keys, width = k.shape[1], k.shape[2], v.shape[3]
    fits = k.shape == (batch, groups, keys, depth) and v.shape[:3] == k.shape[:3] and heads % groups == 0
    require(fits, node, f"q {list(q.shape)}, k {list(k.shape)} and v {list(v.shape)} do not fit")
    want = (batch, heads, rows, width)
    require(y.shape == want and g.shape == want, node, f"Y and dY of {list(y.shape)}, {list(g.shape)}", str(list(want)))
    return [(each.shape, each.dtype) for each in (q, k, v)]


def _attention_grad(node: Node, values: Values) -> list[Array]:
    """Scores and shares are computed again (Dao et al., FlashAttention, NeurIPS 2022, algorithm 4)."""
    q, k, v, y, g = (array(values, index) for index in range(5))
    group, scale = q.shape[1] // k.shape[1], node.attrs["scale"]
    keys, mixed = (np.repeat(each, group, axis=1) for each in (k, v))
    scores = q @ np.swapaxes(keys, 2, 3) * scale
    if node.attrs["causal"]:
        later = np.triu(np.ones(scores.shape[2:], np.bool_), scores.shape[3] - scores.shape[2] + 1)
        scores = np.where(later, -np.inf, scores)
    shares = np.exp(scores - scores.max(axis=3, keepdims=True))
    shares /= shares.sum(axis=3, keepdims=True)
    slope = g @ np.swapaxes(mixed, 2, 3) - (g * y).sum(axis=3, keepdims=True)
    back = shares * slope * scale
    each = (np.swapaxes(back, 2, 3) @ q, np.swapaxes(shares, 2, 3) @ g)
    dk, dv = (x.reshape(*k.shape[:2], group, *x.shape[2:]).sum(axis=2) for x in each)
    return [np.asarray(x, q.dtype) for x in (back @ keys, dk, dv)]


def _attention_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    # scores, their gradient, and one product for each of q, k and v; per score an exponential, three products, two sums
    q, k, v = (tensor(node, ins, index) for index in range(3))
    scores = q.elements // q.shape[3] * k.shape[2]
    return Work(macs=scores * (3 * q.shape[3] + 2 * v.shape[3]), ops=6 * scores)


register(Op("AttentionGrad", "reduce", _attention_infer, _attention_grad, _attention_work, family="training"))


def _fake_infer(node: Node, ins: Ins) -> Infers:
    x, scale, axis = tensor(node, ins, 0), tensor(node, ins, 1), node.attrs["axis"]
    want = () if axis is None else (x.shape[axis],)
    kind = table.get(node.attrs["dtype"]).kind
    require(kind in ("int", "binary"), node, f"codes of format {node.attrs['dtype']}", "an integer format or int1")
    require(scale.shape in (want, (1,)), node, f"scale of shape {list(scale.shape)}", str(list(want)))
    return [(x.shape, x.dtype)]


def _range(node: Node) -> tuple[int, int, int]:
    """qmin, qmax and zero point; the range is by default that of the format."""
    row, a = table.get(node.attrs["dtype"]), node.attrs
    return int(a.get("qmin", row.min)), int(a.get("qmax", row.max)), int(a.get("zero_point", 0))


def _is_binary(node: Node) -> bool:
    return table.get(node.attrs["dtype"]).kind == "binary"


def _fake(node: Node, values: Values) -> list[Array]:
    x, scale, axis = array(values, 0), array(values, 1), node.attrs["axis"]
    if _is_binary(node):
        return [np.where(x >= 0, 1, -1) * _along(scale, x, axis)]
    low, high, zero = _range(node)
    return [fake_quantise(x, scale, zero, low, high, axis)]


def _along(scale: Array, x: Array, axis: int | None) -> Array:
    return scale.reshape(()) if scale.size == 1 else along(scale, x.ndim, axis)


def _fake_grad_infer(node: Node, ins: Ins) -> Infers:
    x, scale, g = (tensor(node, ins, index) for index in range(3))
    require(g.shape == x.shape, node, f"dY of shape {list(g.shape)}", str(list(x.shape)))
    return [*_fake_infer(node, ins), (scale.shape, scale.dtype)]


def _fake_grad(node: Node, values: Values) -> list[Array]:
    x, scale, g = (array(values, index) for index in range(3))
    axis, factor = node.attrs["axis"], node.attrs.get("factor", 1.0)
    if _is_binary(node):
        dx, slope = np.where(np.abs(x) <= _along(scale, x, axis), g, 0), np.where(x >= 0, g, -g)
        others = tuple(i for i in range(x.ndim) if axis is None or i != axis)
        return [dx, np.reshape(slope.sum(axis=others) * factor, scale.shape)]
    low, high, zero = _range(node)
    dx, d_scale = fake_quantise_grad(x, scale, zero, low, high, axis, g, factor)
    return [dx, np.reshape(d_scale, scale.shape)]


# scale, round, add the zero point, clip, subtract it, scale
register(Op("FakeQuantize", "quantise", _fake_infer, _fake, per_result(6), family="training"))
# scale, round, two compares, select; the slope of the scale: subtract, scale, select, multiply, add
register(Op("FakeQuantizeGrad", "reduce", _fake_grad_infer, _fake_grad, per_result(10), family="training"))
