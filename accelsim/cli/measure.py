"""``accelsim measure``: kernels of PyTorch on a GPU of this machine, timed."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli.common import OUT, check_file_target, example, save_csv


@click.command(epilog=example(
    "accelsim measure --on cuda:0 --out measured.csv",
    "accelsim measure --on cuda:0 --ops gemm,softmax --dtype bf16 --rows 200 --power 10 --out measured.csv",
    "accelsim measure --on cuda:0 --calls --out calls.csv",
))  # fmt: skip
@click.option("--on", "device", default="cuda:0", show_default=True, help="The GPU, as PyTorch calls it.")
@click.option("--ops", metavar="A,B", help="Kernels to measure; absent: all that there are in the format.")
@click.option("--dtype", default="fp16", show_default=True, help="Number format.")
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="Kernels of each op, drawn at random.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the sizes.")
@click.option(
    "--calls",
    "called",
    is_flag=True,
    help="Times of calls one by one, with the host's work for them; absent: of kernels alone, in a CUDA graph.",
)
@click.option(
    "--warm",
    is_flag=True,
    help="Every call has the same operands, found in the L2 cache where they fit; absent: they are not there.",
)
@click.option(
    "--power",
    type=click.IntRange(0),
    default=0,
    metavar="ROWS",
    help="Watts and clock of the first so many kernels of each op, 1.5 s each; needs NVML (nvidia-ml-py).",
)
@click.option("--out", type=OUT, required=True, metavar="FILE", help="Where the table goes.")
def measure(
    device: str, ops: str | None, dtype: str, rows: int, seed: int, called: bool, warm: bool, power: int, out: Path,
) -> None:  # fmt: skip
    """Measure kernels on a GPU of this machine: products, convolutions, functions, attention, copies.

    Needs PyTorch, which is no part of this tool. The table has the columns that 'accelsim kernel', 'calibrate' and
    'validate' read.
    """
    from accelsim.measure.kernels import COLUMNS, FORMATS, MOST_SETS, OPS, check, measured, pytorch
    from accelsim.measure.power import Meter

    check_file_target(out)
    torch = pytorch()
    known = FORMATS[dtype].ops if dtype in FORMATS else None
    asked = [op.strip() for op in ops.split(",")] if ops else [op for op in OPS if not known or op in known]
    check(torch, device, asked, dtype)
    meter = Meter(torch, device) if power else None
    if meter is not None:
        click.echo(f"idle: {meter.idle_W():.1f} W")
    sets = 1 if warm else MOST_SETS
    every = list(measured(torch, device, asked, rows, dtype, seed, called, power, meter, sets))
    found = [row for row in every if "why" not in row]
    for row in every:
        if "why" in row:
            click.echo(f"left out: {row['op']}: {row['why']}", err=True)
    used = [name for name in COLUMNS if any(name in row for row in found)]
    save_csv(out, [{name: row.get(name, "") for name in used} for row in found])
    click.echo(f"{len(found):,} kernels: {out}")
