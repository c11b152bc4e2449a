"""Folds of a tile on an array, the stationary tiles that its weights fill, and the pace at which its rows enter and its
sums leave."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.program.roles import Roles
from accelsim.program.work import Folds
from accelsim.program.writing.entries import nbytes
from accelsim.types import Int, Ints

Count = Ints | int
"""A number, or one of each of many candidates."""
ADDING = "Bias"
"""The function at whose pace a vector unit adds what several arrays have of a sum."""


class Pace(NamedTuple):
    """Clocks per streamed row; a fraction where several rows enter in one clock.

    ``own``: what the array itself needs of it; the rest is spent waiting for the port of the buffer ``port``.
    ``leave``: clocks in which the buffer ``sums`` takes a row of sums that stayed in the PEs during a fold.
    """

    row: int | Fraction
    own: int | Fraction = 0
    port: str = ""
    leave: int = 1
    sums: str = ""


ONE_ROW = Pace(1)
"""A row in each clock."""


def sustained_pace(unit: MatrixUnit, mac_format: str) -> Fraction:
    """Return the clocks per streamed row that an array sustains by itself."""
    return Fraction(unit.formats[mac_format].cycles_per_row) / Fraction(str(unit.sustained))


def pace_of(roles: Roles, dtype: str, a_dtype: str, arrays: int = 1) -> Pace:
    """Return the unit's rate for the format, or what the buffers around it can feed and take.

    A buffer moves whole words of its width, several rows in one where they fit: of ``arrays`` at once, one row of each.
    Where an operand is stationary, a row of sums leaves for each streamed row; otherwise sums leave once per fold.
    """
    unit = roles.matrix
    own = sustained_pace(unit, dtype)
    together = max(1, int(1 / own))
    feed = nbytes(a_dtype, arrays * together * unit.rows)
    widths = {roles.activations: Fraction(-(-feed // roles.buffer(roles.activations).read_width), together)}
    sums_width, accumulate = roles.buffer(roles.sums).write_width, unit.formats[dtype].accumulate
    leave = 1
    if unit.flow.stationary:
        taken = Fraction(-(-nbytes(accumulate, arrays * together * unit.cols) // sums_width), together)
        widths[roles.sums] = max(taken, widths.get(roles.sums, taken))
    else:
        leave = -(-nbytes(accumulate, arrays * unit.cols) // sums_width)
    port, slowest = max(widths.items(), key=lambda item: item[1])
    port, slowest = (port, slowest) if slowest > own else ("", own)
    return Pace(_whole(slowest), _whole(own), port, leave, roles.sums if leave > 1 else "")


def _whole(pace: Fraction) -> int | Fraction:
    return int(pace) if pace.denominator == 1 else pace


def clocks(rows: Int, pace: Pace) -> Int:
    """Whole clocks in which ``rows`` streamed rows enter at a pace; integers or int64 arrays."""
    return -(-rows * pace.row.numerator // pace.row.denominator)


def packs(unit: MatrixUnit, groups: Count, tn: Count, tk: Count) -> Count:
    """Stationary tiles that so many small groups need: side by side on the diagonal of one, zeros elsewhere.

    Only weights that stay in place can be packed; a group that fills more than half of the rows or columns has a
    tile of its own. Takes integers or int64 arrays.
    """
    if unit.flow.still != "b":
        return groups
    together = np.maximum(1, np.minimum(unit.rows // np.asarray(tk), unit.cols // np.asarray(tn)))
    packed: Count = -(-groups // together)
    return packed


def folds(unit: MatrixUnit, groups: int, tm: int, tn: int, tk: int, pace: Pace) -> Folds:
    """Array work of one tile of these extents (see ``timing``). Rows that enter together count as one."""
    down, across, streamed = unit.flow.spatial(tm, tn, tk)
    count = -(-down // unit.rows) * -(-across // unit.cols)
    rows, own, cycles_per_row = streamed, ceil(streamed * pace.own), pace.row
    if not isinstance(cycles_per_row, int):
        rows, cycles_per_row = ceil(streamed * cycles_per_row), 1
    held = rows * cycles_per_row - own if pace.port else 0
    passes = int(packs(unit, groups, tn, tk)) * count
    return Folds(passes, rows, cycles_per_row, held, pace.port if held else "", pace.leave, pace.sums)


def b_elements(unit: MatrixUnit, groups: Count, tn: Count, tk: Count) -> Count:
    """Elements of a weight tile as it lies in memory: whole stationary tiles where the unit wants them padded."""
    if unit.tiled_weights:
        groups = packs(unit, groups, tn, tk)
    tn, tk = b_extent(unit, tn, tk)
    return groups * tn * tk


def b_extent(unit: MatrixUnit, tn: Count, tk: Count) -> tuple[Count, Count]:
    """Columns and rows that a weight tile takes in memory."""
    if unit.tiled_weights:
        return -(-tn // unit.cols) * unit.cols, -(-tk // unit.rows) * unit.rows
    return tn, tk
