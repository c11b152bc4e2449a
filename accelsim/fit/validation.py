"""Errors of a fitted model on what it was not fitted on, and intervals that hold: split-conformal.

A residual is the logarithm of measured over predicted, of a row that no fit had seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, exp
from typing import NamedTuple

import numpy as np

from accelsim.errors import UsageError
from accelsim.fit.search import SQUARES, Knob, Misfit, Values, fit
from accelsim.seeds import generator
from accelsim.types import Array, Floats, Ints

ModelOfRows = Callable[[Values, Ints], Floats]
"""Predicts the rows with these numbers from these constants, > 0."""


class Residuals(NamedTuple):
    """Sizes of the relative errors |model / measured - 1| of so many rows."""

    rows: int
    mean: float
    median: float
    p90: float


def residuals(modelled: Floats, measured: Floats) -> Residuals:
    """Return how far off a model is from measurements, both > 0 and of one length."""
    errors = np.abs(modelled / measured - 1)
    median, p90 = np.quantile(errors, (0.5, 0.9))
    return Residuals(len(errors), float(errors.mean()), float(median), float(p90))


def cross_validated(
    model: ModelOfRows, measured: Floats, knobs: Sequence[Knob], parts: int = 5, seed: int = 0
) -> Residuals:
    """Errors on rows that were left out: each of ``parts`` random parts is modelled by a fit on all others.

    Raises UsageError for fewer than 2 parts, for more than there are rows, and as ``fit`` does.
    """
    return residuals(left_out(model, measured, knobs, parts, seed), measured)


def left_out(
    model: ModelOfRows,
    measured: Floats,
    knobs: Sequence[Knob],
    parts: int = 5,
    seed: int = 0,
    misfit: Misfit = SQUARES,
    near: bool = False,
    weights: Floats | None = None,
) -> Floats:
    """Return what the model says of each row by a fit on all parts but that of the row. Raises as ``cross_validated``.

    ``near``, ``weights``: see ``fit``; the knobs start where a fit on all rows left them.
    """
    if not 2 <= parts <= len(measured):
        expected = f"2 to {len(measured)}, the number of rows"
        raise UsageError(f"{parts} parts for cross-validation", "", expected)
    order = generator(seed).permutation(len(measured))
    modelled = np.empty(len(measured))
    for part in range(parts):
        out = order[part::parts]
        rest = np.setdiff1d(order, out)
        own = None if weights is None else weights[rest]
        values = fit(partial(_on_rows, model, rest), measured[rest], knobs, seed, misfit, near, own)
        modelled[out] = model(values, out)
    return modelled


def _on_rows(model: ModelOfRows, rows: Ints, values: Values) -> Floats:
    return model(values, rows)


LEVEL = 0.9
"""Share of rows that an interval is to hold."""
ENOUGH = 50
"""Rows of a regime from which it has an interval of its own."""
POOLED = "all"
"""Name of the interval of everything that has none of its own."""


class Interval(NamedTuple):
    """Predicted times and divided by ``factor``; from so many ``rows``."""

    factor: float
    rows: int


def quantile(sizes: Floats, level: float = LEVEL) -> float:
    """The conformal quantile of sizes of residuals: the ceil((n + 1) level)-th smallest, the largest of few."""
    rank = min(len(sizes), ceil((len(sizes) + 1) * level))
    return float(np.sort(sizes)[rank - 1])


def intervals(predicted: Floats, measured: Floats, regime: Array, level: float = LEVEL) -> dict[str, Interval]:
    """Regime -> interval, ``POOLED`` with it, from predictions of rows that were left out of their fit."""
    sizes = np.abs(np.log(measured / predicted))
    found = {POOLED: Interval(exp(quantile(sizes, level)), len(sizes))}
    for name in sorted(set(regime.tolist())):
        own = sizes[regime == name]
        if len(own) >= ENOUGH:
            found[name] = Interval(exp(quantile(own, level)), len(own))
    return found


def factors(found: Mapping[str, Interval], regime: Array) -> Floats:
    """Return the factor of each row's interval, by its regime."""
    pooled = found[POOLED]
    return np.array([found.get(name, pooled).factor for name in regime.tolist()])


class Coverage(NamedTuple):
    """Share of rows within their intervals, of how many, and the median factor."""

    share: float
    rows: int
    factor: float


def coverage(predicted: Floats, measured: Floats, regime: Array, part: Ints, level: float = LEVEL) -> Coverage:
    """Return how many rows lie within intervals that come of the other ``part``s of the rows."""
    inside, taken = np.zeros(len(predicted), bool), np.ones(len(predicted))
    for number in np.unique(part):
        out = part == number
        known = intervals(predicted[~out], measured[~out], regime[~out], level)
        taken[out] = factors(known, regime[out])
        inside[out] = np.abs(np.log(measured[out] / predicted[out])) <= np.log(taken[out])
    return Coverage(float(inside.mean()), len(inside), float(np.median(taken)))
