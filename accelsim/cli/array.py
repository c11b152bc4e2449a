"""``accelsim array``: one matrix product on a systolic array alone, or a CSV file of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from accelsim.cli.common import FILE, OUT, check_file_target, example, show, width
from accelsim.errors import Problem, UsageError

MOST_EDGES = 2000
"""Clock edges that ``--watch`` prints at most."""


@click.command(epilog=example(
    "accelsim array --rows 128 --cols 128 --dataflow ws --schedule overlapped 512 1024 768",
    "accelsim array --rows 4 --cols 4 --watch 5 4 4",
    "accelsim array --csv shapes.csv --out results.csv",
))  # fmt: skip
@click.argument("sizes", nargs=-1, type=click.IntRange(1), metavar="[M N K]")
@click.option("--rows", type=click.IntRange(1), default=128, show_default=True, help="Rows of PEs.")
@click.option("--cols", type=click.IntRange(1), default=128, show_default=True, help="Columns of PEs.")
@click.option("--dataflow", default="ws", show_default=True, help="What stays in the PEs: ws, os or is.")
@click.option(
    "--schedule", default="overlapped", show_default=True, help="scalesim, sequential or overlapped."
)
@click.option("--shadow-load", default="column", show_default=True, help="column or diagonal.")
@click.option("--watch", is_flag=True, help="Print every register at every clock edge (at most 64 PEs).")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--csv", "table", type=FILE, help="Shapes: columns array_rows, array_cols, "
              "dataflow, schedule, gemm_M, gemm_N, gemm_K and, if you like, shadow_load.")  # fmt: skip
@click.option("--out", type=OUT, help="Where the results of --csv go.")
def array(
    sizes: tuple[int, ...], table: Path | None, out: Path | None, watch: bool, as_json: bool, **setup: Any
) -> None:
    """Cycles, folds, utilisation and every access of Y[M,N] = A[M,K] x B[K,N] on an array of PEs.

    A, B and Y move and stay as the dataflow says; the memories always deliver in time.
    """
    if (table is None) != (out is None):
        raise UsageError(Problem("--csv and --out belong together", expected="both, or neither"))
    if table is not None and out is not None:
        if sizes or watch or as_json:
            raise UsageError(
                Problem("M N K, --watch or --json beside --csv", expected="the shapes in the file only")
            )
        _many(table, out)
        return
    if len(sizes) != 3:
        raise UsageError(Problem(f"{len(sizes)} sizes", expected="three: M N K, or --csv FILE --out FILE"))
    if watch:
        _watch(sizes, setup)
    else:
        _one(sizes, setup, as_json)


def _many(table: Path, out: Path) -> None:
    from accelsim.array import sweep

    check_file_target(out)
    rows = sweep.table(sweep.read_rows(table))
    sweep.write_rows(out, rows)
    click.echo(f"{len(rows):,} rows: {out}")


def _figures(sizes: tuple[int, ...], setup: dict[str, Any]) -> dict[str, Any]:
    from accelsim.array.sweep import one

    M, N, K = sizes
    return one(
        setup["rows"], setup["cols"], setup["dataflow"], setup["schedule"], M, N, K, setup["shadow_load"]
    )


def _one(sizes: tuple[int, ...], setup: dict[str, Any], as_json: bool) -> None:
    from accelsim.report.table import text_table

    M, N, K = sizes
    result = _figures(sizes, setup)
    if as_json:
        click.echo(json.dumps(result, indent=2))
        return
    rows = [
        (_words(name), f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
        for name, value in result.items()
    ]
    array = f"{setup['rows']} x {setup['cols']} PEs, {setup['dataflow']}, {setup['schedule']}"
    click.echo(f"Y[{M},{N}] = A[{M},{K}] x B[{K},{N}] on {array}")
    show(text_table(["figure", "value"], rows, width()))


def _words(name: str) -> str:
    """A column name as one reads it: 'utilisation_pct' becomes 'utilisation, %'."""
    return name.removesuffix("_pct").replace("_", " ") + (", %" if name.endswith("_pct") else "")


def _watch(sizes: tuple[int, ...], setup: dict[str, Any]) -> None:
    import numpy as np

    from accelsim.array.fabric import Setup
    from accelsim.array.watch import frames, legend

    M, N, K = sizes
    cycles = _figures(sizes, setup)["cycles"]
    if cycles > MOST_EDGES:
        raise UsageError(
            Problem(f"{cycles:,} cycles are too many to watch", expected=f"at most {MOST_EDGES:,}")
        )
    machine = Setup(**setup)
    a = np.arange(1, M * K + 1).reshape(M, K)
    b = np.arange(1, K * N + 1).reshape(K, N)
    edges = list(frames(a, b, machine))
    click.echo(f"A[{M},{K}] and B[{K},{N}] count from 1, row by row; {legend(machine)}\n")
    click.echo("\n".join(edges))
