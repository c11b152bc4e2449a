"""What SCALE-Sim reports for a layer, from the closed forms of the systolic array."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Generic

from accelsim.engines.systolic.counts import counts
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.timing import cycles, folds, spatial
from accelsim.types import Int


@dataclass(frozen=True)
class ScalesimReport(Generic[Int]):
    """What SCALE-Sim 3.0.0 and 2.0.2 report for one layer: cycles, percentages, SRAM words.

    ``sram_ofmap_writes`` carries its os bug: R + C words too many per fold (issue 166 of its repository).
    """

    total_cycles: Int
    overall_util_pct: Any
    mapping_eff_pct: Any
    macs: Int
    sram_ifmap_reads: Int
    sram_filter_reads: Int
    sram_ofmap_writes: Int

    def as_dict(self) -> dict[str, Any]:
        """Column name -> figure, in the order of declaration."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def scalesim_report(rows: Int | int, cols: Int | int, dataflow: str, M: Int, N: Int, K: Int) -> ScalesimReport[Int]:
    """The figures that SCALE-Sim reports for one GEMM with unlimited bandwidth (so without stalls).

    Partial sums that a later fold reads again are never counted by it; :func:`counts` does.
    Raises UsageError for an unknown dataflow.
    """
    Sr, Sc, _ = spatial(dataflow, M, N, K)
    Fr, Fc = folds(rows, cols, dataflow, M, N, K)
    total = cycles(rows, cols, dataflow, "scalesim", "column", M, N, K)
    flow, found = DATAFLOWS[dataflow], counts(rows, cols, dataflow, "scalesim", M, N, K)
    ifmap, filters = flow.a_and_b(found.row_words, found.col_words)
    too_many = 0 if flow.stationary else Fr * Fc * (rows + cols)
    return ScalesimReport(
        total_cycles=total,
        overall_util_pct=100 * (M * N * K) / (total * rows * cols),
        mapping_eff_pct=100 * (Sr * Sc) / (Fr * Fc * rows * cols),
        macs=M * N * K,
        sram_ifmap_reads=ifmap,
        sram_filter_reads=filters,
        sram_ofmap_writes=found.output_words + too_many,
    )
