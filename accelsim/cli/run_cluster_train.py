"""What ``accelsim run ... --on CLUSTER --train`` prints of a training step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli.common import (
    check_file_target,
    flat,
    paragraphs,
    progress,
    save_csv,
    show,
    show_json,
    width,
)
from accelsim.cli.fusion import read

if TYPE_CHECKING:
    from accelsim.cli.run_cluster import OnCluster
    from accelsim.cluster.step.fusing import TunedStep
    from accelsim.cluster.step.lasting import Lasting
    from accelsim.cluster.step.result import StepResult
    from accelsim.cluster.step.what_ifs import WhatIf


def print_training(asked: Mapping[str, Any], given: OnCluster, ignore_capacity: bool) -> None:
    """Simulate, write and print. Raises UsageError, SpecError, OutOfMemory."""
    from accelsim.cluster.step.asked import Asked, ready
    from accelsim.cluster.step.fusing import tuned
    from accelsim.cluster.step.lasting import lasting
    from accelsim.cluster.step.what_ifs import what_ifs
    from accelsim.report.step import facts_of, records
    from accelsim.report.write_step import check_target, write_step

    if given.out is not None:
        check_target(given.out)
    if given.table is not None:
        check_file_target(given.table)
    wanted = Asked(
        str(asked["model"]), asked["on"][0], given.plan, asked["batch"], asked["set"], asked["dtype"],
        asked["fusion"], asked["site"], gradients=read(given.fused), gradient_B=given.fused.gradient_B,
        ignore_capacity=ignore_capacity, params=_counts(asked["param"]),
    )  # fmt: skip
    tune = given.fused.tune_gradients
    with progress(3 - given.no_advice + tune) as stage:
        stage("read", 0.0)
        made = ready(wanted)
        stage("simulate", 0.0)
        made, result = made.fitted()
        helps = None
        if not given.no_advice:
            stage("what if", 0.0)
            helps = what_ifs(made, result, lambda share: stage("what if", share))
        if tune:
            stage("tune", 0.0)
        fused = tuned(made) if tune else None
    whole = None if given.tokens is None else lasting(result, given.tokens)
    save_csv(given.table, [flat(row) for row in records(result)])
    if given.out is not None:
        write_step(made, result, given.out, helps, fused, whole)
    if given.as_json:
        show_json(facts_of(result, helps, fused, whole))
        return
    show_step(result, helps, fused, whole)
    written = [("Report", given.out), ("CSV", given.table)]
    lines = [f"{what}: {path}" for what, path in written if path is not None]
    if lines:
        click.echo("\n" + "\n".join(lines))


def _counts(texts: Sequence[str] | None) -> dict[str, int]:
    """Parameters NAME=COUNT of a listed model."""
    from accelsim.cli.common import pairs, whole

    return pairs("--param", texts or (), whole, "a whole number from 1")


def show_step(
    result: StepResult,
    helps: Sequence[WhatIf] | None,
    fused: TunedStep | None = None,
    whole: Lasting | None = None,
) -> None:
    """Devices, the summary, what fused gradients cost, sentences."""
    from accelsim.report import fusing
    from accelsim.report.step import (
        DEVICE_HEADERS,
        device_rows,
        helping,
        lasting_rows,
        sentences,
        summary_rows,
    )
    from accelsim.report.table import text_table

    show(text_table(DEVICE_HEADERS, device_rows(result), width()))
    click.echo()
    show(text_table(["training step", ""], summary_rows(result), width()))
    if whole is not None:
        click.echo()
        show(text_table(["whole training", ""], lasting_rows(whole), width()))
    if fused is not None:
        click.echo()
        show(text_table(fusing.headers(fused), fusing.rows(fused), width()))
    click.echo("\n" + paragraphs(sentences(result, None, fused, whole)))
    if helps is not None:
        click.echo("\n" + paragraphs([helping(helps)]))
