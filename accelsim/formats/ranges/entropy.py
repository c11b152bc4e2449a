"""The entropy threshold of TensorRT and pytorch_quantization, in closed form over all candidates at once.

Migacz, "8-bit Inference with TensorRT", GTC 2017, slides 26 to 37; details as in NVIDIA's pytorch_quantization,
whose thresholds it reproduces to the bin.
"""

from __future__ import annotations

import numpy as np

from accelsim.types import Array

START = 128
"""Fewest bins that a candidate keeps."""

_ROWS = 64
"""Candidates handled at once."""

_TIE = 1e-9
"""Candidates whose divergences differ by less are compared again, without cancellation."""


def entropy_bins(counts: Array, levels: int) -> int:
    """Number of bins to keep, at least 128, or all of a shorter histogram.

    ``counts`` [n] are those of |x| over [0, max], ``levels`` = 2^(bits - 1), or 2^bits for unsigned codes.
    Candidate i keeps i bins. Its reference P is those bins, everything beyond added to the last one. Q merges
    the bins into ``levels`` equal stretches and spreads each sum evenly over those bins of the stretch that
    were not empty. The candidate with the smallest divergence KL(P || Q) wins, of equal ones the largest.
    Before all this the first bin, where the zeros of a ReLU pile up, is given the count of the second. With a
    level for every bin nothing is lost by keeping them all, which then is the result.
    """
    if len(counts) <= max(START, levels):
        return len(counts)
    bins = np.asarray(counts, np.float64).copy()
    bins[0] = bins[1]
    kept = np.arange(START, len(bins) + 1)
    fast = np.concatenate(
        [_divergences(bins, part, levels) for part in np.split(kept, np.arange(_ROWS, len(kept), _ROWS))]
    )
    if np.all(np.isinf(fast)):
        return len(counts)
    close = kept[fast <= fast.min() + _TIE]
    exact = [divergence(bins, int(i), levels) for i in close]
    return int(close[len(exact) - 1 - int(np.argmin(exact[::-1]))])


def _divergences(bins: Array, kept: Array, levels: int) -> Array:
    """KL(P || Q) of every candidate in ``kept`` from sums over stretches; infinite where Q misses a part of P.

    With p and q the counts, N all of them and C those kept: KL = sum p ln p / N - ln N - sum p ln q / N + ln C.
    Every bin of a stretch has the same q, so that the last sum needs the sums of the stretches alone.
    """
    below = np.concatenate([[0.0], np.cumsum(bins)])
    filled = np.concatenate([[0], np.cumsum(bins > 0)])
    logs = np.concatenate([[0.0], np.cumsum(_xlogy(bins, bins))])
    total, inside, last = below[-1], below[kept], bins[kept - 1]
    outside = total - inside
    stretch = np.minimum(levels, kept)[:, None]
    ends = np.minimum(-(-np.arange(min(levels, len(bins)) + 1) * kept[:, None] // stretch), kept[:, None])
    sums, sizes = np.diff(below[ends], axis=1), np.diff(filled[ends], axis=1)
    cross = np.sum(_xlogy(sums, sums / np.maximum(sizes, 1)), axis=1)
    first = kept - np.maximum(kept // levels, 1)
    mean = (inside - below[first]) / np.maximum(filled[kept] - filled[first], 1)
    reference = logs[kept] - _xlogy(last, last) + _xlogy(last + outside, last + outside)
    possible = (inside > 0) & ((outside == 0) | (last > 0))
    share = (reference - cross - _xlogy(outside, np.where(possible, mean, 1.0))) / max(total, 1.0)
    normal = np.log(np.where(possible, inside, 1.0)) - np.log(max(total, 1.0))
    return np.where(possible, share + normal, np.inf)


def _xlogy(x: Array, y: Array) -> Array:
    """x * ln y, and 0 where x is 0."""
    found: Array = x * np.log(np.where(x > 0, y, 1.0))
    return found


def divergence(bins: Array, kept: int, levels: int) -> float:
    """KL(P || Q) in nats of the candidate that keeps ``kept`` bins, term by term; both sum to 1."""
    head = bins[:kept]
    level = np.arange(kept) * min(levels, kept) // kept
    sums, sizes = np.bincount(level, head), np.bincount(level, head > 0)
    q = np.where(head > 0, (sums / np.maximum(sizes, 1))[level], 0.0)
    p = head.copy()
    p[-1] += bins[kept:].sum()
    if not q.any() or (p[-1] > 0 and q[-1] == 0):
        return float("inf")
    p, q = p[p > 0] / p.sum(), q[p > 0] / q.sum()
    return float(np.sum(p * np.log(p / q)))
