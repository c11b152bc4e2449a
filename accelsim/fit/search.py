"""Knobs of a model turned until it is near to measurements, as a ``Misfit`` counts it.

Errors are of ratios, alike for a time of a microsecond and one of a second. Each knob moves within its range.
Levenberg and Marquardt's steps (finite differences, cut off at the ranges) go down where the model is smooth; a compass
search then tries each knob alone in steps that get shorter, since models with ``max`` and whole waves have edges.
Several starts are tried: the knobs as they are, and seeded random ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor
from typing import NamedTuple

import numpy as np

from accelsim.errors import Problem, UsageError, count_of
from accelsim.seeds import generator
from accelsim.types import Floats

Values = Mapping[str, float]
"""Constant -> its value."""
Model = Callable[[Values], Floats]
"""Predicts every row of measurements from these constants, > 0."""

Errors = Callable[[Floats], Floats]
"""Settings of the knobs, each a share of its range -> an error for each row."""
Loss = Callable[[Floats], float]
"""Errors -> what they count together."""

TRIED, KEPT = 12, 2
"""Random starts that are looked at, and how many of the best are followed, beside the knobs as they are."""
DIFFERENCE, ROUNDS, STIFFEST, SOFTEST = 1e-3, 40, 1e6, 1e-12
"""Share of a range over which a slope is taken; most steps of a descent; damping beyond which it ends; the least, with
which a constant that nothing depends on leaves the equations solvable."""
LONGEST, SHORTEST = 0.08, 4e-4
"""First and last step of the compass search, shares of a range."""
DIGITS = 3
"""Significant digits of a fitted value."""


class Misfit(NamedTuple):
    """Return the loss that a fit minimises: the mean over rows of their errors' weight.

    ``error``: ratio of model to measured -> error. ``knee``: size of an error up to which it counts by its square, and
    beyond by its size alone (pseudo-Huber): of measurements some are of another kind (a library that took a slow
    kernel), and count once and not by the square of how far off they are.
    """

    error: Callable[[Floats], Floats]
    knee: float = float("inf")

    def counted(self, errors: Floats) -> Floats:
        """Return the loss that each error adds."""
        if self.knee == float("inf"):
            return errors**2
        found: Floats = 2 * self.knee**2 * (np.sqrt(1 + (errors / self.knee) ** 2) - 1)
        return found


SQUARES = Misfit(np.log)
"""Mean square of the logarithm, for which twice and half are errors of one size."""


def relative(ratio: Floats) -> Floats:
    """The error of which tables state the size, model / measured - 1."""
    return ratio - 1


ROBUST = Misfit(relative, 0.05)
"""Near to the mean size of the relative errors, and smooth."""


class Knob(NamedTuple):
    """A parameter of a fit: constants that share one value, its range, its start, and whether it is whole."""

    names: tuple[str, ...]
    low: float
    high: float
    start: float
    whole: bool = False

    def value(self, share: float) -> float:
        """The value at a share of the range, with ``DIGITS``."""
        value = float(f"{self.low + share * (self.high - self.low):.{DIGITS}g}")
        inside = min(max(value, self.low), self.high)
        return float(min(max(round(inside), ceil(self.low)), floor(self.high))) if self.whole else inside

    def share(self, value: float) -> float:
        """Return where in the range a value lies, 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def fit(
    model: Model,
    measured: Floats,
    knobs: Sequence[Knob],
    seed: int = 0,
    misfit: Misfit = SQUARES,
    near: bool = False,
    weights: Floats | None = None,
) -> dict[str, float]:
    """Constant -> the value that leaves the least error; all within their ranges.

    ``near``: only go down from where the knobs are, for a fit that differs little from one that was made.

    ``weights``: how much each row counts, beside a mean of 1; absent: all alike.

    ``measured``: one row per entry of what ``model`` returns, > 0. Raises UsageError, all at once: no rows, fewer of
    them than knobs, a row that is not positive, a knob whose range is empty.
    """
    problems = list(_problems(measured, knobs))
    UsageError.raise_for(problems)

    def errors(x: Floats) -> Floats:
        return misfit.error(model(_values(knobs, x, exact=True)) / measured)

    each = np.ones(len(measured)) if weights is None else weights / weights.mean()

    def loss(found: Floats) -> float:
        return float(np.mean(each * misfit.counted(found)))

    if near:
        start = np.array([knob.share(knob.start) for knob in knobs])
        return _values(knobs, _descent(errors, loss, start, misfit.knee, each))
    ends = [
        _compass(errors, loss, _descent(errors, loss, start, misfit.knee, each))
        for start in _starts(errors, loss, knobs, seed)
    ]
    best = min(ends, key=lambda x: loss(errors(x)))
    return _values(knobs, best)


def _problems(measured: Floats, knobs: Sequence[Knob]) -> list[Problem]:
    found = []
    if not len(measured):
        found.append(Problem("no measurements", "", "rows to fit on"))
    elif len(measured) < len(knobs):
        what = f"{count_of(len(measured), 'row')} for {count_of(len(knobs), 'knob')}"
        found.append(Problem(what, "", "at least as many rows"))
    wrong = np.flatnonzero(~(np.isfinite(measured) & (measured > 0)))
    if len(wrong):
        found.append(Problem(f"row {wrong[0]} is {measured[wrong[0]]:g}", "", "measurements above 0"))
    empty = (knob for knob in knobs if not knob.low < knob.high)
    return found + [
        Problem(f"{knob.names[0]}: no range from {knob.low:g} to {knob.high:g}", "", "low < high") for knob in empty
    ]


def _values(knobs: Sequence[Knob], x: Floats, exact: bool = False) -> dict[str, float]:
    """Constant -> value; ``exact``: with all digits, as slopes need it."""
    found = {}
    for knob, share in zip(knobs, x, strict=True):
        value = knob.low + float(share) * (knob.high - knob.low) if exact else knob.value(float(share))
        found.update(dict.fromkeys(knob.names, value))
    return found


def _starts(errors: Errors, loss: Loss, knobs: Sequence[Knob], seed: int) -> list[Floats]:
    """The knobs as they are, and the best of some random settings."""
    drawn = list(generator(seed).random((TRIED, len(knobs))))
    drawn.sort(key=lambda x: loss(errors(x)))
    return [np.array([knob.share(knob.start) for knob in knobs]), *drawn[:KEPT]]


def _descent(errors: Errors, loss: Loss, x: Floats, knee: float, weights: Floats) -> Floats:
    """Levenberg and Marquardt's method in the unit box; errors that count less are weighted down."""
    now, damping = errors(x), 1e-2
    for _ in range(ROUNDS):
        slopes = _slopes(errors, x, now)
        weighted = slopes * (weights / np.sqrt(1 + (now / knee) ** 2))[:, None]
        curve, down = weighted.T @ slopes, -weighted.T @ now
        while damping < STIFFEST:
            stiff = curve + damping * np.diag(np.maximum(np.diag(curve), 1e-9))
            new = np.clip(x + np.linalg.solve(stiff, down), 0.0, 1.0)
            after = errors(new)
            if loss(after) < loss(now):
                break
            damping *= 4
        else:
            return x
        gain = 1 - loss(after) / loss(now)
        x, now, damping = new, after, max(damping / 5, SOFTEST)
        if gain < 1e-6 or not loss(now):
            return x
    return x


def _slopes(errors: Errors, x: Floats, now: Floats) -> Floats:
    """Rows x knobs: how errors change with each knob, taken inwards at the ends of a range."""
    columns = []
    for index, share in enumerate(x):
        step = -DIFFERENCE if share + DIFFERENCE > 1 else DIFFERENCE
        moved = x.copy()
        moved[index] += step
        columns.append((errors(moved) - now) / step)
    return np.stack(columns, axis=1)


def _compass(errors: Errors, loss: Loss, x: Floats) -> Floats:
    """The best that steps along one knob at a time find, each half as long when none helps."""
    step, best = LONGEST, loss(errors(x))
    while step > SHORTEST:
        helped = False
        for index in range(len(x)):
            for way in (step, -step):
                moved = x.copy()
                moved[index] = min(max(moved[index] + way, 0.0), 1.0)
                found = loss(errors(moved))
                if found < best:
                    x, best, helped = moved, found, True
        step = step if helped else step / 2
    return x
