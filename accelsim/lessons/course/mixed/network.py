"""A regression whose gradients are too small for FP16, trained with FP16 gradients and a scale of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from accelsim.seeds import generator

WIDTH, SAMPLES, STEPS = 8, 64, 120
SMALL = 2.0**-28
"""The targets are of this size, so that all gradients are below 2^-25, of which FP16 makes zero."""
START = 2.0**52
"""First scale of the controller: far too large."""


class Course(NamedTuple):
    """Loss of every step relative to that of the first, and the scale that it was computed with."""

    losses: list[float]
    scales: list[float]


Update = Callable[[float, int, bool], Any]


def train(seed: int, update: Update | None, start: float, skips: bool = True) -> Course:
    """Gradient descent. The gradient of the scaled loss is rounded to FP16, divided by the scale, and applied in FP32.

    ``update``: (scale, good steps, whether something was infinite) -> (scale, good steps); None keeps the scale.
    ``skips``: steps with infinite gradients leave the weights as they are.
    """
    rng = generator(seed)
    x = rng.normal(0, 1, (SAMPLES, WIDTH))
    target = SMALL * (x @ rng.normal(0, 1, WIDTH))
    weights, scale, good = np.zeros(WIDTH), start, 0
    losses, scales = [], []
    for _ in range(STEPS):
        with np.errstate(over="ignore", invalid="ignore"):
            error = x @ weights - target
            losses.append(float(np.mean(error**2)))
            scales.append(scale)
            rounded = (scale * (x.T @ error) / SAMPLES / 8).astype(np.float16).astype(np.float64)
            found = not bool(np.isfinite(rounded).all())
            if not (found and skips):
                weights = weights - 2.0 * rounded / scale
        if update is not None:
            scale, good = update(scale, good, found)
    return Course([loss / losses[0] for loss in losses], scales)
