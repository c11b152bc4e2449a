"""Range of a tensor over many batches, and a histogram of its magnitudes."""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np
from numpy.typing import ArrayLike

from accelsim.errors import Problem, UsageError
from accelsim.types import Array

GROWTH = 8
"""A histogram grows to this many times the bins it began with; then neighbours are merged."""

_CHUNK = 1 << 15
"""Elements handled at once: the temporary arrays of so many stay in the cache of a core."""

_SLACK = np.float32(2.0**-22)
"""Relative error of |x| / width and of an edge in float32, together at most 1.5 * 2^-23."""

_TINY = float(np.finfo(np.float32).tiny)


class Collector:
    """Range, mean magnitude and histogram of |x| over all batches of one tensor. Deterministic.

    The first batch that is not zero sets the range: ``bins`` bins over [0, max|x|], with the counts that
    ``np.histogram(abs(x), bins, (0, max))`` gives. A later, larger value appends bins of the same width, as
    NVIDIA's pytorch_quantization does; beyond ``GROWTH`` times ``bins`` pairs of bins become one, so that a
    tiny first batch does not cost memory. ``signed`` keeps negative and other values apart, which
    percentiles per side and the rules of ONNX Runtime need.

    ``low`` and ``high`` are the smallest and the largest value so far, ``count`` the number of values;
    before the first one they are 0. Raises UsageError for less than one bin.
    """

    def __init__(self, bins: int = 2048, signed: bool = False) -> None:
        if bins < 1:
            raise UsageError(f"a histogram of {bins} bins", "bins", "at least 1")
        self.bins, self.signed = bins, signed
        self.low = self.high = 0.0
        self.count = 0
        self._total = 0.0
        self._width = 0.0
        self._sides = np.zeros((1 + signed, bins), np.int64)

    @property
    def absmax(self) -> float:
        """Largest magnitude so far."""
        return max(self.high, -self.low)

    @property
    def mean_abs(self) -> float:
        """Mean of |x| so far; 0 before the first value."""
        return self._total / self.count if self.count else 0.0

    @property
    def counts(self) -> Array:
        """Values per bin of |x|, int64 [n], n >= ``bins``."""
        found: Array = np.sum(self._sides, axis=0)
        return found

    @property
    def edges(self) -> Array:
        """Edges of the bins of |x|, float32 [n + 1], from 0; all zero as long as every value was zero.

        Bin k holds edges[k] <= |x| < edges[k + 1], the last one its upper edge too.
        """
        return (np.arange(self._sides.shape[1] + 1) * self._width).astype(np.float32)

    def signed_histogram(self) -> tuple[Array, Array]:
        """(counts [2n], edges [2n + 1]) over [-T, T]. Raises UsageError unless made with ``signed=True``."""
        if not self.signed:
            raise UsageError("this histogram holds magnitudes only", "", "Collector(signed=True)")
        edges = self.edges
        counts = np.concatenate([self._sides[1, ::-1], self._sides[0]])
        return counts, np.concatenate([-edges[:0:-1], edges])

    def add(self, x: ArrayLike, where: str = "") -> None:
        """Take in one batch of any shape (float32; others are converted). An empty one changes nothing.

        Raises UsageError for NaN and infinity; ``where`` names tensor and batch in its text.
        """
        with np.errstate(over="ignore"):
            values = np.asarray(x).astype(np.float32, copy=False).ravel()
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        if not (isfinite(low) and isfinite(high)):
            raise UsageError(_not_finite(values, where))
        self.low = min(low, self.low) if self.count else low
        self.high = max(high, self.high) if self.count else high
        self.count += values.size
        self._reach(max(high, -low))
        if self._width:
            self._fill(values)
        else:
            self._sides[0, 0] += values.size
            self._total += float(np.sum(np.abs(values), dtype=np.float64))

    def _reach(self, peak: float) -> None:
        """Make the histogram hold ``peak``. One so small that a bin would be subnormal counts as zero."""
        first = self._width == 0.0
        if first and peak / self.bins >= _TINY:
            self._width = peak / self.bins
        if first or peak <= float(self.edges[-1]):
            return
        while (needed := ceil(peak / self._width)) > GROWTH * self.bins:
            odd = self._sides.shape[1] % 2
            pairs = np.pad(self._sides, ((0, 0), (0, odd)))
            self._sides = pairs[:, ::2] + pairs[:, 1::2]
            self._width *= 2
        missing = max(needed - self._sides.shape[1], 0)
        self._sides = np.pad(self._sides, ((0, 0), (0, missing)))
        if float(self.edges[-1]) < peak:
            self._sides = np.pad(self._sides, ((0, 0), (0, 1)))

    def _fill(self, values: Array) -> None:
        size = self._sides.shape[1]
        edges, inverse = self.edges, np.float32(1.0 / self._width)
        split = self.signed and self.low < 0
        found = np.zeros(self._sides.size, np.int64)
        for start in range(0, values.size, _CHUNK):
            chunk = values[start : start + _CHUNK]
            sizes = np.abs(chunk)
            self._total += float(np.sum(sizes, dtype=np.float64))
            index = _bin_of(sizes, edges, inverse)
            if split:
                index += np.int32(size) * (chunk < 0)
            found += np.bincount(index.astype(np.intp), minlength=found.size)
        self._sides += found.reshape(self._sides.shape)


def _bin_of(sizes: Array, edges: Array, inverse: np.float32) -> Array:
    """Bin of each magnitude: a product, and a look at the edge for the few that are too close to it."""
    ratio = sizes * inverse
    index: Array = ratio.astype(np.int32)
    gap = np.rint(ratio)
    gap -= ratio
    np.abs(gap, out=gap)
    ratio *= _SLACK
    close = np.flatnonzero(gap < ratio)
    if close.size:
        edge = np.rint(sizes[close] * inverse).astype(np.int32)
        index[close] = np.minimum(edge - (sizes[close] < edges[edge]), len(edges) - 2)
    return index


def _not_finite(values: Array, where: str) -> Problem:
    nans, size = int(np.count_nonzero(np.isnan(values))), values.size
    infinities = int(np.count_nonzero(np.isinf(values)))
    kinds = [f"{n} {kind}" for n, kind in ((nans, "NaN"), (infinities, "infinite")) if n]
    what = f"{' and '.join(kinds)} among {size} values"
    return Problem(what, where, "finite float32 values")
