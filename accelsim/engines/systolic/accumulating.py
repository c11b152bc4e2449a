"""The output-stationary array, edge by edge.

A moves right, B moves down, each PE accumulates its own output. After the last MAC of a column's bottom PE, all
sums of that column shift down one row whenever the port has taken the row before: each edge, if it takes a whole
row at once. A PE may start its new sum at the edge at which the last sum that has to pass through it (that of row 0)
moves on.
"""

from __future__ import annotations

import numpy as np

from accelsim.engines.systolic.fabric import FIRST, LAST, REAL, VALID, Batch, Fabric, Setup
from accelsim.engines.systolic.loading import hazard
from accelsim.types import Array, Bools, Ints


class AccumulatingArray(Fabric):
    """See the module. More public state: ``psum``, ``down`` (B registers) [n, R, C], ``drained`` [n, C]."""

    def __init__(self, batch: Batch, setup: Setup) -> None:
        super().__init__(batch, setup)
        n, R, C = batch.n, setup.rows, setup.cols
        self.overlapped = setup.schedule == "overlapped"
        self.psum, self.down = np.zeros((n, R, C), batch.dtype), np.zeros((n, R, C), batch.dtype)
        self.down_tok = np.zeros((n, R, C), np.uint8)
        self.col_fold, self.col_t = np.zeros((n, C), np.int64), np.zeros((n, C), np.int64)
        self.col_tok = np.zeros((n, C), np.uint8)
        self.col_in, self.col_on = np.zeros((n, 1, C), batch.dtype), np.zeros((n, 1, C), np.bool_)
        self.drained = np.zeros((n, C), np.int64)  # shift of the drain that comes next, 0: none
        self.claims = np.zeros((n, C), np.int64)  # words of the row in the bottom registers that are not taken yet
        self.busy = np.zeros((n, R, C), np.bool_)  # holds, or still has to pass on, a finished sum
        self.n_first, self.n_shift = np.zeros((n, R, C), np.int64), np.zeros((n, R, C), np.int64)

    @property
    def outputs_per_fold(self) -> Ints:
        """Words that leave each column per fold, [n]: one per PE row."""
        return np.full(self.batch.n, self.setup.rows)

    def may_start(self) -> Bools:
        """Return whether each sum of column 0 has moved on before the next fold's first row reaches its PE, [n]."""
        if not self.overlapped:
            return self.all_out()
        rows, words = self.setup.rows, self.setup.port_words
        shifts = (rows - self.drained[:, 0]) * -(-self.setup.cols // words)
        bottom_free = -(-self.claims[:, 0] // words) - 1 + shifts  # edges from this one
        latest = ~self.busy[:, 0, 0] | (self.drained[:, 0] == 1)  # it is the last fold whose sums leave
        moves_on: Bools = (self.drained[:, 0] > 0) & (bottom_free < rows) & latest
        return moves_on | ~self.busy[:, :, 0].any(axis=1)

    def place(self, along: Ints, place: Ints) -> tuple[Ints, Bools]:
        """Row of the result of each output, the bottom row first, and False: nothing is added to an earlier fold."""
        row = along * self.setup.rows + self.setup.rows - 1 - place
        return row, np.zeros(row.shape, np.bool_)

    def rows_out(self, case: Ints) -> Ints:
        """Rows of the result of each case: its spatial rows."""
        return self.batch.Sr[case]

    def step(self) -> None:
        """One clock edge: all registers sample what the others held before it."""
        self.stream()
        self._feed_columns()
        operand, token = self.sampled()
        down = np.concatenate((self.col_in, self.down[:, :-1]), axis=1)
        down_tok = np.concatenate((self.col_tok[:, None], self.down_tok[:, :-1]), axis=1)
        valid, first = (token & VALID).astype(bool), (token & FIRST).astype(bool)
        hazard(((token ^ down_tok) & VALID).astype(bool), self.edge, "MAC", "operand", "not in step")
        shifts, released = self._drain()
        hazard(valid & self.busy & ~released, self.edge, "MAC", "sum", "not drained yet")
        above = np.concatenate((self.psum[:, :1], self.psum[:, :-1]), axis=1)
        kept = np.where(shifts, above, self.psum)
        self.psum = np.where(valid, np.where(first, 0, self.psum) + operand * down, kept)
        self.moving, self.token, self.down, self.down_tok = operand, token, down, down_tok
        last = (token & LAST).astype(bool)
        self.busy = (self.busy & ~released) | last
        self._count(valid, first, shifts, (token & down_tok & REAL).astype(bool))
        self.collect(self.psum[:, -1], shifts[:, -1] | last[:, -1])
        self._continue_drain(last[:, -1])

    def _feed_columns(self) -> None:
        """Column ports sample B, column j one edge after column j - 1; the control is that of row 0."""
        batch, C = self.batch, self.setup.cols
        entering: tuple[Array, ...] = (self.row_fold[:, 0], self.row_t[:, 0], self.row_tok[:, 0] & ~REAL)
        control: tuple[Array, ...] = (self.col_fold, self.col_t, self.col_tok)
        for registers, value in zip(control, entering, strict=True):
            registers[:, 1:] = registers[:, :-1].copy()
            registers[:, 0] = value
        on = (self.col_tok & VALID).astype(bool)
        index = (self.col_fold // batch.Fr[:, None]) * C + self.col_index
        word = batch.col_operand[self.cases, np.where(on, self.col_t, 0), np.where(on, index, 0)]
        real = on & (index < batch.Sc[:, None])
        self.col_in, self.col_on = np.where(on, word, 0)[:, None], on[:, None]
        self.col_tok = (self.col_tok & ~REAL) | np.where(real, REAL, np.uint8(0))
        self.n_col += on
        self.n_col_real += real

    def _drain(self) -> tuple[Bools, Bools]:
        """PEs that take the sum from above at this edge, and PEs whose last sum moves on at it."""
        self.claims = np.maximum(0, self.claims - self.setup.port_words)
        row, shift = self.row_index[None, :, None], self.drained[:, None]
        moves = (shift > 0) & (self.claims == 0)[:, None]
        return moves & (row >= shift), moves & (row == shift - 1)

    def _continue_drain(self, bottom_done: Bools) -> None:
        moved = (self.drained > 0) & (self.claims == 0)
        last = moved & (self.drained == self.setup.rows)
        self.claims = np.where(bottom_done | (moved & ~last), self.setup.cols, self.claims)
        shift = np.where(last, 0, self.drained + moved)
        self.drained = np.where(bottom_done, 1, shift)

    def _count(self, valid: Bools, first: Bools, shifts: Bools, real: Bools) -> None:
        self.n_mac += valid
        self.n_first += first
        self.n_shift += shifts
        self.n_real += valid & real

    def counts(self) -> dict[str, Ints]:
        """See :class:`accelsim.engines.systolic.counts.Counts`."""
        axes = (1, 2)
        slots, shifts = self.n_mac.sum(axis=axes), self.n_shift.sum(axis=axes)
        none = np.zeros_like(slots)
        moved = self.n_mac[:, :, 1:].sum(axis=axes) + self.n_mac[:, 1:].sum(axis=axes)
        return self.common_counts() | {
            "moving_reads": moved,
            "moving_writes": 2 * slots,
            "stationary_reads": none,
            "stationary_writes": none,
            "shadow_reads": none,
            "shadow_writes": none,
            "psum_reads": slots - self.n_first.sum(axis=axes) + shifts + self.outputs.sum(axis=1),
            "psum_writes": slots + shifts,
        }
