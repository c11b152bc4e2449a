"""``accelsim plan``: find the fastest plan to train a model on a cluster, and why the others lose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli.common import (
    OUT,
    check_outputs,
    example,
    paragraphs,
    progress,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)
from accelsim.cli.fusion import decoder_options
from accelsim.cli.options import limit_options

if TYPE_CHECKING:
    from accelsim.cluster.step.asked import Asked
    from accelsim.cluster.step.search import Found


@click.command(epilog=example(
    "accelsim plan gpt3 --on 128x-dgx-a100 --batch 1536 --plot plans.png",
    "accelsim plan digits-cnn --on 4x-edu --batch 64 --objective energy",
    "accelsim plan resnet50 --on p4d-cluster --batch 32 --pipedream",
))  # fmt: skip
@click.argument("model")
@click.option(
    "--on",
    required=True,
    metavar="CLUSTER",
    help="A cluster's name (see 'accelsim clusters') or YAML file; a chip is a cluster of one.",
)
@click.option("--batch", type=click.IntRange(1), help="Samples of a step, all replicas together.")
@click.option(
    "--objective",
    default="time",
    show_default=True,
    metavar="time|energy",
    help="What the best plan minimises: energy is that of devices and links, without their hosts.",
)
@click.option(
    "--set", "changes", multiple=True, metavar="PATH=VALUE", help="Change a field of the cluster. Repeatable."
)
@click.option("--dtype", default="", help="Number format; default: that of each chip.")
@decoder_options
@click.option(
    "--pipedream", is_flag=True, help="Cut MODEL into stages with replicas, as PipeDream's optimiser does."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print everything as JSON, and nothing else, on stdout."
)
@click.option("--csv", "table", type=OUT, help="Write all plans that were looked at to this file.")
@click.option("--plot", type=OUT, help="Draw time against memory of all plans into this file.")
@limit_options
def plan(
    model: str,
    on: str,
    batch: int | None,
    objective: str,
    changes: Sequence[str],
    dtype: str,
    attention: str,
    overlap_tensor: bool,
    offload: bool,
    pipedream: bool,
    as_json: bool,
    table: Path | None,
    plot: Path | None,
) -> None:
    """Find the best plan to train MODEL on a cluster: data, tensor and pipeline parallelism, microbatches, schedules,
    sequence parallelism, ZeRO, recomputation.

    All legal plans are estimated by closed forms from simulated pieces of the model; those with the lowest estimates
    are simulated, and the best ten printed. Tensor parallelism stays inside nodes. With --pipedream layers are cut
    into stages by PipeDream's optimiser instead; then MODEL may be one of its profiles (a .txt file), and --batch is
    the minibatch of a device.
    """
    from accelsim.cluster.step.asked import Asked, ready
    from accelsim.cluster.step.search import OBJECTIVES, search
    from accelsim.errors import Problem, UsageError, known
    from accelsim.report.plan import facts, plans_figure, records
    from accelsim.workload.limits import limits

    known("objective", objective, OBJECTIVES)
    check_outputs(plot, table)
    if pipedream and (plot is not None or objective != "time"):
        raise UsageError(Problem("--plot or --objective with --pipedream", expected="neither"))
    asked = Asked(
        model, on, batch=batch, set=changes, dtype=dtype, ignore_capacity=limits().ignore_capacity,
        attention=attention, overlap_tensor=overlap_tensor, offload=offload,
    )  # fmt: skip
    if pipedream:
        _print_stages(asked, table, as_json)
        return
    with progress(1) as stage:
        made = ready(asked)
        found = search(
            made.work, made.fleet, made.batch, made.options, objective, lambda share: stage("search", share)
        )
    save_csv(table, list(records(found)))
    save_plot(plot, lambda: plans_figure(found))
    if as_json:
        show_json(facts(found))
        return
    _print(found)
    lines = [f"{what}: {path}" for what, path in (("CSV", table), ("Plot", plot)) if path is not None]
    if lines:
        click.echo("\n" + "\n".join(lines))


def _print_stages(asked: Asked, table: Path | None, as_json: bool) -> None:
    """The stages of PipeDream's optimiser."""
    from accelsim.cluster.partition.assign import assigned
    from accelsim.report.plan import STAGES, stage_rows, stage_sentences
    from accelsim.report.table import text_table

    found = assigned(asked)
    save_csv(table, list(found.rows()))
    if as_json:
        show_json(found.as_dict())
        return
    show(text_table(STAGES, stage_rows(found), width()))
    click.echo("\n" + paragraphs(stage_sentences(found)))
    if table is not None:
        click.echo(f"\nCSV: {table}")


def _print(found: Found) -> None:
    from accelsim.report.plan import HEADERS, rows, sentences
    from accelsim.report.table import text_table

    show(text_table(HEADERS, rows(found), width()))
    click.echo("\n" + paragraphs(sentences(found)))
