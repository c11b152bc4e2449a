"""Closed forms of every access that one GEMM causes on a systolic array.

They are proven equal, count by count, to the instrumentation of the register-level model in
:mod:`accelsim.engines.systolic.registers`, where each count is taken at the edge at which the access happens.
Everything takes plain integers or int64 arrays that broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Generic, NamedTuple

from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.spec import SHADOW_LOADS
from accelsim.engines.systolic.timing import folds, spatial
from accelsim.errors import known
from accelsim.types import Int


@dataclass(frozen=True)
class Counts(Generic[Int]):
    """Accesses of one GEMM, in words, over all folds; 'padding' is what partial folds add to fill the array.

    A register is written at the edge at which it takes a new value and read when another element samples it.
    An operand that a PE multiplies is sampled from its left (or upper) neighbour, so that is a read of the
    neighbour's register, or of the input port in the first column (or row); nothing reads the last one.

    * ``macs``: products of the GEMM; ``mac_padding``: further PE and edge pairs that a fold occupies.
    * ``row_words``, ``row_padding``: words sampled at the row ports (ws, os: A; is: B). Padding is a zero,
      not read from a memory.
    * ``col_words``, ``col_padding``: words sampled at the column ports (ws, os: B; is: A).
    * ``moving_*``: registers through which operands move: right, and in os also down.
    * ``stationary_*``: the register of the stationary operand; 'sequential' loads by shifting through it.
    * ``shadow_*``: 'overlapped' loads through these instead, and a swap reads the shadow register, writes the
      stationary one, and multiplies what it read. Registers on the way down to a PE count here as well.
    * ``psum_*``: partial sums. The last read is that of the output port. In os a PE reads its own sum at
      every MAC but the first of a fold, and results that shift down are read and written once per row.
    * ``output_words``, ``output_padding``: words that leave through the ports at the bottom.
    * ``accumulator_writes``: one per output word; ``accumulator_reads``: what a fold beyond the first along K
      adds to (never in os, where a PE holds its sum over all of K).
    """

    macs: Int
    mac_padding: Int
    row_words: Int
    row_padding: Int
    col_words: Int
    col_padding: Int
    moving_reads: Int
    moving_writes: Int
    stationary_reads: Int
    stationary_writes: Int
    shadow_reads: Int
    shadow_writes: Int
    psum_reads: Int
    psum_writes: Int
    output_words: Int
    output_padding: Int
    accumulator_reads: Int
    accumulator_writes: Int

    def as_dict(self) -> dict[str, Int]:
        """Field name -> count, in the order of declaration."""
        return {name: getattr(self, name) for name in COUNTS}


COUNTS: tuple[str, ...] = tuple(field.name for field in fields(Counts))
"""Names of all counts."""


def counts(
    rows: Int | int,
    cols: Int | int,
    dataflow: str,
    schedule: str,
    M: Int,
    N: Int,
    K: Int,
    *,
    shadow_load: str = "column",
    load_rows_per_clock: int = 1,
) -> Counts[Int]:
    """Every access of one GEMM on ``rows`` x ``cols`` PEs.

    'scalesim' has no registers of its own and counts as 'sequential'; what SCALE-Sim reports is
    :func:`scalesim_report`. Raises UsageError for an unknown dataflow.
    """
    R, C = rows, cols
    Sr, Sc, T = spatial(dataflow, M, N, K)
    Fr, Fc = folds(rows, cols, dataflow, M, N, K)
    F = Fr * Fc
    common: dict[str, Int] = {
        "macs": M * N * K,
        "mac_padding": F * R * C * T - M * N * K,
        "row_words": Fc * Sr * T,
        "row_padding": (F * R - Fc * Sr) * T,
    }
    if DATAFLOWS[dataflow].stationary:
        overlapped = schedule == "overlapped"
        awaited = SHADOW_LOADS[known("shadow load", shadow_load, SHADOW_LOADS)](R)
        wave = awaited < R if overlapped else False
        chain = F * C * _load_writes(R, load_rows_per_clock, wave=wave)
        rest = _with_stationary(R, C, Sr, Sc, T, Fr, F, chain, overlapped=overlapped)
    else:
        rest = _without_stationary(R, C, Sr, Sc, T, Fr, F)
    return Counts(**common, **rest)


def _with_stationary(
    R: Int | int, C: Int | int, Sr: Int, Sc: Int, T: Int, Fr: Int, F: Int, chain: Int, *, overlapped: bool
) -> dict[str, Int]:
    slots, weights, outputs = F * R * C * T, F * R * C, Fr * Sc * T
    shifted = chain - weights  # chain writes that read another register, not the port
    return {
        "col_words": Sr * Sc,
        "col_padding": weights - Sr * Sc,
        "moving_reads": F * R * (C - 1) * T,
        "moving_writes": slots,
        "stationary_reads": slots - weights if overlapped else slots + shifted,
        "stationary_writes": weights if overlapped else chain,
        "shadow_reads": shifted + weights if overlapped else 0 * F,
        "shadow_writes": chain if overlapped else 0 * F,
        "psum_reads": slots,
        "psum_writes": slots,
        "output_words": outputs,
        "output_padding": F * C * T - outputs,
        "accumulator_reads": (Fr - 1) * Sc * T,
        "accumulator_writes": outputs,
    }


def _without_stationary(R: Int | int, C: Int | int, Sr: Int, Sc: Int, T: Int, Fr: Int, F: Int) -> dict[str, Int]:
    slots = F * R * C * T
    sums = slots + F * C * (R * (R - 1) // 2)  # shifting out moves the sum of row i through R - 1 - i rows
    return {
        "col_words": Fr * Sc * T,
        "col_padding": F * C * T - Fr * Sc * T,
        "moving_reads": F * T * (R * (C - 1) + (R - 1) * C),
        "moving_writes": 2 * slots,
        "stationary_reads": 0 * F,
        "stationary_writes": 0 * F,
        "shadow_reads": 0 * F,
        "shadow_writes": 0 * F,
        "psum_reads": sums,
        "psum_writes": sums,
        "output_words": Sr * Sc + 0 * F,
        "output_padding": F * R * C - Sr * Sc,
        "accumulator_reads": 0 * F,
        "accumulator_writes": Sr * Sc + 0 * F,
    }


def _load_writes(R: Any, p: int, *, wave: Any) -> Any:
    whole, rest = R // p, R % p
    chain = R + p * (whole * (whole - 1) // 2) + rest * whole
    return chain + wave * (R * (R + 1) // 2 - chain)


class Hops(NamedTuple):
    """Words that go from one PE to the next, a word once per step of its way; ports at the edges are no hops.

    ``operands``: moving operands, and stationary ones on the way to their row. ``sums``: partial sums.
    """

    operands: Any
    sums: Any


def hops(dataflow: str, found: Counts[Int]) -> Hops:
    """The hops that are part of the register accesses in ``found``, the counts of the same dataflow.

    Every one of them is the read of a register by a neighbour, so what a PE reads of itself (its stationary
    operand, in os its sum) and what leaves through a port at the bottom is taken off.
    """
    products = found.macs + found.mac_padding
    if not DATAFLOWS[dataflow].stationary:
        return Hops(found.moving_reads, found.psum_reads - products)
    shifted = found.stationary_reads + found.shadow_reads - products
    return Hops(found.moving_reads + shifted, found.psum_reads - found.output_words - found.output_padding)
