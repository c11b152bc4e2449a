"""``accelsim rerun``: repeat a saved run and say whether anything came out differently."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from accelsim.cli.common import FILE, OUT, check_report_target, example, png_option, progress, show, width

MOST = 12
"""Figures that differ which are named."""


@click.command(epilog=example("accelsim rerun reports/cnn-edu-4x4"))
@click.argument("report", type=FILE, metavar="DIR")
@click.option("--out", type=OUT, help="Directory for the report of the new run.")
@png_option
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def rerun(report: Path, out: Path | None, as_json: bool) -> None:
    """Repeat the run whose report is in DIR, with the same options, and compare every figure of its summary.

    Changes of the chip are simulated again where the report has them. Exit code 1 when a figure differs. Says what has
    changed since: chip, model, files, versions.
    """
    from accelsim.explore.what_ifs import what_ifs
    from accelsim.report.write import facts_of, write_run
    from accelsim.request import differences, how_to_repeat, repeated
    from accelsim.request.job import execute, prepare

    before = _saved(report)
    request = repeated(before.get("run", {}), str(report / "summary.json"))
    if out is not None:
        check_report_target(out)
    advised = before.get("what_ifs") is not None
    with progress(2 + advised) as stage:
        run = execute(prepare(request), progress=stage)
        changes = what_ifs(run, lambda share: stage("what if", share)) if advised else None
    if out is not None:
        write_run(run, out, changes)
    now: dict[str, Any] = json.loads(json.dumps(facts_of(run, changes)))
    changed = differences(before["run"], run.asked)
    differing = list(_differing(_figures(before), _figures(now)))
    if as_json:
        facts = {
            "command": run.asked["command"],
            "changed": changed,
            "differing": [list(row) for row in differing],
        }
        click.echo(json.dumps({"equal": not differing, **facts}, indent=2))
    else:
        _print(how_to_repeat(run.asked), changed, differing)
    if differing:
        raise click.exceptions.Exit(1)


def _saved(report: Path) -> dict[str, Any]:
    from accelsim.report.compare import load_summaries
    from accelsim.report.compare_labels import NAMES

    return {key: value for key, value in load_summaries([report])[0].items() if key not in NAMES}


def _figures(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Every figure under its path; what only says how the run was asked for is left out."""
    own = {key: value for key, value in summary.items() if key not in ("run", "tool_version")}
    return dict(_leaves(own, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}" if path else str(key))
    elif path == "what_ifs" and value:
        for number, part in enumerate(value, 1):
            yield from _leaves(part, f"{path}.{number}")
    else:
        yield path, value


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for path in {**before, **now}:
        if before.get(path) != now.get(path):
            yield path, before.get(path), now.get(path)


def _print(repeated: str, changed: list[str], differing: list[tuple[str, Any, Any]]) -> None:
    click.echo(f"Repeated: {repeated}")
    for text in changed or ["Chip, model, files and versions are what they were."]:
        click.echo(text)
    if not differing:
        click.echo("Every figure of the summary is what it was.")
        return
    from accelsim.report.table import text_table

    show(text_table(["figure", "then", "now"], [tuple(map(str, row)) for row in differing[:MOST]], width()))
    if len(differing) > MOST:
        click.echo(f"{MOST} of {len(differing)} figures that differ.")
