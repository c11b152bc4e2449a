"""Output of ``accelsim run ... --on CLUSTER --plan ...`` for a prompt and the tokens after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from accelsim.cli.common import check_file_target, paragraphs, progress, show, show_json, width
from accelsim.cluster.step.costs import PLAIN, Setting
from accelsim.errors import Problem, UsageError
from accelsim.files import table, write_file

if TYPE_CHECKING:
    from accelsim.cluster.serving.pieces import Devices
    from accelsim.cluster.serving.serve import Served
    from accelsim.cluster.serving.what_if import Change

SEQUENCES = 1
"""Sequences of each replica where nobody says how many."""


class Serving(NamedTuple):
    """What is served: the model with ``prompt`` and ``new``, the cluster with its changes, the plan as text; sequences
    of all replicas (None: one each); how devices compute; the library of their collectives ('': that of a serving
    stack, where the cluster knows it); ``advice``: whether changes of the network are tried."""

    model: str
    cluster: str
    overrides: Sequence[str] = ()
    plan: str = ""
    batch: int | None = None
    setting: Setting = PLAIN
    library: str = ""
    ignore_capacity: bool = False
    advice: bool = True


class Outputs(NamedTuple):
    """Where it is written."""

    out: Path | None = None
    table: Path | None = None
    as_json: bool = False


def is_serving(model: str) -> bool:
    """Return whether a model is a decoder with a prompt and new tokens. Raises UsageError for numbers that are none."""
    from accelsim.workload.sources.load import generation_of

    return generation_of(model) is not None


def print_serving(asked: Serving, outputs: Outputs) -> None:
    """Simulate, write and print. Raises UsageError with what is wrong, OutOfMemory for what does not fit."""
    from accelsim.report.serving import check_target, facts, records, write_serving

    if outputs.out is not None:
        check_target(outputs.out)
    if outputs.table is not None:
        check_file_target(outputs.table)
    with progress(1 + asked.advice) as stage:
        found, devices = served(asked, lambda share: stage("simulate", share))
        changes = _changes(found, devices, stage) if asked.advice and found.plan.devices > 1 else []
    if outputs.out is not None:
        write_serving(found, outputs.out, changes)
    if outputs.table is not None:
        write_file(outputs.table, table(*records(found)))
    if outputs.as_json:
        show_json(facts(found, changes))
        return
    show_serving(found, changes)
    written = [("Serving", outputs.out), ("CSV", outputs.table)]
    lines = [f"{what}: {path}" for what, path in written if path is not None]
    if lines:
        click.echo("\n" + "\n".join(lines))


def _changes(found: Served, devices: Devices, stage: Callable[[str, float], None]) -> list[Change]:
    from accelsim.cluster.serving.what_if import what_ifs

    stage("what if", 0.0)
    return what_ifs(found, devices)


def served(asked: Serving, told: Callable[[float], None] = lambda share: None) -> tuple[Served, Devices]:
    """The simulation, and what its devices do. Raises UsageError, SpecError and OutOfMemory."""
    from accelsim.cluster.plan.plan import Plan, parse_plan
    from accelsim.cluster.serving.pieces import Devices, serving_library
    from accelsim.cluster.serving.serve import Asked, serve
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
    cluster = load_cluster(asked.cluster, asked.overrides)
    library = serving_library(cluster, asked.library, asked.setting)
    fleet = fleet_of(cluster, asked.setting, library)
    sequences = asked.batch or SEQUENCES * plan.dp
    wanted = Asked(sequences, prompt, new, asked.ignore_capacity)
    devices = Devices(fleet, fleet.setting)
    return serve(model, fleet, plan, wanted, told, devices), devices


def show_serving(found: Served, changes: Sequence[Change] = ()) -> None:
    """The calls as a table, the summary, and sentences."""
    from accelsim.report.serving import CALL_HEADERS, call_rows, sentences, summary_rows
    from accelsim.report.table import text_table

    show(text_table(CALL_HEADERS, list(call_rows(found)), width()))
    click.echo()
    show(text_table(["serving", ""], summary_rows(found), width()))
    click.echo("\n" + paragraphs(sentences(found, changes)))
