"""Values of ring attention: blocks of keys on their way, results merged by sums of exponentials."""

from __future__ import annotations

import numpy as np

from accelsim.types import Array
from accelsim.workload.graph import Node
from accelsim.workload.masks import CausalMask
from accelsim.workload.ops.product import product

Attended = tuple[Array, Array]
"""Results of attention to some keys, and the logarithms of sums of exponentials."""


def ringed(node: Node, given: list[list[Array]]) -> list[Array]:
    """Return attention by rank. Keys and values go from rank to rank; each attends to those that it has, first to its
    own. ``given``: queries [batch, heads of keys, queries that share one x tokens, depth], keys, values."""
    ranks, seq, half = len(given), node.attrs["seq"], node.attrs["seq"] // 2
    asked = [q.reshape(*q.shape[:2], -1, seq, q.shape[-1]) for q, _, _ in given]
    held, found = [(k, v) for _, k, v in given], list[Attended]()
    mask = CausalMask(seq)()
    for turn in range(ranks):
        for rank, (q, (k, v)) in enumerate(zip(asked, held, strict=True)):
            if not turn:
                found.append(_attended(node, q, k, v, mask))
            elif rank >= turn:  # these tokens come before: the sender's second chunk is after all of its own
                found[rank] = _joined(found[rank], _attended(node, q, k[:, :, :half], v[:, :, :half]))
            else:
                late = _joined(_later(found[rank], half), _attended(node, q[..., half:, :], k, v))
                found[rank] = _with_later(found[rank], late, half)
        held = held[-1:] + held[:-1]
    return [y.reshape(*q.shape[:-1], y.shape[-1]) for (y, _), (q, _, _) in zip(found, given, strict=True)]


def _attended(node: Node, q: Array, k: Array, v: Array, mask: Array | float = 0.0) -> Attended:
    """Attention of q [batch, heads of keys, queries that share one, tokens, depth] to a block of keys, and the
    logarithms of its sums of exponentials [..., tokens, 1]."""
    scale, cap = (q.dtype.type(np.float32(node.attrs[name])) for name in ("scale", "cap"))  # constants of a graph
    scores = product(q, np.swapaxes(k, -1, -2)[:, :, np.newaxis]) * scale
    scores = (np.tanh(scores) * cap if cap else scores) + np.asarray(mask, q.dtype)
    most = scores.max(axis=-1, keepdims=True)
    grown = np.exp(scores - most)
    total = grown.sum(axis=-1, keepdims=True)
    return product(grown / total, v[:, :, np.newaxis]), most + np.log(total)


def _joined(one: Attended, other: Attended) -> Attended:
    """Results of both blocks of keys together (online softmax)."""
    share = 1 / (1 + np.exp(other[1] - one[1]))
    return other[0] + share * (one[0] - other[0]), one[1] - np.log(share)


def _later(found: Attended, half: int) -> Attended:
    return found[0][..., half:, :], found[1][..., half:, :]


def _with_later(found: Attended, late: Attended, half: int) -> Attended:
    y, log = (np.concatenate([old[..., :half, :], new], axis=-2) for old, new in zip(found, late, strict=True))
    return y, log
