"""Cells of a row of a table of kernels, read as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

Cells = Mapping[str, str]
"""Name of a column -> what a row has there."""
MOST = 2.0**48
"""Largest number of anything in a row."""


class Wrong(Exception):
    """Problem of a row."""

    def __init__(self, what: str, expected: str = "", near: str = "") -> None:
        self.what, self.expected, self.near = what, expected, near
        super().__init__(what)


def number(row: Cells, *names: str, default: float | None = None) -> float:
    """The first of these columns that the row has, a number above 0 (from 0 where the default is 0)."""
    for name in names:
        text = row.get(name, "").strip()
        if not text:
            continue
        try:
            value = float(text)
        except ValueError:
            raise Wrong(f"{name} is {text!r}", "a number") from None
        if not isfinite(value) or value > MOST or value < 0 or (value == 0 and default != 0):
            least = "0 or more" if default == 0 else "a number above 0"
            raise Wrong(f"{name} is {text}", f"{least}, no more than 2^48")
        return value
    if default is None:
        raise Wrong(f"no {names[0]}", f"a value of {' or '.join(names)}")
    return default
