"""``accelsim compare``: reports of several runs side by side."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from accelsim.cli.common import (
    OUT,
    check_outputs,
    count_or_all,
    csv_option,
    example,
    json_option,
    paragraphs,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)

LAYERS = 10
"""Layers that ``--layers`` shows where it is not told how many."""


class _BareLayers(click.Command):
    """A command whose ``--layers`` may stand without a value, also before a RUN."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with the value that a bare ``--layers`` means."""
        told = []
        for word, behind in zip(args, [*args, ""][1:], strict=True):
            bare = word == "--layers" and not (behind == "all" or behind.isdecimal())
            told.append(f"--layers={LAYERS}" if bare else word)
        return super().parse_args(ctx, told)


def _asked_layers(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    return None if value is None else count_or_all(ctx, param, value) or sys.maxsize


@click.command(cls=_BareLayers, epilog=example(
    "accelsim compare reports/resnet50-tpu-v1 reports/resnet50-haswell",
    "accelsim compare reports/cnn reports/cnn-8x8 --layers all",
    "accelsim compare reports/* --plot comparison.svg --csv comparison.csv",
))  # fmt: skip
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--layers", callback=_asked_layers,
              metavar="[N|all]", help="Of two runs of one model: the layers that differ most in time, side by side; "
              f"without a number {LAYERS}.")  # fmt: skip
@csv_option
@click.option(
    "--plot", type=OUT, help="Draw latency and energy relative to the first run: FILE.png or FILE.svg."
)
@json_option
def compare(
    runs: tuple[str, ...], layers: int | None, table: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Compare each RUN (a directory that 'accelsim run --out' wrote) with the first.

    Runs are called by what differs: chip, model, format, batch and every setting. Energies are per inference (of a
    single product: per product, of a list of layers: per pass); where two do not rest on the same figures, their ratio
    is marked and the reason is told. With --layers, --csv writes the layers, all of them.
    """
    from accelsim.report import compare as comparison
    from accelsim.report import compare_layers

    check_outputs(plot, table)
    found = comparison.facts(runs)
    differences = compare_layers.differences(runs) if layers is not None else None
    if differences is not None:
        found["layers"] = [each.as_dict() for each in differences]
    if plot is not None:
        from accelsim.report.compare_plot import compare_figure

        save_plot(plot, lambda: compare_figure(runs))
    save_csv(table, comparison.records(runs) if differences is None else found["layers"])
    if as_json:
        show_json(found)
        return
    _print(runs, layers)
    if plot is not None:
        click.echo(f"Plot: {plot}")


def _print(runs: tuple[str, ...], layers: int | None) -> None:
    from accelsim.report import compare as comparison
    from accelsim.report.compare_layers import layer_table, legend

    entries = comparison.load_summaries(runs)
    if text := comparison.heading(entries):
        click.echo(paragraphs([text]) + "\n")
    show(comparison.compare(runs, width()))
    if text := comparison.basis(entries):
        click.echo("\n" + text)
    for note in comparison.notes(entries):
        click.echo("\n" + paragraphs([note]))
    if layers is not None:
        click.echo("\n" + paragraphs([legend(runs)]) + "\n")
        show(layer_table(runs, width(), layers))
