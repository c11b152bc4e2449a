"""Comparisons of a student's values with the expected ones; each raises ``Wrong`` at the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose, isfinite

import numpy as np

from accelsim.lessons.base import Ask, Wrong
from accelsim.types import Array

ANSWER = "ANSWER"
"""Name in a student's file of the answer to the question at the end of the text."""


def number(where: str, expected: float, got: object, rule: str, within: float = 0.01) -> float:
    """Check for a number within the share ``within`` of the expected one (0: equal); return it."""
    if isinstance(got, bool) or not isinstance(got, int | float):
        raise Wrong(where, "a number", got, rule)
    if not isfinite(got) or not isclose(got, expected, rel_tol=within, abs_tol=0.0 if expected else 1e-12):
        about = f"{_text(expected)} (within {within:.3g} of it)" if within else _text(expected)
        raise Wrong(where, about, _text(got), rule)
    return float(got)


def numbers(
    where: str, names: Sequence[str], expected: Sequence[float], got: object, rule: str, within: float = 0.0
) -> None:
    """Check a tuple or list of numbers; a wrong one is reported by its name."""
    if not isinstance(got, tuple | list) or len(got) != len(expected):
        raise Wrong(where, f"({', '.join(names)})", got, rule)
    for name, want, have in zip(names, expected, got, strict=True):
        number(f"{where}: {name}", want, have, rule, within)


def same(where: str, expected: object, got: object, rule: str) -> None:
    """Check for the same value of the same kind."""
    if type(got) is not type(expected) or got != expected:
        raise Wrong(where, expected, got, rule)


def array(where: str, expected: Array, got: object, rule: str, axes: Sequence[str] = ("row", "column")) -> Array:
    """Check for an array of the same shape and numbers; the first difference is reported by its place."""
    if not isinstance(got, np.ndarray):
        raise Wrong(where, f"an array of shape {expected.shape}", f"a {type(got).__name__}", rule)
    if got.shape != expected.shape:
        raise Wrong(where, f"shape {expected.shape}", f"shape {got.shape}", rule)
    unequal = np.argwhere(~((got == expected) | (np.isnan(got) & np.isnan(expected))))
    if len(unequal):
        place = tuple(int(index) for index in unequal[0])
        told = ", ".join(f"{axis} {index}" for axis, index in zip(axes, place, strict=False))
        raise Wrong(f"{where}, {told}", _text(expected[place].item()), _text(got[place].item()), rule)
    return got


def answer(ask: Ask, expected: float, rule: str, within: float = 0.01) -> float:
    """Check the answer to the question of the lesson; return it."""
    got = ask.value(ANSWER)
    if got is None:
        raise Wrong(ANSWER, "the number that the question at the end asks for", "None yet", rule)
    return number(ANSWER, expected, got, rule, within)


def _text(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
