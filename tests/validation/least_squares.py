"""Linear models with coefficients that are not negative, fitted with small relative errors."""

from __future__ import annotations

import numpy as np

from accelsim.types import Bools, Floats

ROUNDS = 60
"""Rounds of reweighting; the coefficients move by less than their printed digits long before."""
FLOOR = 0.02
"""Relative error below which all points weigh the same."""


def nnls(matrix: Floats, target: Floats) -> Floats:
    """x >= 0 that makes |matrix x - target| least (Lawson and Hanson, 1974: active set).

    ``matrix`` is n x k, ``target`` has n entries, the result k.
    """
    count = matrix.shape[1]
    x, free = np.zeros(count), np.zeros(count, dtype=bool)
    tolerance = 1e-10 * float(np.abs(matrix.T @ target).max())
    for _ in range(10 * count):
        gradient = np.where(free, -np.inf, matrix.T @ (target - matrix @ x))
        if free.all() or gradient.max() <= tolerance:
            break
        free[int(np.argmax(gradient))] = True
        x = _inside(matrix, target, x, free)
    return x


def _inside(matrix: Floats, target: Floats, x: Floats, free: Bools) -> Floats:
    """Least squares over the free entries; those that would turn negative are fixed at 0 again."""
    while True:
        solution = np.zeros_like(x)
        solution[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
        if not free.any() or solution[free].min() > 0:
            return solution
        falling = free & (solution <= 0)
        step = float(np.min(x[falling] / (x[falling] - solution[falling])))
        x = x + step * (solution - x)
        free &= x > 1e-12 * max(float(x.max()), 1e-300)


def robust(matrix: Floats, target: Floats) -> Floats:
    """x >= 0 with small relative errors of ``matrix x`` against ``target`` > 0: squares weighted into magnitudes."""
    relative, ones = matrix / target[:, None], np.ones(len(target))
    x = nnls(relative, ones)
    for _ in range(ROUNDS):
        weight = 1 / np.sqrt(np.maximum(np.abs(relative @ x - 1), FLOOR))
        x = nnls(relative * weight[:, None], weight)
    return x
