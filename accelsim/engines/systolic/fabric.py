"""Base of all systolic arrays: input ports, registers of moving operands, output ports.

A batch of ``n`` GEMMs of any sizes runs side by side on ``n`` arrays of R x C PEs, one clock edge at a time;
each has its own control. Tokens travel with the operands and are all that a PE knows. Folds run with the
index along the spatial rows innermost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.loading import hazard
from accelsim.engines.systolic.timing import folds
from accelsim.types import Array, Bools, Ints

Bits = NDArray[np.uint8]

VALID, FIRST, LAST, REAL = (np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8))
"""Token bits: an operand is there; the first, the last of its fold; a word, not the padding of a fold."""


@dataclass(frozen=True)
class Setup:
    """Array and schedule of a batch; the fields are those of :func:`accelsim.engines.systolic.timing.fold_timing`."""

    rows: int
    cols: int
    dataflow: str
    schedule: str
    shadow_load: str = "column"
    load_rows_per_clock: int = 1
    min_interval: int = 0
    sum_words: int = 0
    """Words that the buffer of the sums takes per edge; 0: a whole row of them."""

    @property
    def port_words(self) -> int:
        """Words that the port of the sums takes per edge, at most a row."""
        return min(self.sum_words or self.cols, self.cols)


def stacked(matrices: Sequence[Array], rows: int, cols: int) -> Array:
    """Matrices of different sizes in one array [n, rows, cols], zeros where a matrix is smaller."""
    out = np.zeros((len(matrices), rows, cols), np.result_type(*matrices))
    for index, matrix in enumerate(matrices):
        out[index, : matrix.shape[0], : matrix.shape[1]] = matrix
    return out


class Batch:
    """Operands of a batch as the ports see them, and the sizes of each case, int64 [n].

    ``row_operand`` [n, T, rows of all folds] is what the row ports are fed, ``col_operand`` [n, rows of all
    folds or T, columns of all folds] the column ports; both end in the padding of partial folds.
    """

    def __init__(self, a: Sequence[Array], b: Sequence[Array], setup: Setup) -> None:
        R, C = setup.rows, setup.cols
        self.flow = flow = DATAFLOWS[setup.dataflow]
        M = np.array([matrix.shape[0] for matrix in a], np.int64)
        N = np.array([matrix.shape[1] for matrix in b], np.int64)
        K = np.array([matrix.shape[0] for matrix in b], np.int64)
        self.Sr, self.Sc, self.T = flow.spatial(M, N, K)
        self.Fr, self.Fc = folds(R, C, setup.dataflow, M, N, K)
        self.F = self.Fr * self.Fc
        self.n, tall, wide, long = len(a), int(self.Fr.max()) * R, int(self.Fc.max()) * C, int(self.T.max())
        fed = [flow.ports(x, y) for x, y in zip(a, b, strict=True)]
        self.row_operand = stacked([row for row, _ in fed], long, tall)
        self.col_operand = stacked([col for _, col in fed], tall if flow.stationary else long, wide)
        self.dtype = np.result_type(self.row_operand, self.col_operand)
        self.result = np.zeros((self.n, long if flow.stationary else tall, wide), self.dtype)

    def products(self) -> list[Array]:
        """Y[M,N] of each case, out of the accumulators."""
        height = self.T if self.flow.stationary else self.Sr
        return [self.flow.product(self.result[i, : height[i], : self.Sc[i]]) for i in range(self.n)]


class Fabric(ABC):
    """Ports, row skew and the registers that move operands to the right, of ``n`` arrays; one call per edge.

    Public state, for those who watch: ``edge``; ``row_in``, ``row_tok`` [n, R] and ``col_in``, ``col_on``
    [n, lanes, C] at the ports; ``moving``, ``token`` [n, R, C] after the edge; ``out``, ``out_on`` [n, C].
    """

    col_in: Array
    col_on: Bools

    def __init__(self, batch: Batch, setup: Setup) -> None:
        n, R, C = batch.n, setup.rows, setup.cols
        self.batch, self.setup, self.edge = batch, setup, 0
        self.cases, self.row_index, self.col_index = np.arange(n)[:, None], np.arange(R), np.arange(C)
        self.fold, self.t = np.full(n, -1), batch.T.copy()  # control: fold that streams, its rows so far
        self.since = np.full(n, setup.min_interval)
        self.row_fold, self.row_t = np.zeros((n, R), np.int64), np.zeros((n, R), np.int64)
        self.row_tok = np.zeros((n, R), np.uint8)
        self.row_in = np.zeros((n, R), batch.dtype)
        self.moving, self.token = np.zeros((n, R, C), batch.dtype), np.zeros((n, R, C), np.uint8)
        self.out, self.out_on = np.zeros((n, C), batch.dtype), np.zeros((n, C), np.bool_)
        self.outputs = np.zeros((n, C), np.int64)
        self.port_left = np.zeros(n, np.int64)  # words of a row of sums that the port has still to take
        self.claimed = np.zeros(n, np.int64)  # the same at the entrance: words that the last row will bring
        self.finished = np.zeros(n, np.int64)
        self._start_counters(n, R, C)

    def _start_counters(self, n: int, R: int, C: int) -> None:
        self.n_mac, self.n_real = np.zeros((n, R, C), np.int64), np.zeros((n, R, C), np.int64)
        self.n_row, self.n_row_real = np.zeros((n, R), np.int64), np.zeros((n, R), np.int64)
        self.n_col, self.n_col_real = np.zeros((n, C), np.int64), np.zeros((n, C), np.int64)
        self.n_out_real, self.n_accumulate = np.zeros((n, C), np.int64), np.zeros((n, C), np.int64)

    @property
    @abstractmethod
    def outputs_per_fold(self) -> Ints:
        """Words that leave each column per fold, [n]."""

    @abstractmethod
    def may_start(self) -> Bools:
        """Return whether the hardware lets the next fold start to stream at this edge, [n]."""

    @abstractmethod
    def step(self) -> None:
        """Advance all registers by one clock edge."""

    @abstractmethod
    def counts(self) -> dict[str, Ints]:
        """Accesses so far by name, [n] each, out of the counters of the registers and ports."""

    def running(self) -> bool:
        """Return whether any output is still missing."""
        missing = self.outputs < (self.batch.F * self.outputs_per_fold)[:, None]
        return bool(missing.any() or self.port_left.any())

    def all_out(self) -> Bools:
        """Return whether the port has taken every output of the folds that were started, [n]."""
        done: Bools = self.outputs.min(axis=1) >= (self.fold + 1) * self.outputs_per_fold
        done &= self.port_left == 0
        return done

    def stream(self) -> None:
        """Control at one edge: start a fold as early as the hardware lets it, feed row 0, skew the others."""
        batch = self.batch
        self.edge += 1
        self.since += 1
        self.claimed = np.maximum(0, self.claimed - self.setup.port_words)
        start = (self.t >= batch.T) & (self.fold + 1 < batch.F) & (self.claimed == 0)
        start &= (self.since > self.setup.min_interval) & self.may_start()
        self.fold, self.t = self.fold + start, np.where(start, 0, self.t)
        self.since = np.where(start, 1, self.since)
        on = (self.t < batch.T) & (self.claimed == 0)
        if batch.flow.stationary:
            self.claimed += np.where(on, self.setup.cols, 0)
        bits = np.where(on, VALID, np.uint8(0)) | np.where(start, FIRST, np.uint8(0))
        bits |= np.where(on & (self.t == batch.T - 1), LAST, np.uint8(0))
        for registers, entering in ((self.row_fold, self.fold), (self.row_t, self.t), (self.row_tok, bits)):
            registers[:, 1:] = registers[:, :-1].copy()
            registers[:, 0] = entering
        self.t = self.t + on
        self._feed_rows()

    def _feed_rows(self) -> None:
        """Each row port samples the word that its token names."""
        batch = self.batch
        index = (self.row_fold % batch.Fr[:, None]) * self.setup.rows + self.row_index
        on = (self.row_tok & VALID).astype(bool)
        self.row_in = batch.row_operand[self.cases, np.where(on, self.row_t, 0), np.where(on, index, 0)]
        real = on & (index < batch.Sr[:, None])
        self.row_tok = (self.row_tok & ~REAL) | np.where(real, REAL, np.uint8(0))
        self.n_row += on
        self.n_row_real += real

    def sampled(self) -> tuple[Array, Bits]:
        """Return what every PE samples from its left at this edge: operands and tokens, [n, R, C]."""
        operand = np.concatenate((self.row_in[:, :, None], self.moving[:, :, :-1]), axis=2)
        token = np.concatenate((self.row_tok[:, :, None], self.token[:, :, :-1]), axis=2)
        return operand, token

    def collect(self, value: Array, on: Bools) -> None:
        """After this edge the bottom registers hold outputs ``value`` [n, C] where ``on``; sum them up."""
        self.out, self.out_on = value, on
        self._write(on[:, -1])
        case, column = np.nonzero(on)
        if not case.size:
            return
        batch, order, each = self.batch, self.outputs[case, column], self.outputs_per_fold[case]
        fold, place = order // each, order % each
        across, along = fold // batch.Fr[case], fold % batch.Fr[case]
        target = across * self.setup.cols + column
        row, adds = self.place(along, place)
        self.outputs[case, column] += 1
        real = (target < batch.Sc[case]) & (row < self.rows_out(case))
        where = (case[real], row[real], target[real])
        adds = adds[real]
        batch.result[where] = np.where(adds, batch.result[where], 0) + value[case, column][real]
        self.n_out_real[case, column] += real
        self.n_accumulate[case[real], column[real]] += adds

    def _write(self, complete: Bools) -> None:
        """The port takes the words of a row once the last column has its own; rows must not catch up with it."""
        late = complete & (self.port_left > 0)
        hazard(late[:, None, None], self.edge, "output", "port of the sums", "the row before is not written yet")
        left = np.where(complete, self.setup.cols, self.port_left)
        self.finished = np.where(left > 0, self.edge, self.finished)
        self.port_left = np.maximum(0, left - self.setup.port_words)

    @abstractmethod
    def place(self, along: Ints, place: Ints) -> tuple[Ints, Bools]:
        """Row of the result that output ``place`` of fold ``along`` the rows belongs to, whether it adds."""

    @abstractmethod
    def rows_out(self, case: Ints) -> Ints:
        """Rows of the result of each case; further ones are padding."""

    def common_counts(self) -> dict[str, Ints]:
        """Accesses, [n] each, that are counted alike for every dataflow."""
        macs, slots = self.n_real.sum(axis=(1, 2)), self.n_mac.sum(axis=(1, 2))
        words, outputs = self.n_row_real.sum(axis=1), self.n_out_real.sum(axis=1)
        weights = self.n_col_real.sum(axis=1)
        return {
            "macs": macs,
            "mac_padding": slots - macs,
            "row_words": words,
            "row_padding": self.n_row.sum(axis=1) - words,
            "col_words": weights,
            "col_padding": self.n_col.sum(axis=1) - weights,
            "output_words": outputs,
            "output_padding": self.outputs.sum(axis=1) - outputs,
            "accumulator_reads": self.n_accumulate.sum(axis=1),
            "accumulator_writes": outputs,
        }
