"""``accelsim measure``: kernels and whole networks of PyTorch on a GPU of this machine, timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from accelsim import files
from accelsim.cli.batching import parsed_batches
from accelsim.cli.common import OUT, check_file_target, example, flag, option


@click.command(
    epilog=example(
        "accelsim measure --on cuda:0 --out measured.csv",
        "accelsim measure --on cuda:0 --ops gemm,softmax --dtype bf16 --rows 200 --power 10 --out measured.csv",
        "accelsim measure --on cuda:0 --calls --out calls.csv",
        "accelsim measure --on cuda:0 --model 'bert-large?seq=128' --batches 1,32 --power 1 --out networks.csv",
    )
)
@option("--on device", "The GPU, as PyTorch calls it.", "cuda:0")
@option("--ops", "Kernels to measure; default: all that the format has.", metavar="A,B")
@option("--dtype", "Number format.", "fp16")
@option("--rows", "Kernels of each op, drawn at random.", 60, least=1)
@option(
    "--model models",
    "A whole network instead of kernels: the graph that is simulated, node by node. Repeatable.",
    multiple=True,
    metavar="MODEL",
)
@option("--batches", "Batches of networks.", "1", callback=parsed_batches, metavar="N,M")
@option(
    "--attention",
    "Attention of networks: node by node, or in one call.",
    "unfused",
    type=click.Choice(["unfused", "fused"]),
)
@option("--seed", "Seed of the sizes.", 0, least=0)
@flag("--calls called", "Time calls one by one, with the host's work; default: kernels alone, in a CUDA graph.")
@flag("--warm", "Give every call the same operands, in the L2 cache where they fit; default: a cold cache.")
@click.option(
    "--power",
    type=click.IntRange(0),
    default=0,
    metavar="ROWS",
    help="Measure watts, clock and joules of the first ROWS kernels of each op, or of networks, 1.5 s each; needs NVML "
    "(nvidia-ml-py).",
)
@option("--out", "The file to write the table to.", type=OUT, required=True, metavar="FILE")
def measure(out: Path, **asked: Any) -> None:
    """Measure kernels on a GPU of this machine: products, convolutions, functions, attention, copies; or networks.

    Needs PyTorch, which accelsim does not install. The table of kernels has the columns that 'accelsim kernel',
    'calibrate' and 'validate' read.
    """
    from accelsim.measure.asked import measured_rows, table

    check_file_target(out)
    found, columns = measured_rows(lambda idle_W: click.echo(f"idle: {idle_W:.1f} W"), **asked)
    for row in found:
        if "why" in row:
            click.echo(f"left out: {row.get('op') or row['model']}: {row['why']}", err=True)
    kept = [row for row in found if "why" not in row]
    files.write_file(out, table(kept, columns))
    click.echo(f"{len(kept):,} {'networks' if asked['models'] else 'kernels'}: {out}")
