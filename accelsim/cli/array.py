"""``accelsim array``: one matrix product on a systolic array alone, or a CSV file of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, check_file_target, flag, option, whole_list, width
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.errors import Gather, UsageError, count_of
from accelsim.report.answer import Answer

ENERGY = "energy/horowitz-45nm"
"""The energy table of an array that belongs to no chip."""


@answers(
    "accelsim array --rows 128 --cols 128 --dataflow ws --schedule overlapped 512 1024 768",
    "accelsim array --rows 16 --cols 16 --dataflow ws,os,is 64 32 48",
    "accelsim array --rows 4 --cols 4 --watch --edge 8 5 4 4",
    "accelsim array --shapes shapes.csv --csv results.csv",
)
@click.argument("sizes", nargs=-1, type=click.IntRange(1), metavar="[M N K]")
@option("--rows", "Rows of PEs.", 128, least=1)
@option("--cols", "Columns of PEs.", 128, least=1)
@option("--dataflow", "What stays in the PEs; several are compared.", "ws", metavar=f"{'|'.join(DATAFLOWS)}[,...]")
@option("--schedule", "scalesim, sequential or overlapped.", "overlapped")
@option("--shadow-load", "column or diagonal.", "column")
@option("--energy", "Energy table for the array's accesses: a name or a YAML file.", ENERGY, metavar="TABLE")
@option("--dtype", "Format whose energies are read from that table.", "int8")
@flag("--watch", "Print every register at every clock edge (at most 64 PEs).")
@option("--edge", "With --watch: only this clock edge.", least=1)
@option(
    "--shapes given",
    "Many products: a CSV file with columns array_rows, array_cols, dataflow, schedule, gemm_M, gemm_N, gemm_K and, if "
    "you like, shadow_load.",
    type=FILE,
)
def array(
    gather: Gather, sizes: tuple[int, ...], given: Path | None, watch: bool, edge: int | None, **setup: Any
) -> Answer | None:
    """Cycles, folds, utilisation, every access and its energy of Y[M,N] = A[M,K] x B[K,N] on an array of PEs.

    A, B and Y move and stay as the dataflow says; the memories always deliver in time.
    """
    if given is not None:
        _many(given, sizes or watch)
        return None
    if len(sizes) != 3:
        raise UsageError(f"{len(sizes)} sizes", expected="three: M N K, or --shapes FILE --csv FILE")
    if edge is not None and not watch:
        raise UsageError("--edge without --watch", expected="both")
    gather.done()
    from accelsim.report.array import side_by_side, watched

    names = whole_list(setup.pop("dataflow"))
    if watch:
        return watched(sizes, names, setup, edge, width())
    return side_by_side(sizes, names, **setup)


def _many(given: Path, more: object) -> None:
    from accelsim.engines.systolic.sweep import read_rows, table, write_rows

    asked = click.get_current_context().params
    if asked["csv"] is None:
        raise UsageError("--shapes without --csv", expected="--csv FILE, where the results go")
    if more or asked["json"]:
        raise UsageError("M N K, --watch or --json beside --shapes", expected="the shapes in the file only")
    check_file_target(asked["csv"])
    rows = table(read_rows(given))
    write_rows(asked["csv"], rows)
    click.echo(f"{count_of(len(rows), 'row')}: {asked['csv']}")
