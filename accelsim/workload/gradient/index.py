"""Gradients of ops that take or put elements where an index says, and of running sums and products."""

from __future__ import annotations

import numpy as np

from accelsim.errors import ModelError
from accelsim.workload.gradient.context import Value
from accelsim.workload.gradient.rules import Gradients, formula, formulas
from accelsim.workload.graph import Node


def _zeros(x: Value) -> Value:
    return x.ctx.filled(x.shape, 0.0, x.dtype)


def _put_back(x: Value, indices: Value, g: Value, node: Node) -> Value:
    """Every element of ``g`` added where it came from along an axis of ``x``."""
    return _zeros(x).op("ScatterElements", indices, g, axis=node.attrs["axis"], reduction="add")


def _backwards(value: Value, node: Node) -> Value:
    """The running sum from the other end."""
    return value.op("CumSum", **{**node.attrs, "reverse": int(not node.attrs["reverse"])})


formulas({
    "GatherElements": lambda node, g, y, x, indices: [_put_back(x, indices, g, node), None],
    "Trilu": lambda node, g, y, x: [g.op("Trilu", **node.attrs)],
    "CumSum": lambda node, g, y, x: [_backwards(g, node)],
    "CumProd": lambda node, g, y, x: [_backwards(g * y, node) / x],  # not a number where X is zero
})  # fmt: skip


@formula("GatherND")
def gather_nd(node: Node, g: Value, y: Value, x: Value, indices: Value) -> Gradients:
    """Add every slice of dY where it came from; the axes of the batch become part of the index."""
    batch = node.attrs["batch_dims"]
    if batch:
        own = np.moveaxis(np.indices(indices.shape[:-1])[:batch], 0, -1)
        indices = g.ctx.constant(own, indices.dtype).op("Concat", indices, axis=indices.rank - 1)
    return [_zeros(x).op("ScatterND", indices, g, reduction="add"), None]


@formula("ScatterElements", "ScatterND")
def scatter(node: Node, g: Value, y: Value, x: Value, indices: Value, updates: Value) -> Gradients:
    """Return dY where nothing was put (reduction 'add': everywhere), and what dY has at the indices.

    With reduction 'none' no place may be named twice. ModelError for all other reductions.
    """
    reduction = node.attrs["reduction"]
    if reduction not in ("none", "add"):
        raise ModelError(f"{node.op} with reduction {reduction!r} has no gradient", node.name, "'none' or 'add'")
    kept = g if reduction == "add" else g.op(node.op, indices, _zeros(updates), **node.attrs)
    if node.op == "ScatterND":
        return [kept, None, g.op("GatherND", indices, batch_dims=0)]
    return [kept, None, g.op("GatherElements", indices, axis=node.attrs["axis"])]


@formula("OneHot")
def one_hot(node: Node, g: Value, y: Value, indices: Value, values: Value) -> Gradients:
    """Return the sums of dY off and on the indices, for the two values."""
    chosen = indices.op("OneHot", g.ctx.constant(np.array([0.0, 1.0]), g.dtype), **node.attrs)
    axes = range(g.rank)
    on, every = ((part.sum(axes, keepdims=False)).reshape((1,)) for part in (g * chosen, g))
    return [None, (every - on).op("Concat", on, axis=0)]


@formula("TopK")
def top(node: Node, g: Value, y: Value, x: Value) -> Gradients:
    """Return dY for the elements that were chosen."""
    known = node.outputs[1] if len(node.outputs) > 1 else ""
    indices = g.ctx.value(known) if known else g.ctx.ops("TopK", [x], 2, **node.attrs)[1]
    return [_put_back(x, indices, g, node)]
