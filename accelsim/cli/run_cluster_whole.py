"""What ``accelsim run ... --on CLUSTER --train --whole`` prints: a training step as one machine, tile by tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    check_file_target,
    pairs,
    paragraphs,
    progress,
    save_csv,
    show,
    show_json,
    whole,
    width,
)

if TYPE_CHECKING:
    from accelsim.cli.run_cluster import OnCluster


def print_whole(asked: Mapping[str, Any], given: OnCluster, ignore_capacity: bool) -> None:
    """Simulate and print. Raises UsageError, SpecError, OutOfMemory."""
    from accelsim.cluster.step.asked import Asked, ready
    from accelsim.cluster.step.one_machine import machines
    from accelsim.report.one_machine import HEADERS, device_rows, facts_of, records, sentences
    from accelsim.report.table import text_table

    if given.table is not None:
        check_file_target(given.table)
    sizes = pairs("--param", asked["param"] or (), whole, "a whole number from 1")
    wanted = Asked(
        str(asked["model"]), asked["on"][0], given.plan, asked["batch"], asked["set"], asked["dtype"],
        asked["fusion"], asked["site"], ignore_capacity=ignore_capacity, params=sizes,
    )  # fmt: skip
    with progress(2) as stage:
        stage("read", 0.0)
        made = ready(wanted)
        stage("simulate", 0.0)
        bare, full = machines(made.work, made.fleet, made.plan, made.batch, made.options)
    save_csv(given.table, records(full))
    if given.as_json:
        show_json(facts_of(bare, full))
        return
    show(text_table(HEADERS, device_rows(full), width()))
    click.echo("\n" + paragraphs(sentences(bare, full)))
    if given.table is not None:
        click.echo(f"\nCSV: {given.table}")
