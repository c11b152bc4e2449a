"""What a tile of a product is on an array: its folds, and the stationary tiles that its weights fill."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from accelsim.engines.systolic.pace import Pace
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.program.commands import Folds


def packs(unit: MatrixUnit, groups: Any, tn: Any, tk: Any) -> Any:
    """Stationary tiles that so many small groups need: side by side on the diagonal of one, zeros elsewhere.

    Only weights that stay in place can be packed; a group that fills more than half of the rows or columns has a
    tile of its own. Takes integers or int64 arrays.
    """
    if unit.flow.still != "b":
        return groups
    together = np.maximum(1, np.minimum(unit.rows // np.asarray(tk), unit.cols // np.asarray(tn)))
    return -(-groups // together)


def folds(unit: MatrixUnit, groups: int, tm: int, tn: int, tk: int, pace: Pace) -> Folds:
    """Array work of one tile, see ``timing``. Rows that enter together count as one."""
    down, across, streamed = unit.flow.spatial(tm, tn, tk)
    count = -(-down // unit.rows) * -(-across // unit.cols)
    rows, own, cycles_per_row = streamed, ceil(streamed * pace.own), pace.row
    if not isinstance(cycles_per_row, int):
        rows, cycles_per_row = ceil(streamed * cycles_per_row), 1
    held = rows * cycles_per_row - own if pace.port else 0
    passes = int(packs(unit, groups, tn, tk)) * count
    return Folds(passes, rows, cycles_per_row, held, pace.port if held else "", pace.leave, pace.sums)


def b_elements(unit: MatrixUnit, groups: Any, tn: Any, tk: Any) -> Any:
    """Elements of a weight tile as it lies in memory: whole stationary tiles where the unit wants them padded."""
    if unit.tiled_weights:
        groups = packs(unit, groups, tn, tk)
    tn, tk = b_extent(unit, tn, tk)
    return groups * tn * tk


def b_extent(unit: MatrixUnit, tn: Any, tk: Any) -> tuple[Any, Any]:
    """Columns and rows that a weight tile takes in memory."""
    if unit.tiled_weights:
        return -(-tn // unit.cols) * unit.cols, -(-tk // unit.rows) * unit.rows
    return tn, tk
