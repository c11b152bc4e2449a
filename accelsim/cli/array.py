"""``accelsim array``: one matrix product on a systolic array alone, or a CSV file of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accelsim.cli.answers import answers
from accelsim.cli.common import FILE, check_file_target, flag, option, paragraphs, whole_list, width
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.errors import Gather, UsageError, count_of
from accelsim.report.answer import Answer

ENERGY = "energy/horowitz-45nm"
"""The energy table of an array that belongs to no chip."""

MOST_EDGES = 2000
"""Clock edges that ``--watch`` prints at most."""


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
    "Many products: a CSV file with columns array_rows, array_cols, "
    "dataflow, schedule, gemm_M, gemm_N, gemm_K and, if you like, shadow_load.",
    type=FILE,
)
def array(
    gather: Gather, sizes: tuple[int, ...], given: Path | None, watch: bool, edge: int | None, **setup: Any
) -> Answer | None:
    """Cycles, folds, utilisation, every access and its energy of Y[M,N] = A[M,K] x B[K,N] on an array of PEs.

    A, B and Y move and stay as the dataflow says; the memories always deliver in time.
    """
    if given is not None:
        asked = click.get_current_context().params
        _many(given, asked["csv"], bool(sizes or watch or asked["json"]))
        return None
    if len(sizes) != 3:
        raise UsageError(f"{len(sizes)} sizes", expected="three: M N K, or --shapes FILE --csv FILE")
    if edge is not None and not watch:
        raise UsageError("--edge without --watch", expected="both")
    gather.done()
    names = whole_list(setup.pop("dataflow"))
    if not watch:
        return _side_by_side(sizes, names, setup)
    if len(names) != 1:
        raise UsageError(f"--watch with {len(names)} dataflows", "", "one of them")
    own = {key: value for key, value in setup.items() if key not in ("energy", "dtype")}
    _watch(sizes, {**own, "dataflow": names[0]}, edge)
    return None


def _many(given: Path, table: Path | None, more: bool) -> None:
    from accelsim.engines.systolic import sweep

    if table is None:
        raise UsageError("--shapes without --csv", expected="--csv FILE, where the results go")
    if more:
        what = "M N K, --watch or --json beside --shapes"
        raise UsageError(what, expected="the shapes in the file only")
    check_file_target(table)
    rows = sweep.table(sweep.read_rows(given))
    sweep.write_rows(table, rows)
    click.echo(f"{count_of(len(rows), 'row')}: {table}")


def _figures(sizes: tuple[int, ...], setup: dict[str, Any]) -> dict[str, Any]:
    from accelsim.engines.systolic.sweep import one

    M, N, K = sizes
    return one(setup["rows"], setup["cols"], setup["dataflow"], setup["schedule"], M, N, K, setup["shadow_load"])


def _side_by_side(sizes: tuple[int, ...], names: list[str], setup: dict[str, Any]) -> Answer:
    from accelsim.account.array_energy import array_energy_J
    from accelsim.report.array import side_by_side

    if not names:
        raise UsageError("no dataflow", "--dataflow", f"{', '.join(DATAFLOWS)}, or several of them")
    energy, dtype = setup.pop("energy"), setup.pop("dtype")
    records = []
    for name in names:
        result = _figures(sizes, {**setup, "dataflow": name})
        records.append({"dataflow": name, **result, **array_energy_J(name, result, energy, dtype)})
    M, N, K = sizes
    array = f"{setup['rows']} x {setup['cols']} PEs, {', '.join(names)}, {setup['schedule']}"
    heading = f"Y[{M},{N}] = A[{M},{K}] x B[{K},{N}] on {array}; energies of {energy}, {dtype}"
    return side_by_side(heading, records)


def _watch(sizes: tuple[int, ...], setup: dict[str, Any], edge: int | None) -> None:
    import numpy as np

    from accelsim.engines.systolic.fabric import Setup
    from accelsim.engines.systolic.watch import frames, legend

    M, N, K = sizes
    cycles = _figures(sizes, setup)["cycles"]
    if cycles > MOST_EDGES:
        raise UsageError(f"{cycles:,} cycles are too many to watch", expected=f"at most {MOST_EDGES:,}")
    machine = Setup(**setup)
    a = np.arange(1, M * K + 1).reshape(M, K)
    b = np.arange(1, K * N + 1).reshape(K, N)
    edges = list(frames(a, b, machine, max(width(), 40)))
    if edge is not None:
        if edge > len(edges):
            raise UsageError(f"--edge {edge}", expected=f"1 to {len(edges)}, the edges of this product")
        edges = [edges[edge - 1]]
    what = f"A[{M},{K}] and B[{K},{N}] count from 1, row by row; {legend(machine)}"
    click.echo(paragraphs([what]) + "\n")
    click.echo("\n".join(edges))
