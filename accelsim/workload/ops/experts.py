"""Mixtures of experts: which experts take a token, and the products of tokens with the weights of theirs.

Which expert takes which token follows from values; how many tokens each takes must not, for time does not depend on
values. So a product of experts looks to a machine as if uniform routing had reached as many experts as expected, each
with equally many tokens, see ``spread``; its result is that of the experts that were chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node, Tensor
from accelsim.workload.ops.base import Gemm, Op, Shape, Work, register
from accelsim.workload.ops.conv import accumulator
from accelsim.workload.ops.product import product, shifted
from accelsim.workload.ops.unary import sigmoid
from accelsim.workload.ops.values import Infers, Ins, Values, array, optional, require, tensor


class Spread(NamedTuple):
    """``groups`` experts that take ``rows`` rows each; rows beyond those of the tokens are padding."""

    groups: int
    rows: int


def spread(tokens: int, k: int, experts: int, reached: int = 0, full: bool = False) -> Spread:
    """Return the routing that stands for all: ``k`` experts of each token, drawn uniformly and independently.

    So many different ones are expected, E (1 - (1 - k / E)^tokens), rounded, unless ``reached`` says how many; they
    take equally many rows. ``full``: no row is padding, so at most so many experts as divide the choices.
    """
    groups = reached or max(k, round(experts * (1 - (1 - k / experts) ** tokens)))
    if full:
        groups = next(each for each in range(groups, 0, -1) if tokens * k % each == 0)
    return Spread(groups, -(-tokens * k // groups))


def _gate_infer(node: Node, ins: Ins) -> Infers:
    x, k, groups = tensor(node, ins, 0), node.attrs["k"], node.attrs.get("groups", 1)
    require(1 <= k <= x.shape[-1], node, f"{k} of {x.shape[-1]} experts")
    require(x.shape[-1] % groups == 0, node, f"{x.shape[-1]} experts in {groups} groups")
    shape = (*x.shape[:-1], k)
    return [(shape, x.dtype), (shape, "int32")]


def _gate(node: Node, values: Values) -> list[Array]:
    """The k largest in order, equal ones by their index, and their shares."""
    x, correction, attrs = array(values, 0), optional(values, 1), node.attrs
    scores = SCORES[attrs.get("score", "chosen")](x)
    choice = _in_groups(scores if correction is None else scores + correction, attrs)
    chosen = np.argsort(-choice, axis=-1, kind="stable")[..., : attrs["k"]]
    best = np.take_along_axis(scores, chosen, axis=-1)
    if attrs.get("score", "chosen") == "chosen":
        best = _softmax(best)
    if attrs.get("normalise", False):
        best = best / best.sum(axis=-1, keepdims=True)
    return [np.asarray(best * attrs.get("scale", 1.0), x.dtype), chosen.astype(np.int32)]


def _softmax(x: Array) -> Array:
    grown = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(grown / grown.sum(axis=-1, keepdims=True))


SCORES: dict[str, Callable[[Array], Array]] = {"chosen": np.asarray, "softmax": _softmax, "sigmoid": sigmoid}
"""``score`` of TopKGating -> scores of all experts, of which the largest are chosen."""


def _in_groups(choice: Array, attrs: Mapping[str, Any]) -> Array:
    """Hide the experts of all groups but the best."""
    groups, kept = attrs.get("groups", 1), attrs.get("top_groups", 1)
    if groups == 1:
        return choice
    grouped = choice.reshape(*choice.shape[:-1], groups, -1)
    best = np.sort(grouped, axis=-1)[..., -(2 if attrs.get("pair", False) else 1) :].sum(axis=-1)
    order = np.argsort(-best, axis=-1, kind="stable")[..., kept:]
    hidden = np.zeros(best.shape, bool)
    np.put_along_axis(hidden, order, True, axis=-1)
    return np.where(hidden[..., np.newaxis], -np.inf, grouped).reshape(choice.shape)


def _gate_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    # a heap of the k best, as TopK; subtract, exponential, add and divide for each of them
    comparisons = tensor(node, ins, 0).elements * node.attrs["k"].bit_length()
    return Work(ops=comparisons + 4 * outs[0].elements)


register(Op("TopKGating", "reduce", _gate_infer, _gate, _gate_work))


def spread_of(node: Node, chosen: Shape, experts: int) -> Spread:
    """Return the routing of a product of experts; its attributes ``reached`` and ``full`` are those of ``spread``."""
    tokens, k = chosen
    return spread(tokens, k, experts, node.attrs.get("reached", 0), bool(node.attrs.get("full", 0)))


def _shared_infer(node: Node, ins: Ins) -> Infers:
    x, w, chosen = (tensor(node, ins, index) for index in range(3))
    require(
        len(x.shape) == 2 and len(w.shape) == 3,
        node,
        f"operands {list(x.shape)} and {list(w.shape)}",
        "rows [n, k] and experts [e, k, m]",
    )
    require(x.shape[1] == w.shape[1], node, f"inner sizes {x.shape[1]} and {w.shape[1]} differ")
    even = spread_of(node, chosen.shape, w.shape[0])
    rows = {chosen.shape[0], chosen.elements, even.groups * even.rows}
    require(x.shape[0] in rows, node, f"{x.shape[0]} rows", " or ".join(map(str, sorted(rows))))
    return [((even.groups * even.rows, w.shape[2]), accumulator(x.dtype))]


Multiply = Callable[[Array, Array], Array]


def rows_of(x: Array, chosen: Array) -> tuple[Array, Array]:
    """Return a row for each choice, without padding, and its expert; ``x``: see ``by_expert``."""
    rows = np.repeat(x, chosen.shape[1], axis=0) if len(x) == len(chosen) else x[: chosen.size]
    return rows, chosen.reshape(-1)


def by_expert(node: Node, x: Array, w: Array, chosen: Array, multiply: Multiply) -> Array:
    """Rows times the weights of their expert: [groups * rows of the even spread, m]; padding is zero.

    ``x``: a row for each token, or one for each choice; ``multiply``: [rows, k] x [k, m].
    """
    even, (x, experts) = spread_of(node, chosen.shape, len(w)), rows_of(x, chosen)
    found = {int(expert): multiply(x[experts == expert], w[expert]) for expert in np.unique(experts)}
    kind = next(iter(found.values())).dtype
    y = np.zeros((even.groups * even.rows, w.shape[2]), kind)
    for expert, rows in found.items():
        y[: chosen.size][experts == expert] = rows
    return y


def _experts(node: Node, values: Values) -> list[Array]:
    x = shifted(array(values, 0), node.attrs.get("a_zero_point", 0))
    w = shifted(array(values, 1), node.attrs.get("b_zero_point", 0))
    return [by_expert(node, x, w, array(values, 2), product)]


def _experts_gemm(node: Node, ins: Ins, outs: list[Tensor]) -> Gemm:
    x, w, chosen = (tensor(node, ins, index) for index in range(3))
    even = spread_of(node, chosen.shape, w.shape[0])
    return Gemm(even.groups, even.rows, w.shape[2], w.shape[1], x.name, w.name)


def _experts_work(node: Node, ins: Ins, outs: list[Tensor]) -> Work:
    return Work(macs=_experts_gemm(node, ins, outs).macs)


register(Op("ExpertMatMul", "matrix", _shared_infer, _experts, _experts_work, _experts_gemm))
