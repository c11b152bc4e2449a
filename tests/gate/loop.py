"""A fixed loop of NumPy and pure Python. Costs of tests are stated in CPU seconds of it, so that they mean the same on any machine."""

from __future__ import annotations

import time

import numpy as np

PARTS = 25
"""A calibration loop is so many calls of ``spin``; it takes about one CPU second on an AMD EPYC of 2024."""


def spin() -> float:
    """Run a part of the loop and return its CPU seconds."""
    began = time.process_time()
    counts: dict[int, int] = {}
    for turn in range(170_000):
        key = turn * 7919 % 1009
        counts[key] = counts.get(key, 0) + len(str(turn))
    values = np.arange(200_000, dtype=np.float64) * 0.618 % 1.0
    for _ in range(4):
        values = np.sqrt(np.sort(values)[::-1] + 0.25) % 1.0
    assert len(counts) == 1009 and np.isfinite(values).all()
    return time.process_time() - began
