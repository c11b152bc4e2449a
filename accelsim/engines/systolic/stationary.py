"""The array that holds one operand still (ws and is), edge by edge.

The stationary operand enters from the top, the other moves right, partial sums move down. 'sequential' shifts
the stationary operand through the registers that are multiplied; 'overlapped' shifts it through shadow
registers, and a token with the first streamed row of a fold makes each PE take over its shadow word and
use it at that very edge.
"""

from __future__ import annotations

import numpy as np

from accelsim.engines.systolic.fabric import FIRST, REAL, VALID, Batch, Fabric, Setup
from accelsim.engines.systolic.loading import Chain, Loads, Path, Wave, hazard
from accelsim.engines.systolic.spec import SHADOW_LOADS
from accelsim.types import Array, Bools, Ints


class StationaryArray(Fabric):
    """See the module. More public state: ``psum``, ``held`` [n, R, C], ``path`` (registers of the load)."""

    def __init__(self, batch: Batch, setup: Setup) -> None:
        super().__init__(batch, setup)
        n, R, C, lanes = batch.n, setup.rows, setup.cols, setup.load_rows_per_clock
        self.overlapped = setup.schedule == "overlapped"
        self.awaited = int(SHADOW_LOADS[setup.shadow_load](R))  # PEs of a column that swap before it may load
        path = Wave if self.overlapped and self.awaited < R and lanes > 1 else Chain
        self.path: Path = path(n, R, C, lanes, batch.dtype)
        self.loads = Loads(n, C, self.path.steps)
        self.free = np.ones((n, C), np.bool_)  # the column may begin to load
        self.psum = np.zeros((n, R, C), batch.dtype)
        self.held, self.held_real = np.zeros((n, R, C), batch.dtype), np.zeros((n, R, C), np.bool_)
        self.n_swap = np.zeros((n, R, C), np.int64)
        self.col_in = np.zeros((n, lanes, C), batch.dtype)
        self.col_on = np.zeros((n, lanes, C), np.bool_)

    @property
    def outputs_per_fold(self) -> Ints:
        """Words that leave each column per fold, [n]: one per streamed row."""
        return self.batch.T

    def may_start(self) -> Bools:
        """Return whether column 0 holds the next fold's words, [n]; the columns to its right need theirs later."""
        return self.loads.ready(self.fold + 1)

    def place(self, along: Ints, place: Ints) -> tuple[Ints, Bools]:
        """Row of the result of each output, as rows stream, and whether it adds to the first fold along K."""
        return place, along > 0

    def rows_out(self, case: Ints) -> Ints:
        """Rows of the result of each case: its streamed rows."""
        return self.batch.T[case]

    def step(self) -> None:
        """One clock edge: all registers sample what the others held before it."""
        self.stream()
        operand, token = self.sampled()
        valid, swap = (token & VALID).astype(bool), (token & FIRST).astype(bool)
        multiplied, real = self._stationary(valid, swap)
        above = np.concatenate((np.zeros_like(self.psum[:, :1]), self.psum[:, :-1]), axis=1)
        self._load(swap)
        self.psum = above + operand * multiplied
        self.moving, self.token = operand, token
        self.n_mac += valid
        self.n_real += valid & real & (token & REAL).astype(bool)
        self.n_swap += swap
        self.collect(self.psum[:, -1], valid[:, -1])

    def _stationary(self, valid: Bools, swap: Bools) -> tuple[Array, Bools]:
        """Words that the PEs multiply at this edge, and which of them are real."""
        needs = swap if self.overlapped else valid
        hazard(needs & ~self.path.full, self.edge, "MAC", "stationary word", "a load that is still on its way")
        if not self.overlapped:
            return self.path.value, self.path.real
        self.held = np.where(swap, self.path.value, self.held)
        self.held_real = np.where(swap, self.path.real, self.held_real)
        return self.held, self.held_real

    def _load(self, swap: Bools) -> None:
        """Begin loads as early as the rule of the schedule lets each column, and move the words on."""
        if not self.overlapped:
            self.free = self.all_out()[:, None] & (self.loads.fold == self.fold[:, None])
        elif not self.awaited:
            self.free |= swap[:, 0]
        step, active, begin = self.loads.advance(self.free, self.batch.F)
        self._enter(step, active, swap if self.overlapped else np.broadcast_to(begin[:, None], swap.shape))
        self.free &= ~begin
        if self.overlapped and self.awaited:
            self.free |= swap[:, self.awaited - 1]

    def _enter(self, step: Ints, active: Bools, release: Bools) -> None:
        """The column ports sample this edge's words."""
        batch, R, C = self.batch, self.setup.rows, self.setup.cols
        row = self.path.destination(step)
        on = active[:, None] & (row < R)
        fold = np.where(active, self.loads.fold, 0)
        along, across = fold % batch.Fr[:, None], fold // batch.Fr[:, None]
        index = along[:, None] * R + np.where(on, row, 0)
        column = np.broadcast_to((across * C + self.col_index)[:, None], index.shape)
        word = batch.col_operand[self.cases[:, :, None], index, column]
        real = on & (index < batch.Sr[:, None, None]) & (column < batch.Sc[:, None, None])
        self.col_in, self.col_on = np.where(on, word, 0), on
        self.path.shift(self.col_in, real, np.where(on, row, -1), release, self.edge)
        self.n_col += on.sum(axis=1)
        self.n_col_real += real.sum(axis=1)

    def counts(self) -> dict[str, Ints]:
        """See :class:`accelsim.engines.systolic.counts.Counts`."""
        axes = (1, 2)
        slots, swaps = self.n_mac.sum(axis=axes), self.n_swap.sum(axis=axes)
        shift_reads, shift_writes = self.path.n_read.sum(axis=axes), self.path.n_write.sum(axis=axes)
        none = np.zeros_like(slots)
        seen = self.overlapped
        return self.common_counts() | {
            "moving_reads": self.n_mac[:, :, 1:].sum(axis=axes),
            "moving_writes": slots,
            "stationary_reads": slots - swaps if seen else slots + shift_reads,
            "stationary_writes": swaps if seen else shift_writes,
            "shadow_reads": shift_reads + swaps if seen else none,
            "shadow_writes": shift_writes if seen else none,
            "psum_reads": self.n_mac[:, 1:].sum(axis=axes) + self.outputs.sum(axis=1),
            "psum_writes": slots,
        }
