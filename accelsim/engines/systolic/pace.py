"""The pace at which rows enter the array."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from accelsim.program.roles import Roles
from accelsim.program.writing.entries import nbytes

ADDING = "Bias"
"""The function at whose pace a vector unit adds what several arrays have of a sum."""
Pace = int | Fraction
"""Clocks per row; a fraction where several rows enter in one clock."""


def cycles_per_row(roles: Roles, dtype: str, a_dtype: str, arrays: int = 1) -> Pace:
    """Clocks per streamed row: the unit's rate for the format, or what the buffers around it can feed and take.

    A buffer moves whole words of its width, several rows in one where they fit: of ``arrays`` at once, one row of each.
    """
    unit = roles.matrix
    own = unit.formats[dtype].cycles_per_row
    together = max(1, int(1 / Fraction(own)))
    feed = nbytes(a_dtype, arrays * together * unit.rows)
    take = nbytes(unit.formats[dtype].accumulate, arrays * together * unit.cols)
    moved = max(
        -(-feed // roles.buffer(roles.activations).read_width),
        -(-take // roles.buffer(roles.sums).write_width),
    )
    slowest = max(Fraction(own), Fraction(moved, together))
    return int(slowest) if slowest.denominator == 1 else slowest


def clocks(rows: Any, pace: Pace) -> Any:
    """Clocks in which so many rows enter, whole; integers or int64 arrays."""
    return -(-rows * pace.numerator // pace.denominator)
