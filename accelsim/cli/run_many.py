"""Several chips or settings in one call of ``accelsim run``: one table, one row a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from accelsim.cli.common import progress, show, show_notes, width
from accelsim.errors import Infeasible, Problem, UsageError
from accelsim.files import table as csv_table
from accelsim.files import write_file
from accelsim.files.reading import exists

if TYPE_CHECKING:
    from accelsim.errors import Gather
    from accelsim.machine.run import Run
    from accelsim.request import Request


class Variant(NamedTuple):
    """One run of several: the chip, the overrides, and what tells it apart from the others.

    ``swept``: (name in a table, value) of each field that has several values.
    """

    on: str
    set: tuple[str, ...]
    label: str
    swept: tuple[tuple[str, str], ...] = ()


class Outcome(NamedTuple):
    """A variant's run, or why it does not fit."""

    variant: Variant
    run: Run | None
    why: str = ""


def variants(chips: Sequence[str], overrides: Sequence[str]) -> list[Variant]:
    """Every chip with every combination of settings; a field that is set more than once takes each value in turn.

    ``chips``: names or files, or several with commas between them.
    """
    names = [name for text in chips for name in ([text] if exists(Path(text)) else text.split(","))]
    values: dict[str, list[str]] = {}
    for text in overrides:
        values.setdefault(text.partition("=")[0].strip(), []).append(text)
    found, tails = [], _tails([path for path, all_of in values.items() if len(all_of) > 1])
    for name, chosen in product(dict.fromkeys(part.strip() for part in names), product(*values.values())):
        settings = {path: text for path, text in zip(values, chosen, strict=True) if path in tails}
        swept = tuple((tails[path], text.partition("=")[2].strip()) for path, text in settings.items())
        found.append(Variant(name, chosen, " ".join([Path(name).stem, *settings.values()]), swept))
    return found


def _tails(paths: Sequence[str]) -> dict[str, str]:
    """The shortest end of each path that no other one has: 'rows' of 'matrix.rows'."""

    def ends(path: str) -> list[str]:
        parts = path.split(".")
        return [".".join(parts[start:]) for start in reversed(range(len(parts)))]

    taken = Counter(end for path in paths for end in ends(path))
    return {path: next((end for end in ends(path) if taken[end] == 1), path) for path in paths}


def prepared(request: Request, chosen: Sequence[Variant], gather: Gather) -> list[Any]:
    """A checked job for each variant; the problems of all of them are told at once."""
    from accelsim.request.job import prepare

    jobs = []
    for variant in chosen:
        with gather.also():
            jobs.append(prepare(replace(request, on=variant.on, set=variant.set)))
    gather.done()
    return jobs


def outcomes(request: Request, chosen: Sequence[Variant], gather: Gather) -> list[Outcome]:
    """Each variant simulated; one that does not fit on its chip says so and stops none of the others."""
    from accelsim.request.job import execute

    found = []
    jobs = prepared(request, chosen, gather)
    with progress(len(chosen)) as stage:
        for variant, job in zip(chosen, jobs, strict=True):
            stage(variant.label, 0.0)
            try:
                found.append(Outcome(variant, execute(job)))
            except Infeasible as error:
                found.append(Outcome(variant, None, str(error)))
    return found


def rows(found: Sequence[Outcome]) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of the CSV: what was set, then every compared figure, all digits."""
    from accelsim.account.latency import summary
    from accelsim.report.compare import METRICS

    header = ["chip", "set", *(metric.column for metric in METRICS), "note"]
    lines: list[list[Any]] = []
    for each in found:
        facts = summary(each.run) if each.run is not None else None
        figures = [metric.value(facts) if facts is not None else "" for metric in METRICS]
        lines.append([each.variant.on, "; ".join(each.variant.set), *figures, each.why])
    return header, lines


def write_csv(file: Path, found: Sequence[Outcome]) -> None:
    """The CSV, whole or not at all. UsageError when it cannot be written."""
    write_file(file, csv_table(*rows(found)))


def show_table(found: Sequence[Outcome]) -> None:
    """The table, and the reasons of what does not fit. Values that tell the runs apart are never shortened."""
    from accelsim.account.latency import summary
    from accelsim.report.compare import basis, common_metrics
    from accelsim.report.table import Column, table

    facts = {each.variant: summary(each.run) for each in found if each.run is not None}
    entries = list(facts.values())
    metrics = common_metrics(entries)
    cells = []
    for each in found:
        values = [metric.text(metric.value(facts[each.variant])) for metric in metrics] if each.run else []
        told = values or ["does not fit", *[""] * (len(metrics) - 1)]
        cells.append([Path(each.variant.on).stem, *(value for _, value in each.variant.swept), *told])
    names = [name for name, _ in found[0].variant.swept]
    columns = [
        Column("run", right=False, least=12),
        *(Column(name, right=False) for name in names),
        *(Column(metric.title, rank, right=False, least=12) for rank, metric in enumerate(metrics, 1)),
    ]
    show(table(columns, cells, width()))
    if text := basis(entries):
        click.echo("\n" + text)
    show_notes(note for each in found if each.run is not None for note in each.run.job.notes)
    for each in found:
        if each.run is None:
            click.echo(f"error: {each.variant.label}: {each.why}", err=True)


def show_json(found: Sequence[Outcome]) -> None:
    """A list of summaries, each with its label; what does not fit has 'infeasible' instead of figures."""
    from accelsim.account.latency import summary

    told = [
        {
            "label": each.variant.label,
            **(summary(each.run) if each.run is not None else {"infeasible": each.why}),
        }
        for each in found
    ]
    click.echo(json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False))


def write_reports(found: Sequence[Outcome], folder: Path) -> list[Path]:
    """A report of each run in a directory of its own below ``folder``, numbered in the order of the table."""
    from accelsim.report.write import write_run

    written = []
    for index, each in enumerate(found, 1):
        if each.run is not None:
            name = "".join(
                letter if letter.isalnum() or letter in "-._" else "-" for letter in each.variant.label
            )
            written.append(write_run(each.run, folder / f"{index}-{name}"[:100]))
    return written


def refuse(given: dict[str, Any]) -> None:
    """UsageError for options that make sense for a single run only."""
    problems = [
        Problem(f"{option} with several runs", expected="one --on and one value of each --set")
        for option, value in given.items()
        if value
    ]
    if problems:
        raise UsageError(problems)
