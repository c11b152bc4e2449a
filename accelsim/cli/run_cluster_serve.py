"""What ``accelsim run ... --on CLUSTER --plan ...`` prints of a prompt and the tokens behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from accelsim.cli.common import check_file_target, paragraphs, progress, show, show_json, width
from accelsim.errors import Problem, UsageError
from accelsim.files import table, write_file

if TYPE_CHECKING:
    from accelsim.cluster.serving.serve import Served

SEQUENCES = 1
"""Sequences of each replica where nobody says how many."""


class Serving(NamedTuple):
    """What is served: the model with ``prompt`` and ``new``, the cluster with its changes, the plan as text; sequences
    of all replicas (None: one each); how devices compute."""

    model: str
    cluster: str
    overrides: Sequence[str] = ()
    plan: str = ""
    batch: int | None = None
    dtype: str = ""
    fusion: str = "compiled"
    site: str | None = None
    ignore_capacity: bool = False


class Outputs(NamedTuple):
    """Where it is written."""

    out: Path | None = None
    table: Path | None = None
    as_json: bool = False


def is_serving(model: str) -> bool:
    """Whether a model is a decoder with a prompt and new tokens. Raises UsageError for numbers that are none."""
    from accelsim.workload.sources.load import generation_of

    return generation_of(model) is not None


def print_serving(asked: Serving, outputs: Outputs) -> None:
    """Simulate, write and print. Raises UsageError with what is wrong, OutOfMemory for what does not fit."""
    from accelsim.report.serving import check_target, facts, records, write_serving

    if outputs.out is not None:
        check_target(outputs.out)
    if outputs.table is not None:
        check_file_target(outputs.table)
    with progress(1) as stage:
        found = served(asked, lambda share: stage("simulate", share))
    if outputs.out is not None:
        write_serving(found, outputs.out)
    if outputs.table is not None:
        write_file(outputs.table, table(*records(found)))
    if outputs.as_json:
        show_json(facts(found))
        return
    show_serving(found)
    written = [("Serving", outputs.out), ("CSV", outputs.table)]
    lines = [f"{what}: {path}" for what, path in written if path is not None]
    if lines:
        click.echo("\n" + "\n".join(lines))


def served(asked: Serving, told: Callable[[float], None] = lambda share: None) -> Served:
    """The simulation. Raises UsageError, SpecError and OutOfMemory."""
    from accelsim.cluster.plan.plan import Plan, parse_plan
    from accelsim.cluster.serving.serve import Asked, serve
    from accelsim.cluster.step.costs import Setting
    from accelsim.cluster.step.fleet import fleet_of
    from accelsim.cluster.step.transformer import transformer_of
    from accelsim.spec.yaml.clusters import load_cluster
    from accelsim.workload.sources.load import generation_of

    generation = generation_of(asked.model)
    if generation is None:
        raise UsageError(
            Problem(f"no prompt and new tokens in {asked.model}", expected="NAME?prompt=P,new=N")
        )
    name, params, prompt, new = generation
    model = transformer_of(name, params)
    assert model is not None  # a generation is of a decoder
    plan = parse_plan(asked.plan) if asked.plan else Plan()
    fleet = fleet_of(
        load_cluster(asked.cluster, asked.overrides), Setting(asked.dtype, asked.fusion, asked.site)
    )
    sequences = asked.batch or SEQUENCES * plan.dp
    wanted = Asked(sequences, prompt, new, asked.ignore_capacity)
    return serve(model, fleet, plan, wanted, told)


def show_serving(found: Served) -> None:
    """The calls as a table, the summary, and sentences."""
    from accelsim.report.serving import CALL_HEADERS, call_rows, sentences, summary_rows
    from accelsim.report.table import text_table

    show(text_table(CALL_HEADERS, list(call_rows(found)), width()))
    click.echo()
    show(text_table(["serving", ""], summary_rows(found), width()))
    click.echo("\n" + paragraphs(sentences(found)))
