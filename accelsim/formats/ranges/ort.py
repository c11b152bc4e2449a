"""Ranges as ONNX Runtime 1.31 chooses them (onnxruntime.quantization.calibrate), to the bin."""

from __future__ import annotations

import numpy as np

from accelsim.types import Array

NUM_BINS = 128
"""Bins of ONNX Runtime's EntropyCalibrater by default. With as many quantised bins there is one candidate,
the whole range, so that nothing is ever cut."""

USEFUL_BINS = 2048
"""Bins with which the same rule has something to choose from."""

QUANTISED_BINS = 128
"""Quantised bins by default."""

_EPSILON = 1e-4
"""Count of an empty bin when the divergence is taken."""


def entropy_range(counts: Array, edges: Array, quantised_bins: int = QUANTISED_BINS) -> tuple[float, float]:
    """(low, high) of ONNX Runtime's entropy rule, before it is clipped to the range of the data.

    ``counts`` [n] over ``edges`` [n + 1] are signed, over [-T, T]. Candidates keep i bins on both sides of the middle
    one, i from ``quantised_bins`` / 2 to n / 2; what lies outside is added to the ends of the reference. Bins merge n
    // ``quantised_bins`` at a time, means are cut to whole numbers, and empty bins get 1e-4 of a value. The first of
    the smallest divergences (in float32) wins. Fewer bins than quantised bins leave no candidate: everything is kept.
    """
    middle, size = len(counts) // 2, len(counts)
    best, found = np.float32(np.inf), (float(edges[0]), float(edges[-1]))
    for i in range(quantised_bins // 2, middle + 1):
        start, end = middle - i, min(middle + i + 1, size)
        divergence = _divergence(counts, start, end, quantised_bins)
        if divergence < best or i == quantised_bins // 2:
            best, found = divergence, (float(edges[start]), float(edges[end]))
    return found


def _divergence(counts: Array, start: int, end: int, quantised_bins: int) -> np.float32:
    """Divergence of one candidate, in float32 as ONNX Runtime computes it."""
    part: Array = counts[start:end].astype(np.int64)
    p = part.copy()
    p[0] += counts[:start].sum()
    p[-1] += counts[end:].sum()
    width = part.size // quantised_bins
    if not width or not p.any():
        return np.float32(np.inf)
    merged = quantised_bins * width
    sums = part[:merged].reshape(quantised_bins, width).sum(axis=1)
    sums[-1] += part[merged:].sum()
    filled = np.count_nonzero(p[:merged].reshape(quantised_bins, width), axis=1)
    q = np.zeros(p.size, np.int64)
    q[:merged] = np.repeat((sums / np.maximum(filled, 1)).astype(np.int64) * (filled > 0), width)
    if not q.any():
        return np.float32(np.inf)
    smooth_p, smooth_q = _smooth(p), _smooth(q)
    smooth_p, smooth_q = smooth_p / smooth_p.sum(), smooth_q / smooth_q.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        terms = smooth_p * np.log(smooth_p / smooth_q)
    terms[~((smooth_p > 0) & (smooth_q > 0))] = np.inf
    return np.float32(terms.sum())


def _smooth(counts: Array) -> Array:
    """float32 counts whose empty bins hold 1e-4, taken evenly from the others."""
    empty = (counts == 0).astype(np.float32)
    zeros = float(empty.sum())
    taken = _EPSILON * zeros / (counts.size - zeros)
    smoothed: Array = counts.astype(np.float32)
    smoothed += _EPSILON * empty + (-taken) * (np.float32(1) - empty)
    return smoothed


def merged(counts: Array, edges: Array, bins: int) -> tuple[Array, Array]:
    """A signed histogram (an even number of bins) whose neighbours are merged until at most ``bins`` are left.

    Merging begins at zero, so that it stays an edge; the outermost bins may reach beyond the histogram.
    """
    half, width = len(counts) // 2, float(edges[-1]) / (len(counts) // 2 or 1)
    step = -(-half // max(bins // 2, 1))
    if step <= 1:
        return counts, edges
    outside = -half % step
    padded = np.pad(counts, outside).reshape(-1, step).sum(axis=1)
    side = len(padded) // 2
    return padded, (np.arange(-side, side + 1) * (step * width)).astype(np.float32)
