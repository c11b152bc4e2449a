"""``accelsim batching``: time per sample against the batch size, split into transfers and computing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    check_outputs,
    csv_option,
    example,
    json_option,
    plot_option,
    progress,
    save_csv,
    save_plot,
    show,
    show_json,
    whole,
    whole_list,
    width,
)
from accelsim.cli.options import limit_options
from accelsim.errors import Problem, UsageError
from accelsim.time import FS

if TYPE_CHECKING:
    from accelsim.explore.batching import Batching


def parsed_batches(context: click.Context, option: click.Parameter, text: str) -> tuple[int, ...]:
    """Batch sizes with commas between them. Raises UsageError."""
    sizes = {part: whole(part) for part in whole_list(text)}
    wrong = [part for part, size in sizes.items() if size is None]
    if wrong or not sizes:
        raise UsageError(
            [
                Problem(f"{part!r} is no batch size", "--batches", "whole numbers from 1, with commas")
                for part in wrong
            ]
            or Problem("no batch size", "--batches", "whole numbers from 1, with commas")
        )
    return tuple(size for size in sizes.values() if size is not None)


@click.command(epilog=example(
    "accelsim batching cnn --on tpu-v1 --batches 1,2,4,8,16,32,64",
    "accelsim batching resnet50 --on tpu-v1 --set memories.pcie_memory.link=links/pcie-gen5-x16 --plot batching.png",
))  # fmt: skip
@click.argument("model")
@click.option("--on", "chip", required=True, metavar="CHIP", help="A chip's name or its YAML file.")
@click.option("--batches", default="1,2,4,8,16,32,64,128,256", show_default=True, callback=parsed_batches,
              metavar="N,N,...", help="Batch sizes.")  # fmt: skip
@click.option("--dtype", default="", help="Operand format; without: the chip's preferred one.")
@click.option(
    "--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change a field of the spec. Repeatable."
)
@limit_options
@csv_option
@plot_option
@json_option
def batching(
    model: str, chip: str, batches: tuple[int, ...], dtype: str, overrides: tuple[str, ...], plot: Path | None,
    table: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Latency, time and energy per sample of MODEL on CHIP against the batch size, and what the host's link costs.

    Transfers hidden behind computing cost nothing; small ones pay the latency of the link and its packet headers.
    """
    from accelsim.explore import batching as explore

    check_outputs(plot, table)
    with progress(1) as stage:
        found = explore.batching(
            model, chip, batches, lambda share: stage("simulate", share), dtype=dtype, set=overrides
        )
    if plot is not None:
        from accelsim.report.study_plot import time_per_sample

        save_plot(plot, lambda: time_per_sample(found))
    facts = _facts(found)
    save_csv(table, facts["points"])
    if as_json:
        show_json(facts)
    else:
        _print(found)


def _facts(found: Batching) -> dict[str, Any]:
    return {
        "model": found.model, "chip": found.chip.name, "links": found.links, "fastest_batch": found.fastest.batch,
        "points": [
            {"batch": point.batch, "samples": point.samples, "time_s": point.time_fs * FS,
             "s_per_sample": point.seconds_per_sample, "samples_per_s": point.samples_per_s, "energy_J": point.energy_J,
             "J_per_sample": point.energy_J / point.samples, "link_B": point.link_B,
             "link_busy_s": point.link_fs * FS,
             **{f"{part}_s": spent * FS for part, spent in point.parts_fs.items()}}
            for point in found.points
        ],
    }  # fmt: skip


OVER = {
    "link busy": "share of the time with a transfer on its way, also where it hides behind computing",
    "over the link": "bytes of one sample",
}
"""Columns of a chip with a link -> what they say."""


def _print(found: Batching) -> None:
    from accelsim.explore.batching import PARTS
    from accelsim.report.table import text_table
    from accelsim.report.text import percent, si

    over = [*OVER] if found.links else []
    headers = ["batch", "latency", "per sample", "samples/s", "energy", *found.parts, *over]
    rows = [
        (point.batch, si(point.time_fs * FS, "s"), si(point.seconds_per_sample, "s"), si(point.samples_per_s),
         si(point.energy_J / point.samples, "J"),
         *(percent(point.parts_fs[part] / point.time_fs) for part in found.parts),
         *([percent(point.link_fs / point.time_fs), si(point.link_B / point.samples, "B")] if over else []))
        for point in found.points
    ]  # fmt: skip
    table = text_table(headers, rows, width())
    show(table)
    click.echo(
        "\nlatency: of the whole batch; energy: of one sample; shares of the critical path, as in the report of a run:"
    )
    shown = {str(column.header).replace("\n", " ") for column in table.columns}  # as many as fit the width
    for name, text in (PARTS | OVER).items():
        if name in shown:
            click.echo(f"{name}: {text}")
