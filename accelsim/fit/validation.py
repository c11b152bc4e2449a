"""How far off a fitted model is on what it was not fitted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.errors import Problem, UsageError
from accelsim.fit.search import SQUARES, Knob, Misfit, Model, Values, fit
from accelsim.seeds import generator
from accelsim.types import Floats, Ints

ModelOfRows = Callable[[Values, Ints], Floats]
"""What a model says of the rows with these numbers, > 0, with these constants."""


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
    model: ModelOfRows,
    measured: Floats,
    knobs: Sequence[Knob],
    parts: int = 5,
    seed: int = 0,
    misfit: Misfit = SQUARES,
) -> Residuals:
    """Errors on rows that were left out: each of ``parts`` random parts is modelled by a fit on all others.

    Raises UsageError for fewer than 2 parts, for more than there are rows, and as ``fit`` does.
    """
    return residuals(left_out(model, measured, knobs, parts, seed, misfit), measured)


def left_out(
    model: ModelOfRows,
    measured: Floats,
    knobs: Sequence[Knob],
    parts: int = 5,
    seed: int = 0,
    misfit: Misfit = SQUARES,
    near: bool = False,
) -> Floats:
    """Return what the model says of each row by a fit on all parts but that of the row. Raises as ``cross_validated``.

    ``near``: see ``fit``; the knobs start where a fit on all rows left them.
    """
    if not 2 <= parts <= len(measured):
        expected = f"2 to {len(measured)}, the number of rows"
        raise UsageError(Problem(f"{parts} parts for cross-validation", "", expected))
    order = generator(seed).permutation(len(measured))
    modelled = np.empty(len(measured))
    for part in range(parts):
        out = order[part::parts]
        rest = np.setdiff1d(order, out)
        values = fit(_of(model, rest), measured[rest], knobs, seed, misfit, near)
        modelled[out] = model(values, out)
    return modelled


def _of(model: ModelOfRows, rows: Ints) -> Model:
    """The model of these rows alone."""
    return lambda constants: model(constants, rows)
