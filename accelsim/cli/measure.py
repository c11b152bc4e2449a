"""``accelsim measure``: kernels of PyTorch on a GPU of this machine, timed."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli.common import OUT, check_file_target, example, save_csv


@click.command(epilog=example(
    "accelsim measure --on cuda:0 --out measured.csv",
    "accelsim measure --on cuda:0 --ops gemm,softmax --dtype bf16 --rows 200 --out measured.csv",
))  # fmt: skip
@click.option("--on", "device", default="cuda:0", show_default=True, help="The GPU, as PyTorch calls it.")
@click.option("--ops", metavar="A,B", help="Kernels to measure; absent: all that there are.")
@click.option("--dtype", default="fp16", show_default=True, help="Number format.")
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="Kernels of each op, drawn at random.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sizes.")
@click.option("--out", type=OUT, required=True, metavar="FILE", help="Where the table goes.")
def measure(device: str, ops: str | None, dtype: str, rows: int, seed: int, out: Path) -> None:
    """Measure kernels on a GPU of this machine: products, convolutions, functions, attention, copies.

    Needs PyTorch, which is no part of this tool. The table has the columns that 'accelsim kernel', 'calibrate' and
    'validate' read.
    """
    from accelsim.kernels.measure import COLUMNS, OPS, measured, pytorch

    check_file_target(out)
    asked = [op.strip() for op in ops.split(",")] if ops else list(OPS)
    found = list(measured(pytorch(), device, asked, rows, dtype, seed))
    used = [name for name in COLUMNS if any(name in row for row in found)]
    save_csv(out, [{name: row.get(name, "") for name in used} for row in found])
    click.echo(f"{len(found):,} kernels: {out}")
