"""Gradients of mixtures of experts: of the shares of the chosen experts, and of their products.

Which experts are chosen is constant between steps: gradients reach scores through the shares alone.
"""

from __future__ import annotations

import numpy as np

from accelsim.workload.gradient.context import Context, Value
from accelsim.workload.gradient.rules import Gradients, formula, rule
from accelsim.workload.graph import Node


@rule("TopKGating")
def gating(ctx: Context, node: Node, grads: Gradients) -> Gradients:
    """Return the gradient of the scores: back through scale, normalisation and scores, 0 for experts that were not
    chosen. A term that is added for the choice alone gets none."""
    x, *others = ctx.inputs(node)
    _, chosen = ctx.outputs(node)
    g, attrs, last = grads[0], node.attrs, [x.rank - 1]
    if g is None:
        return [None, *[None] * len(others)]
    score, g = attrs.get("score", "chosen"), g * attrs.get("scale", 1.0)
    scores = x if score == "chosen" else _softmax(x) if score == "softmax" else x.op("Sigmoid")
    picked = scores.op("GatherElements", chosen, axis=x.rank - 1)
    shares = _softmax(picked) if score == "chosen" else picked
    if attrs.get("normalise", False):
        total = shares.sum(last)
        g = (g - (g * (shares / total)).sum(last)) / total
    if score == "chosen":
        g = _through_softmax(g, shares)
    zeros = ctx.filled(x.shape, 0.0, x.dtype)
    g = zeros.op("ScatterElements", chosen, g, axis=x.rank - 1, reduction="add")
    if score == "softmax":
        g = _through_softmax(g, scores)
    return [g * scores * (1 - scores) if score == "sigmoid" else g, *[None] * len(others)]


def _softmax(x: Value) -> Value:
    return x.op("Softmax", axis=x.rank - 1)


def _through_softmax(g: Value, y: Value) -> Value:
    return (g - (g * y).sum([y.rank - 1])) * y


@formula("ExpertMatMul")
def experts(node: Node, g: Value, y: Value, x: Value, w: Value, chosen: Value) -> Gradients:
    """Return dX, by the same experts' transposed weights, summed over the experts of a token; and dW, for each expert
    its rows of X, transposed, times all of dY."""
    tokens, k = chosen.shape
    choices, inner = tokens * k, x.shape[1]
    dx = g.op("ExpertMatMul", w.swap(), chosen, **node.attrs)
    rows = x
    if x.shape[0] == tokens:
        dx = _first(dx, choices).reshape((tokens, k, inner)).sum([1], keepdims=False)
        rows = x.reshape((tokens, 1, inner)).expand((tokens, k, inner)).reshape((choices, inner))
    ends = g.ctx.constant(np.array([0.0, 1.0]), g.dtype)
    own = chosen.reshape((choices,)).op("OneHot", ends, depth=w.shape[0], axis=1)
    parts = _first(rows, choices).swap().reshape((1, inner, choices)) * own.swap().reshape((w.shape[0], 1, choices))
    return [_first(dx, x.shape[0]), parts.matmul(_first(g, choices)), None]


def _first(x: Value, count: int) -> Value:
    """The first rows."""
    return x.fit([0] * x.rank, [count - x.shape[0], *[0] * (x.rank - 1)])
