"""A small network that is trained in the lesson: 12 inputs, 24 hidden units, 6 classes, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from accelsim.seeds import generator
from accelsim.types import Array

INPUTS, HIDDEN, CLASSES = 12, 24, 6
SAMPLES, STEPS, BATCH, RATE = 1200, 160, 60, 0.3
LEVELS = 1
"""Codes of the weights go from minus this to this: three levels, in two bits."""

Quantise = Callable[[Array, float], Array]
Gradient = Callable[[Array, float, Array], Array]


class Data(NamedTuple):
    """Samples [n, 12] and their classes, to train and to test."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array


def data(seed: int) -> Data:
    """Six clouds that overlap a little."""
    rng = generator(seed)
    centres = rng.normal(0, 1.1, (CLASSES, INPUTS))
    y = rng.integers(0, CLASSES, 2 * SAMPLES)
    x = centres[y] + rng.normal(0, 1.0, (2 * SAMPLES, INPUTS))
    return Data(x[:SAMPLES], y[:SAMPLES], x[SAMPLES:], y[SAMPLES:])


def train(
    seed: int, quantise: Quantise | None = None, gradient: Gradient | None = None, start: list[Array] | None = None
) -> list[Array]:
    """Both matrices of weights. With ``quantise`` the forward pass uses what it makes of them, and ``gradient`` leads
    back through it: quantisation-aware training."""
    found, rng = data(seed), generator(seed, 1)
    weights = start or [rng.normal(0, 0.4, shape) for shape in ((INPUTS, HIDDEN), (HIDDEN, CLASSES))]
    weights = [weight.copy() for weight in weights]
    for _ in range(STEPS):
        chosen = rng.integers(0, SAMPLES, BATCH)
        x, y = found.x[chosen], found.y[chosen]
        used = weights if quantise is None else [quantise(weight, scale(weight)) for weight in weights]
        hidden = np.maximum(x @ used[0], 0)
        error = _shares(hidden @ used[1])
        error[np.arange(BATCH), y] -= 1
        error /= BATCH
        slopes = [x.T @ ((error @ used[1].T) * (hidden > 0)), hidden.T @ error]
        if gradient is not None:
            slopes = [gradient(weight, scale(weight), slope) for weight, slope in zip(weights, slopes, strict=True)]
        weights = [weight - RATE * slope for weight, slope in zip(weights, slopes, strict=True)]
    return weights


def scale(weight: Array) -> float:
    """The step of a matrix of weights: the power of two nearest to the mean size of its weights."""
    return float(2.0 ** np.round(np.log2(np.mean(np.abs(weight)) / LEVELS)))


def accuracy(seed: int, weights: list[Array]) -> float:
    """Share of the test samples that are right."""
    found = data(seed)
    return float(np.mean(np.argmax(np.maximum(found.x_test @ weights[0], 0) @ weights[1], axis=1) == found.y_test))


def _shares(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares
