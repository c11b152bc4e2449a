"""Gradients of ops that copy: the copies travel back, and what was copied several times is added up."""

from __future__ import annotations

import numpy as np

from accelsim.types import Array
from accelsim.workload.gradient.context import Context, Value
from accelsim.workload.gradient.rules import Gradients, formula, formulas, rule
from accelsim.workload.graph import Node
from accelsim.workload.ops import base


def _scattered(g: Value, indices: Value, axis: int, size: int) -> Value:
    """Every slice of ``g`` added where it was gathered from along ``axis``."""
    return g.op("GatherGrad", indices, axis=axis, size=size)


def _same_elements(node: Node, g: Value, y: Value, x: Value, *others: Value) -> Gradients:
    return [g.reshape(x.shape)]


formulas({
    "Transpose": lambda node, g, y, x: [g.transpose(np.argsort(node.attrs["perm"]).tolist())],
    "Gather": lambda node, g, y, x, indices: [
        _scattered(g, indices, node.attrs["axis"], x.shape[node.attrs["axis"]]), None
    ],
    # scatter-add is linear, and this its transpose
    "GatherGrad": lambda node, g, y, x, indices: [g.op("Gather", indices, axis=node.attrs["axis"]), None],
    "Expand": lambda node, g, y, x: [g.unbroadcast(x.shape)],
    "DepthToSpace": lambda node, g, y, x: [
        g.op("SpaceToDepth", blocksize=node.attrs["blocksize"], mode=node.attrs["mode"])
    ],
    "SpaceToDepth": lambda node, g, y, x: [
        g.op("DepthToSpace", blocksize=node.attrs["blocksize"], mode=node.attrs.get("mode", "DCR"))
    ],
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"), _same_elements),
})  # fmt: skip


@formula("Concat")
def concat(node: Node, g: Value, y: Value, *parts: Value) -> Gradients:
    """Split dY."""
    axis = node.attrs["axis"]
    if len(parts) == 1:
        return [g]
    sizes = [part.shape[axis] for part in parts]
    return [*g.ctx.ops("Split", [g], len(parts), axis=axis, split=sizes)]


@rule("Split")
def split(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Join the gradients, with zeros for results that nobody reads."""
    parts = [grad or ctx.filled(out.shape, 0.0, out.dtype) for grad, out in zip(grads, ctx.outputs(node), strict=True)]
    return [parts[0] if len(parts) == 1 else ctx.op("Concat", parts, axis=node.attrs["axis"])]


@formula("Slice")
def cut(node: Node, g: Value, y: Value, x: Value) -> Gradients:
    """Put each element back: reversed for negative steps, with zeros between for steps above 1."""
    a = node.attrs
    steps, first = [1] * x.rank, [0] * x.rank
    for axis, start, step in zip(a["axes"], a["starts"], a["steps"], strict=True):
        start = start + x.shape[axis] if start < 0 else start
        start = min(max(start, 0), x.shape[axis] - (step < 0))
        steps[axis] = abs(step)
        first[axis] = start if step > 0 else start + (g.shape[axis] - 1) * step
    turned = g.flip([axis for axis, step in zip(a["axes"], a["steps"], strict=True) if step < 0])
    wide = turned.dilate(steps)
    return [wide.fit(first, [x.shape[i] - wide.shape[i] - first[i] for i in range(x.rank)])]


@formula("Pad")
def pad(node: Node, g: Value, y: Value, x: Value) -> Gradients:
    """Cut the pads away; where they repeat elements of X (all modes but 'constant'), add them to these."""
    pads = list(node.attrs["pads"])
    before, after = pads[: x.rank], pads[x.rank :]
    if node.attrs["mode"] == "constant":
        return [g.fit([-n for n in before], [-n for n in after])]
    for axis in range(x.rank):
        if before[axis] or after[axis]:
            indices = _line(node, "Pad", x, axis, pads=[before[axis], after[axis]])
            g = _scattered(g, g.ctx.constant(indices, "int64"), axis, x.shape[axis])
    return [g]


def _line(node: Node, op: str, x: Value, axis: int, **attrs: object) -> Array:
    """Return which element of ``axis`` each element of the result comes from, by the op's own kernel on one axis."""
    one = Node(node.name, op, ["x"], ["y"], {**node.attrs, **attrs})
    return base.get(op).kernel(one, [np.arange(x.shape[axis])])[0]


@formula("Tile")
def tile(node: Node, g: Value, y: Value, x: Value) -> Gradients:
    """Add all tiles."""
    repeats = node.attrs["repeats"]
    both = [part for pair in zip(repeats, x.shape, strict=True) for part in pair]
    repeated = [2 * axis for axis, times in enumerate(repeats) if times != 1]
    return [g.reshape(both).sum(repeated, keepdims=False).reshape(x.shape)]


@formula("Resize")
def resize(node: Node, g: Value, y: Value, x: Value) -> Gradients:
    """Go axis by axis: scatter-add for 'nearest', else multiply by the weights of the interpolation, transposed."""
    for axis, scale in enumerate(node.attrs["scales"]):
        if x.shape[axis] == g.shape[axis] and scale == 1:
            continue
        weights = _interpolation(node, x.shape[axis], g.shape[axis], scale)
        if node.attrs["mode"] == "nearest":
            g = _scattered(g, g.ctx.constant(weights.argmax(axis=1), "int64"), axis, x.shape[axis])
        else:
            last = [*(i for i in range(x.rank) if i != axis), axis]
            g = g.transpose(last).matmul(g.ctx.constant(weights, g.dtype)).transpose(np.argsort(last).tolist())
    return [g]


def _interpolation(node: Node, size: int, out: int, scale: float) -> Array:
    """Weights [out, size] of the resize of one axis: its kernel on the unit vectors."""
    attrs = {**node.attrs, "sizes": [out, size], "scales": [scale, 1.0]}
    return base.get("Resize").kernel(Node(node.name, "Resize", ["x"], ["y"], attrs), [np.eye(size)])[0]
