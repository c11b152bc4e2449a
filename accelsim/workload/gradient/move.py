"""Gradients of ops that copy: the copies travel back, and what was copied several times is added up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.types import Array
from accelsim.workload.gradient.context import Context, Value
from accelsim.workload.gradient.rules import Gradients, only, rule
from accelsim.workload.graph import Node
from accelsim.workload.ops import base


@rule("Transpose")
def transpose(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """The inverse permutation."""
    perm = list(node.attrs["perm"])
    return [only(grads).transpose([perm.index(axis) for axis in range(len(perm))])]


@rule("Concat")
def concat(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Split."""
    axis, parts = node.attrs["axis"], ctx.inputs(node)
    if len(parts) == 1:
        return [only(grads)]
    sizes = [part.shape[axis] for part in parts]
    return [*ctx.ops("Split", [only(grads)], outputs=len(parts), axis=axis, split=sizes)]


@rule("Split")
def split(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Concat, with zeros for results that nobody reads."""
    parts = [grad or ctx.filled(out.shape, 0.0, out.dtype) for grad, out in zip(grads, ctx.outputs(node), strict=True)]
    return [parts[0] if len(parts) == 1 else ctx.op("Concat", parts, axis=node.attrs["axis"])]


@rule("Slice")
def cut(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Each element back to its place: turned around for negative steps, zeros between for steps above 1."""
    x, g, a = ctx.value(node.inputs[0]), only(grads), node.attrs
    steps, first = [1] * x.rank, [0] * x.rank
    for axis, start, step in zip(a["axes"], a["starts"], a["steps"], strict=True):
        start = start + x.shape[axis] if start < 0 else start
        start = min(max(start, 0), x.shape[axis] - (step < 0))
        steps[axis] = abs(step)
        first[axis] = start if step > 0 else start + (g.shape[axis] - 1) * step
    turned = g.flip([axis for axis, step in zip(a["axes"], a["steps"], strict=True) if step < 0])
    wide = turned.dilate(steps)
    return [wide.fit(first, [x.shape[i] - wide.shape[i] - first[i] for i in range(x.rank)])]


@rule("Gather")
def gather(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """GatherGrad: every gathered slice is added where it came from."""
    x, indices = ctx.inputs(node)
    return [_scattered(only(grads), indices, node.attrs["axis"], x.shape[node.attrs["axis"]]), None]


def _scattered(g: Value, indices: Value, axis: int, size: int) -> Value:
    return g.op("GatherGrad", indices, axis=axis, size=size)


@rule("GatherGrad")
def scatter(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Gather: scatter-add is linear, and its transpose."""
    return [only(grads).op("Gather", ctx.value(node.inputs[1]), axis=node.attrs["axis"]), None]


@rule("Pad")
def pad(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """The pads cut away; where they repeat elements of X (all modes but 'constant'), added to these."""
    x, g, pads = ctx.value(node.inputs[0]), only(grads), list(node.attrs["pads"])
    before, after = pads[: x.rank], pads[x.rank :]
    if node.attrs["mode"] == "constant":
        return [g.fit([-n for n in before], [-n for n in after])]
    for axis in range(x.rank):
        if before[axis] or after[axis]:
            indices = _line(node, "Pad", x, axis, pads=[before[axis], after[axis]])
            g = _scattered(g, ctx.constant(indices, "int64"), axis, x.shape[axis])
    return [g]


def _line(node: Node, op: str, x: Value, axis: int, **attrs: object) -> Array:
    """Return which element of ``axis`` each element of the result comes from, by the op's own kernel on one axis."""
    one = Node(node.name, op, ["x"], ["y"], {**node.attrs, **attrs})
    return base.get(op).kernel(one, [np.arange(x.shape[axis])])[0]


@rule("Expand")
def expand(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """The sum over the axes that were repeated."""
    return [only(grads).unbroadcast(ctx.value(node.inputs[0]).shape)]


@rule("Tile")
def tile(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """The sum of all tiles."""
    x, repeats = ctx.value(node.inputs[0]), node.attrs["repeats"]
    both = [part for pair in zip(repeats, x.shape, strict=True) for part in pair]
    repeated = [2 * axis for axis, times in enumerate(repeats) if times != 1]
    return [only(grads).reshape(both).sum(repeated, keepdims=False).reshape(x.shape)]


@rule("DepthToSpace")
def to_space(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """SpaceToDepth."""
    return [only(grads).op("SpaceToDepth", blocksize=node.attrs["blocksize"], mode=node.attrs["mode"])]


@rule("SpaceToDepth")
def to_depth(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """DepthToSpace."""
    return [only(grads).op("DepthToSpace", blocksize=node.attrs["blocksize"], mode=node.attrs.get("mode", "DCR"))]


@rule("Resize")
def resize(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Axis by axis: scatter-add for 'nearest', else a product with the weights of the interpolation, transposed."""
    x, g = ctx.value(node.inputs[0]), only(grads)
    for axis, scale in enumerate(node.attrs["scales"]):
        if x.shape[axis] == g.shape[axis] and scale == 1:
            continue
        weights = _interpolation(node, x.shape[axis], g.shape[axis], scale)
        if node.attrs["mode"] == "nearest":
            g = _scattered(g, ctx.constant(weights.argmax(axis=1), "int64"), axis, x.shape[axis])
        else:
            last = _last(axis, x.rank)
            g = g.transpose(last).matmul(ctx.constant(weights, g.dtype)).transpose(np.argsort(last).tolist())
    return [g]


def _last(axis: int, rank: int) -> Sequence[int]:
    """The order of axes that has ``axis`` at the end."""
    return [*(i for i in range(rank) if i != axis), axis]


def _interpolation(node: Node, size: int, out: int, scale: float) -> Array:
    """Weights [out, size] of the resize of one axis: its kernel on the unit vectors."""
    attrs = {**node.attrs, "sizes": [out, size], "scales": [scale, 1.0]}
    return base.get("Resize").kernel(Node(node.name, "Resize", ["x"], ["y"], attrs), [np.eye(size)])[0]


@rule("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout")
def rename(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """dY in the shape of X."""
    return [only(grads).reshape(ctx.value(node.inputs[0]).shape)]
