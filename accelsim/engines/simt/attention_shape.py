"""The sizes of attention in one kernel, as its nodes have them."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from accelsim.workload.graph import Graph, Node, Tensor
from accelsim.workload.masks import CausalMask
from accelsim.workload.nodes import multiplies

MOST_LOOKED_AT = 1 << 26
"""Elements of a constant up to which its values are looked at."""
HIDDEN = -1e4
"""A mask hides what it adds this much to, or less: its exponential is 0."""


class Shape(NamedTuple):
    """Attention: sequences, rows of queries of a head, keys, heads of queries and of keys of all sequences, elements of
    a head, whether a mask hides later keys."""

    batch: int
    rows: int
    keys: int
    heads: int
    kv_heads: int
    depth: float
    causal: bool


def attention_shape(graph: Graph, node: Node) -> Shape:
    """Return the sizes of attention in one kernel."""
    first, last, scores = (
        node,
        [part for part in node.epilogue if multiplies(part)][-1],
        _scores(graph, node).shape,
    )
    keys, values = graph.tensors[first.inputs[1]], graph.tensors[last.inputs[1]]
    queries, kv = scores[-2], scores[-1]
    heads, dims = prod(scores[:-2]), (_depth(first, keys.shape), _width(last, values.shape))
    kv_heads = max(1, keys.elements // (kv * dims[0]))
    batch = keys.shape[0] if len(keys.shape) > 3 else 1
    return Shape(batch, queries, kv, heads, kv_heads, sum(dims) / 2, bool(causal_mask(graph, node)))


def causal_mask(graph: Graph, node: Node) -> str:
    """Return the mask of attention in one kernel that hides later keys, '' for none."""
    names = [name for part in node.epilogue if part.op == "Add" for name in part.inputs]
    shape = _scores(graph, node).shape
    masks = [name for name in names if _is_causal(graph.tensors[name], shape)]
    return masks[0] if masks else ""


def _scores(graph: Graph, node: Node) -> Tensor:
    """Return the operand of the softmax."""
    (soft,) = (part for part in node.epilogue if part.op == "Softmax")
    return graph.tensors[soft.inputs[0]]


def _depth(product: Node, shape: tuple[int, ...]) -> int:
    return shape[-1] if product.attrs.get("transB") else shape[-2]


def _width(product: Node, shape: tuple[int, ...]) -> int:
    return shape[-2] if product.attrs.get("transB") else shape[-1]


def _is_causal(mask: Tensor, scores: tuple[int, ...]) -> bool:
    """Return whether a constant hides from each query the keys behind its own, and nothing else."""
    rows = scores[-2:]
    if not mask.is_constant or len(mask.shape) < 2 or mask.shape[-2:] != rows or mask.elements != prod(rows):
        return False
    if isinstance(mask.source, CausalMask):
        return mask.source.past == rows[1] - rows[0]
    if mask.elements > MOST_LOOKED_AT:
        return False
    values = mask.value().reshape(rows)
    later = np.triu(np.ones(rows, bool), rows[1] - rows[0] + 1)
    return bool((values[later] <= HIDDEN).all() and not values[~later].any())
