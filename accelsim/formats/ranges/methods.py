"""Ranges: from what a tensor was seen to hold to the scale and zero point that it is quantised with.

``Collector`` gathers, ``METHODS`` are the ways to choose the largest magnitude that is still represented (what
is beyond it saturates), and ``parameters`` makes scale and zero point of it for any number format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from accelsim.errors import Problem, UsageError, nearest
from accelsim.formats import table
from accelsim.formats.collect import Collector
from accelsim.formats.ranges import ort
from accelsim.formats.ranges.entropy import START, entropy_bins
from accelsim.formats.scale_of_range import dynamic_quantise, scale_zero_point
from accelsim.types import Array

__all__ = [
    "METHODS", "Collector", "Method", "Settings", "affine_range", "dynamic_quantise", "get", "parameters",
    "peak_of", "scale_zero_point", "threshold",
]  # fmt: skip

Rule = Callable[[Array, Array, "Settings"], float]


@dataclass(frozen=True)
class Settings:
    """Inputs of a rule: bits of a code, whether it has no sign, the percentile, and the bins that ONNX
    Runtime's entropy search uses (more are merged)."""

    bits: int = 8
    unsigned: bool = False
    percentile: float = 99.99
    num_bins: int = ort.USEFUL_BINS
    num_quantized_bins: int = ort.QUANTISED_BINS

    @property
    def levels(self) -> int:
        """Number of magnitudes that a code can have: 2^(bits - 1), or 2^bits without a sign."""
        return 1 << (self.bits - 1 + self.unsigned)


@dataclass(frozen=True)
class Method:
    """One way to choose a threshold.

    ``signed``: its rule needs a histogram over [-T, T]. ``percentile``: the default where it has one, else 0.
    """

    name: str
    title: str
    rule: Rule
    source: str
    signed: bool = False
    percentile: float = 0.0


def _absmax(counts: Array, edges: Array, settings: Settings) -> float:
    return float(edges[np.flatnonzero(counts)[-1] + 1])


def _percentile(counts: Array, edges: Array, settings: Settings) -> float:
    return float(edges[_edge_at(counts, settings.percentile / 100)])


def _edge_at(counts: Array, share: float) -> int:
    """Lower edge of the bin in which ``share`` of the values is reached; the last edge for all of them.

    Never edge 0: a range of nothing has no scale.
    """
    if share >= 1:
        return len(counts)
    reached = np.cumsum(counts / counts.sum())
    return max(int(np.searchsorted(reached, share)), 1)


def _mse(counts: Array, edges: Array, settings: Settings) -> float:
    """Centre of the bin, from number 128 on, at which quantising all centres gives the least squared error."""
    centres = ((edges[1:] + edges[:-1]) / 2).astype(np.float32)
    if len(centres) <= START:
        return _absmax(counts, edges, settings)
    used = np.flatnonzero(counts)
    values, weights = centres[used], counts[used].astype(np.float32)
    high = np.float32(settings.levels - 1)
    errors = np.empty(len(centres) - START, np.float64)
    for at, peak in enumerate(centres[START:]):
        scale = high / peak
        error = np.minimum(np.rint(values * scale), high) / scale - values
        errors[at] = np.dot(error * error, weights)
    return float(centres[START + int(np.argmin(errors))])


def _entropy(counts: Array, edges: Array, settings: Settings) -> float:
    return float(edges[entropy_bins(counts, settings.levels)])


def _entropy_ort(counts: Array, edges: Array, settings: Settings) -> float:
    histogram = ort.merged(counts, edges, settings.num_bins)
    low, high = ort.entropy_range(*histogram, settings.num_quantized_bins)
    return max(high, -low)


NVIDIA = "NVIDIA pytorch_quantization, calib/histogram.py"
ORT = "ONNX Runtime 1.31, quantization/calibrate.py"

_ROWS = (
    Method("absmax", "everything is represented", _absmax, "plain"),
    Method("percentile", "99.99 % of the values, or as many as asked, are represented", _percentile, NVIDIA,
           percentile=99.99),
    Method("mse", "least squared error of the quantised values", _mse, NVIDIA),
    Method("entropy", "least Kullback-Leibler divergence between the distributions before and after", _entropy,
           f"Migacz, GTC 2017; {NVIDIA}"),
    Method("percentile-ort", "99.999 % of the values, or as many as asked, are represented", _percentile, ORT,
           percentile=99.999),
    Method("entropy-ort", "divergence with smoothed bins; does nothing with 128 bins", _entropy_ort, ORT, True),
)  # fmt: skip

METHODS: dict[str, Method] = {row.name: row for row in _ROWS}
"""Every range method by name."""


def get(name: str) -> Method:
    """The method of a name. Raises UsageError with the nearest name."""
    if name not in METHODS:
        expected = "one of " + ", ".join(METHODS)
        raise UsageError(f"{name!r} is no range method", "ranges_from", expected, nearest(name, METHODS))
    return METHODS[name]


def threshold(
    method: str,
    counts: Array,
    edges: Array,
    bits: int = 8,
    unsigned: bool = False,
    percentile: float | None = None,
    num_bins: int = ort.USEFUL_BINS,
    num_quantized_bins: int = ort.QUANTISED_BINS,
) -> float:
    """Largest magnitude to represent, in the unit of ``edges``; 0 when all values are zero or there are none.

    ``counts`` [n] and ``edges`` [n + 1] are a histogram of |x| from 0 (``Collector.counts``, ``.edges``), or
    of x over [-T, T] (``signed_histogram``), which 'entropy-ort' needs and whose halves others add. ``bits`` and
    ``unsigned`` are those of the codes (used by 'mse' and 'entropy'), ``percentile`` is in (0, 100], by
    default 99.99, for 'percentile-ort' 99.999. Raises UsageError for what does not fit.
    """
    chosen = get(method)
    share = chosen.percentile or 100.0 if percentile is None else percentile
    settings = Settings(bits, unsigned, share, num_bins, num_quantized_bins)
    counts, edges = np.asarray(counts), np.asarray(edges)
    two_sided = len(edges) > 0 and edges[0] < 0
    _check(chosen, counts, edges, settings, two_sided)
    if not np.any(counts) or edges[-1] <= 0:
        return 0.0
    if two_sided and not chosen.signed:
        half = len(counts) // 2
        counts, edges = counts[half:] + counts[:half][::-1], edges[half:]
    return chosen.rule(counts, edges, settings)


def _check(method: Method, counts: Array, edges: Array, settings: Settings, two_sided: bool) -> None:
    problems = []
    if len(edges) != len(counts) + 1 or len(counts) == 0:
        found = f"{len(counts)} counts and {len(edges)} edges"
        problems.append(Problem(found, "histogram", "one edge more than counts"))
    elif two_sided and len(counts) % 2:
        problems.append(Problem(f"{len(counts)} bins over [-T, T]", "histogram", "an even number"))
    elif method.signed and not two_sided and edges[-1] > 0:
        found = f"{method.name!r} with a histogram of magnitudes"
        problems.append(Problem(found, "histogram", "counts over [-T, T]: Collector(signed=True)"))
    if not 2 <= settings.bits <= 16:
        problems.append(Problem(f"codes of {settings.bits} bits", "bits", "2 to 16"))
    if not 0 < settings.percentile <= 100:
        problems.append(Problem(f"percentile {settings.percentile:g}", "percentile", "above 0, at most 100"))
    if min(settings.num_bins, settings.num_quantized_bins) < 2:
        problems.append(Problem("too few bins", "num_bins, num_quantized_bins", "at least 2"))
    UsageError.raise_for(problems)


def affine_range(
    method: str, collector: Collector, bits: int = 8, percentile: float | None = None, **more: int
) -> tuple[float, float]:
    """(low, high) to represent with a zero point, within the range of the data.

    Percentiles cut half of the rest on each side and need ``Collector(signed=True)`` where there are values
    below and above zero. The others clip both sides at the threshold of |x|. A tensor without negative
    values counts as unsigned: its codes have ``bits`` bits of magnitude. ``more``: ``num_bins``,
    ``num_quantized_bins`` of 'entropy-ort'. Raises UsageError as ``threshold`` and ``signed_histogram`` do.
    """
    low, high, chosen = collector.low, collector.high, get(method)
    if chosen.percentile and low < 0 < high:
        share = chosen.percentile if percentile is None else percentile
        return _per_side(method, collector, share)
    peak = peak_of(method, collector, bits, low >= 0, percentile, **more)
    return max(min(low, peak), -peak), min(max(high, -peak), peak)


def _per_side(method: str, collector: Collector, percentile: float) -> tuple[float, float]:
    """Edges beyond which (100 - percentile) / 2 percent of the values lie, on each side."""
    counts, edges = collector.signed_histogram()
    _check(get(method), counts, edges, Settings(percentile=percentile), True)
    share = 0.5 + percentile / 200
    high, low = float(edges[_edge_at(counts, share)]), -float(edges[_edge_at(counts[::-1], share)])
    return max(min(low, 0.0), collector.low), min(max(high, 0.0), collector.high)


def peak_of(
    method: str,
    collector: Collector,
    bits: int = 8,
    unsigned: bool = False,
    percentile: float | None = None,
    **more: int,
) -> float:
    """Threshold of what a collector saw, at most its absmax. Arguments and errors as in ``threshold``."""
    if method == "absmax":
        return collector.absmax
    chosen = get(method)
    counts, edges = collector.signed_histogram() if chosen.signed else (collector.counts, collector.edges)
    found = threshold(method, counts, edges, bits, unsigned, percentile, **more)
    return min(found, collector.absmax) if found else collector.absmax


def parameters(
    collector: Collector,
    dtype: str = "int8",
    method: str = "absmax",
    symmetric: bool = True,
    percentile: float | None = None,
    **more: int,
) -> tuple[np.float32, int]:
    """(scale, zero point) of a tensor in format ``dtype``: ``method`` on what the collector saw.

    'mse' and 'entropy' assume evenly spaced codes: for a float format they use those of the integer of as
    many bits (16 at most). int1 takes the mean of |x|, whatever the method. Raises UsageError as
    ``threshold`` and ``scale_zero_point`` do.
    """
    row = table.get(dtype)
    bits = min(max(row.bits, 2), 16)
    if symmetric or row.kind != "int":
        peak = peak_of(method, collector, bits, False, percentile, **more)
        return scale_zero_point(-peak, peak, dtype, True, collector.mean_abs)
    low, high = affine_range(method, collector, bits, percentile, **more)
    return scale_zero_point(low, high, dtype, False)
