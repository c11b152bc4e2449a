"""Ranges: gathering a histogram, and the thresholds of it."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pytest

from accelsim.formats.ranges.methods import METHODS, Collector, threshold
from accelsim.workload.graph import Array

ELEMENTS = 64 * 112 * 112
"""The largest activation of ResNet-50 (batch 1)."""

BARS_MS = {"absmax": 5.0, "percentile": 5.0, "percentile-ort": 5.0, "mse": 60.0, "entropy": 60.0, "entropy-ort": 400.0}


def best(call: Any, repeats: int = 7) -> float:
    """CPU seconds of the fastest of some calls."""
    found = []
    for _ in range(repeats):
        start = process_time()
        call()
        found.append(process_time() - start)
    return min(found)


def activation(kind: str) -> Array:
    x = np.random.default_rng(1).standard_normal(ELEMENTS).astype(np.float32)
    return np.maximum(x, 0) if kind == "relu" else x


@pytest.mark.parametrize("kind", ["normal", "relu"])
@pytest.mark.parametrize("signed", [False, True])
def test_gathering(benchmark: Any, figure: Any, kind: str, signed: bool) -> None:
    x, collector = activation(kind), Collector(signed=signed)
    collector.add(x)
    ours = benchmark.pedantic(lambda: best(lambda: collector.add(x)), rounds=1, iterations=1)
    numpy = best(lambda: np.histogram(np.abs(x), 2048, (0, collector.absmax)))
    note = f"{1e9 * ours / ELEMENTS:.1f} ns per element; np.histogram {1e9 * numpy / ELEMENTS:.1f}"
    what = f"Collector.add, {kind}, {'signed' if signed else 'magnitudes'} / np.histogram"
    assert figure(what, ours / numpy, " x", 1.0, note).holds


@pytest.mark.parametrize("method", METHODS)
def test_thresholds(benchmark: Any, figure: Any, method: str) -> None:
    collector = Collector(signed=METHODS[method].signed)
    collector.add(activation("normal"))
    counts, edges = collector.signed_histogram() if collector.signed else (collector.counts, collector.edges)
    found = benchmark.pedantic(lambda: best(lambda: threshold(method, counts, edges)), rounds=1, iterations=1)
    assert figure(f"threshold by {method}, 2048 bins", 1e3 * found, " ms", BARS_MS[method]).holds
