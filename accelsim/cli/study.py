"""``accelsim study``: chips side by side under one question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli.batching import parsed_batches
from accelsim.cli.common import (
    check_outputs,
    csv_option,
    example,
    json_option,
    paragraphs,
    plot_option,
    progress,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)

if TYPE_CHECKING:
    from accelsim.explore.studies import Crossover, Ladder


def _names(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    """Words with commas between them."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


chips_option = click.option(
    "--on", "chips", required=True, callback=_names, metavar="A,B,...", help="Chips, or their YAML files."
)


@click.group(epilog=example(
    "accelsim study precision resnet50 --on t4,a100-80-sxm --batch 64",
    "accelsim study crossover resnet50 --on haswell-e5-2699v3,t4 --batches 1,16",
))  # fmt: skip
def study() -> None:
    """Chips side by side under one question: a table, sentences and a picture."""


@study.command(epilog=example(
    "accelsim study precision resnet50 --on v100-sxm2-16,t4,a100-80-sxm,h100-sxm --batch 64 --plot ladder.png",
    "accelsim study precision bert-base --on t4,a30 --dtypes fp32,fp16,int8",
))  # fmt: skip
@click.argument("model")
@chips_option
@click.option(
    "--dtypes", default="fp32,tf32,bf16,fp16,fp8_e4m3fn,int8,int4", show_default=True, callback=_names,
    metavar="F,F,...", help="Number formats, from wide to narrow; a chip runs those that it has.",
)  # fmt: skip
@click.option("--batch", type=click.IntRange(1), default=1, show_default=True, help="Batch size.")
@csv_option
@plot_option
@json_option
def precision(
    model: str, chips: tuple[str, ...], dtypes: tuple[str, ...], batch: int, plot: Path | None,
    table: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Time and energy of MODEL in every number format of each chip, and the error of a product there.

    The error is computed: Gaussian operands, K = 1024, each chip by its own rule of sums, against FP32.
    """
    from accelsim.explore import studies

    check_outputs(plot, table)
    with progress(1) as stage:
        found = studies.precision(model, chips, dtypes, batch, lambda share: stage("simulate", share))
    if plot is not None:
        from accelsim.report.study_plot import ladder

        save_plot(plot, lambda: ladder(found))
    rows = [rung._asdict() for rung in found.rungs]
    save_csv(table, rows)
    if as_json:
        show_json(
            {"model": model, "batch": batch, "rungs": rows, "lacking": found.lacking,
             "sentences": studies.ladder_sentences(found)}
        )  # fmt: skip
        return
    _print_ladder(found)


def _print_ladder(found: Ladder) -> None:
    from accelsim.explore.studies import error_text, ladder_sentences
    from accelsim.report.table import text_table
    from accelsim.report.text import si

    rows = [
        (rung.chip, rung.dtype, si(rung.seconds, "s"),
         f"{si(rung.low, 's')} to {si(rung.high, 's')}" if rung.low else "-", si(rung.joules, "J"),
         error_text(rung.error))
        for rung in found.rungs
    ]  # fmt: skip
    show(text_table(("chip", "format", "per inference", "90 %", "energy", "error"), rows, width()))
    for sentence in ladder_sentences(found):
        click.echo("\n" + paragraphs([sentence]))


@study.command(epilog=example(
    "accelsim study crossover resnet50 --on haswell-e5-2699v3,t4,a100-80-sxm --batches 1,4,16,64 --plot crossover.png",
))  # fmt: skip
@click.argument("model")
@chips_option
@click.option("--batches", default="1,2,4,8,16,32,64", show_default=True, callback=parsed_batches,
              metavar="N,N,...", help="Batch sizes.")  # fmt: skip
@click.option("--dtype", default="", help="Operand format; without: the one that each chip prefers.")
@csv_option
@plot_option
@json_option
def crossover(
    model: str, chips: tuple[str, ...], batches: tuple[int, ...], dtype: str, plot: Path | None, table: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Find the batch size from which each chip is faster than the first, transfers to and from the host included."""
    from accelsim.explore import studies

    check_outputs(plot, table)
    with progress(1) as stage:
        found = studies.crossover(model, chips, batches, dtype, lambda share: stage("simulate", share))
    if plot is not None:
        from accelsim.report.study_plot import crossing

        save_plot(plot, lambda: crossing(found))
    rows = [
        {"chip": series.chip.name, "batch": point.batch, "s_per_sample": point.seconds_per_sample,
         "link_s_per_sample": point.parts_fs["link"] * 1e-15 / point.samples,
         "J_per_sample": point.energy_J / point.samples}
        for series in found.series for point in series.points
    ]  # fmt: skip
    save_csv(table, rows)
    if as_json:
        show_json({"model": model, "points": rows, "sentences": studies.crossover_sentences(found)})
        return
    _print_crossover(found)


def _print_crossover(found: Crossover) -> None:
    from accelsim.explore.studies import crossover_sentences
    from accelsim.report.table import text_table
    from accelsim.report.text import si

    batches = [point.batch for point in found.series[0].points]
    rows = [
        (batch, *(si(series.points[index].seconds_per_sample, "s") for series in found.series))
        for index, batch in enumerate(batches)
    ]
    show(text_table(("batch", *(series.chip.name for series in found.series)), rows, width()))
    for sentence in ("Times are of one sample.", *crossover_sentences(found)):
        click.echo("\n" + paragraphs([sentence]))
