"""Fold timing of a systolic array: one table for the discrete-event machine and for the closed forms.

All edges are clock edges, counted from 1: the first at which the array samples any operand. A GEMM
Y[M,N] = A[M,K] x B[K,N] is cut into folds of R spatial rows and C spatial columns; each fold streams T rows,
and partial folds run as full folds. The schedules 'sequential' and 'overlapped' are what the register-level
model of :mod:`accelsim.engines.systolic.registers` does; 'scalesim' is what SCALE-Sim 2.0.2 and 3.0.0 report.

Every function takes plain integers or int64 arrays that broadcast; dataflow and schedule are plain strings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.spec import SHADOW_LOADS
from accelsim.errors import known
from accelsim.types import Int


@dataclass(frozen=True)
class FoldTiming(Generic[Int]):
    """Edges of one fold on an R x C array; S = edge of the first streamed row, T = rows streamed.

    Fold f samples its first stationary operand at Lw(f); Lw(0) = 1, and S(f) >= Lw(f) + load ('os': load 0).
    """

    load: Int  # edges to shift the stationary operand in (0 for os)
    reload: Int  # Lw(f) >= S(f-1) + reload
    interval: Int  # S(f) >= S(f-1) + interval
    drain: Int  # last scheduled output present at S + T - 1 + drain

    @property
    def step(self) -> Int:
        """Edges from the first row of a fold to that of the next if only the array holds it up: S(f) - S(f-1)."""
        step: Int = _larger(self.interval, self.reload + self.load)
        return step


Rule = Callable[..., tuple[Any, ...]]
SCHEDULES: dict[str, tuple[Rule, Rule]] = {
    "scalesim": (
        lambda R, C, T, load, reload, leave: (0, 0, T + R + C - 2, R + C - 2),
        lambda R, C, T, load, reload, leave: (R, T + R + C - 2, T, R + C - 2),
    ),
    "sequential": (
        lambda R, C, T, load, reload, leave: (0, 0, T + R * leave + R + C - 3, R * leave + R + C - 3),
        lambda R, C, T, load, reload, leave: (load, T + R + C - 2, T, R + C - 2),
    ),
    "overlapped": (
        lambda R, C, T, load, reload, leave: (0, 0, T + R * leave - 1, R * leave + R + C - 3),
        lambda R, C, T, load, reload, leave: (load, reload(R), T, R + C - 2),
    ),
}
"""Schedule -> fields of ``FoldTiming`` without and with a stationary operand. ``reload``: edges until column 0 may load
the next weights, as a function of R."""


def fold_timing(
    rows: Int | int,
    cols: Int | int,
    dataflow: str,
    schedule: str,
    shadow_load: str,
    T: Int,
    load_rows_per_clock: int = 1,
    min_interval: int = 0,
    leave: int = 1,
) -> FoldTiming[Int]:
    """Timing of a fold that streams for ``T`` edges (rows x cycles per row) through ``rows`` x ``cols`` PEs.

    ``shadow_load`` only matters where the next weights are loaded behind a fold (overlapped ws and is).
    Of ``SHADOW_LOADS`` it is also the edges from S(f-1) until column 0 may load, since PEs swap one after the other.
    ``load_rows_per_clock``: stationary rows that enter per edge. ``min_interval``: edges that a fold occupies
    the array at the least. ``leave``: edges in which the buffer of the sums takes one row of them, which holds up
    the sums that leave at the end of a fold ('os'; where sums leave with each streamed row, ``T`` has it already).
    'scalesim' knows none of the three. Raises UsageError for an unknown name.
    """
    flow = DATAFLOWS[known("dataflow", dataflow, DATAFLOWS)]
    rule = SCHEDULES[known("schedule", schedule, SCHEDULES)][flow.stationary]

    def shadow(R: Any) -> Any:
        return SHADOW_LOADS[known("shadow load", shadow_load, SHADOW_LOADS)](R)

    load, reload, interval, drain = rule(rows, cols, T, -(-rows // load_rows_per_clock), shadow, leave)
    if schedule != "scalesim":
        interval = _larger(interval, min_interval)
    return FoldTiming(load, reload, interval, drain)


def spatial(dataflow: str, M: Int, N: Int, K: Int) -> tuple[Int, Int, Int]:
    """Spatial rows Sr, spatial columns Sc, streamed rows T. Raises UsageError for an unknown dataflow."""
    return DATAFLOWS[known("dataflow", dataflow, DATAFLOWS)].spatial(M, N, K)


def folds(rows: Int | int, cols: Int | int, dataflow: str, M: Int, N: Int, K: Int) -> tuple[Int, Int]:
    """Folds along the spatial rows and along the spatial columns; a GEMM takes their product."""
    spatial_rows, spatial_cols, _ = spatial(dataflow, M, N, K)
    return -(-spatial_rows // rows), -(-spatial_cols // cols)


def cycles(
    rows: Int | int,
    cols: Int | int,
    dataflow: str,
    schedule: str,
    shadow_load: str,
    M: Int,
    N: Int,
    K: Int,
    *,
    cycles_per_row: int = 1,
    load_rows_per_clock: int = 1,
    min_interval: int = 0,
    leave: int = 1,
) -> Int:
    """Cycles of one GEMM alone on the array: the edge of the last scheduled output.

    For 'scalesim' the figure that it reports: the index of the last cycle counted from 0, 1 less per layer.
    Sizes are at least 1. Raises UsageError for an unknown name.
    """
    T = spatial(dataflow, M, N, K)[2] * cycles_per_row
    fold = fold_timing(rows, cols, dataflow, schedule, shadow_load, T, load_rows_per_clock, min_interval, leave)
    along_rows, along_cols = folds(rows, cols, dataflow, M, N, K)
    last_start = 1 + fold.load + (along_rows * along_cols - 1) * fold.step
    return last_start + T - 1 + fold.drain - (1 if schedule == "scalesim" else 0)


def _larger(a: Int, b: Int | int) -> Int:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.maximum(a, b)
    return max(a, b)
