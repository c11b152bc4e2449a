"""``accelsim compare``: reports of several runs side by side."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli.common import OUT, PICTURES, check_file_target, example, show, width


@click.command(epilog=example(
    "accelsim compare reports/resnet50-tpu-v1 reports/resnet50-haswell",
    "accelsim compare reports/* --plot comparison.svg",
))  # fmt: skip
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--plot", type=OUT, help="Also draw latency and energy: a .png or .svg file.")
def compare(runs: tuple[str, ...], plot: Path | None) -> None:
    """Compare each RUN (a directory that 'accelsim run --out' wrote) with the first."""
    from accelsim.report import compare as comparison

    if plot is not None:
        check_file_target(plot, PICTURES)
    show(comparison.compare(runs, width()))
    if plot is not None:
        from accelsim.report.style import save

        save(comparison.compare_figure(runs), plot)
        click.echo(f"Plot: {plot}")
