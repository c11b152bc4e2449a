"""Gradients of ops that take or put elements where an index says, and of running sums and products."""

from __future__ import annotations

import numpy as np

from accelsim.errors import ModelError
from accelsim.workload.gradient.context import Context, Value
from accelsim.workload.gradient.rules import Gradients, only, rule
from accelsim.workload.graph import Node


def _zeros(x: Value) -> Value:
    return x.ctx.filled(x.shape, 0.0, x.dtype)


@rule("GatherElements")
def gather_elements(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Every element of dY is added where it came from."""
    x, indices = ctx.inputs(node)
    return [_zeros(x).op("ScatterElements", indices, only(grads), axis=node.attrs["axis"], reduction="add"), None]


@rule("GatherND")
def gather_nd(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Every slice of dY is added where it came from; the axes of the batch become part of the index."""
    x, indices = ctx.inputs(node)
    batch = node.attrs["batch_dims"]
    if batch:
        own = np.moveaxis(np.indices(indices.shape[:-1])[:batch], 0, -1)
        indices = ctx.op("Concat", [ctx.constant(own, indices.dtype), indices], axis=indices.rank - 1)
    return [_zeros(x).op("ScatterND", indices, only(grads), reduction="add"), None]


@rule("ScatterElements", "ScatterND")
def scatter(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY where nothing was put (reduction 'add': everywhere), and what dY has at the indices.

    With reduction 'none' no place may be named twice. ModelError for all other reductions.
    """
    _, indices, updates = ctx.inputs(node)
    g, reduction = only(grads), node.attrs["reduction"]
    if reduction not in ("none", "add"):
        raise ModelError(f"{node.op} with reduction {reduction!r} has no gradient", node.name, "'none' or 'add'")
    kept = g if reduction == "add" else g.op(node.op, indices, _zeros(updates), **node.attrs)
    if node.op == "ScatterND":
        return [kept, None, g.op("GatherND", indices, batch_dims=0)]
    return [kept, None, g.op("GatherElements", indices, axis=node.attrs["axis"])]


@rule("OneHot")
def one_hot(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """The sums of dY off and on the indices, for the two values."""
    indices, g = ctx.value(node.inputs[0]), only(grads)
    chosen = indices.op("OneHot", ctx.constant(np.array([0.0, 1.0]), g.dtype), **node.attrs)
    axes = range(g.rank)
    on, every = ((part.sum(axes, keepdims=False)).reshape((1,)) for part in (g * chosen, g))
    return [None, ctx.op("Concat", [every - on, on], axis=0)]


@rule("Trilu")
def triangle(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Return the same triangle of dY."""
    return [only(grads).op("Trilu", **node.attrs)]


@rule("TopK")
def top(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY to the elements that were chosen."""
    x = ctx.value(node.inputs[0])
    known = node.outputs[1] if len(node.outputs) > 1 else ""
    indices = ctx.value(known) if known else ctx.ops("TopK", [x], outputs=2, **node.attrs)[1]
    return [_zeros(x).op("ScatterElements", indices, only(grads), axis=node.attrs["axis"], reduction="add")]


def _backwards(value: Value, node: Node) -> Value:
    return value.op("CumSum", **{**node.attrs, "reverse": int(not node.attrs["reverse"])})


@rule("CumSum")
def running_sum(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """The running sum of dY from the other end."""
    return [_backwards(only(grads), node)]


@rule("CumProd")
def running_product(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """The running sum of dY Y from the other end, over X. Not a number where X is zero."""
    return [_backwards(only(grads) * ctx.value(node.outputs[0]), node) / ctx.value(node.inputs[0])]
