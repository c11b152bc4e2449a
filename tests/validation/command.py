"""The command ``accelsim validate`` in a checkout: run checks, list them, print, save and draw their outcomes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import click

from accelsim.cli.common import (
    check_file_target,
    check_outputs,
    progress,
    save_csv,
    show,
    show_json,
    width,
)
from accelsim.errors import Problem, UsageError, nearest
from tests import validation as package
from tests.validation.base import CHECKS, Check
from tests.validation.claims import CLAIMS, Claim, broken
from tests.validation.measured import FILES, VARIABLE, missing

TABLE = "rtl-machine"
"""The check that also takes rows from a file."""


SMALL = 5e-4
"""Relative errors below this are written as powers of ten."""


def validate(
    names: tuple[str, ...],
    rows: Path | None,
    table: Path | None,
    data: Path | None,
    pictures: Path | None,
    details: bool,
    only_list: bool,
    as_json: bool,
) -> bool:
    """Run the checks ``names`` (all when empty) with the options of the command; return whether all of them pass.

    Raises UsageError for unknown checks and for folders of measurements that lack files.
    """
    if data is not None:
        _measured(data)
    if rows is not None:
        outcomes = _rows(names, rows, table)
    else:
        check_outputs(None, table)
        checks = all_checks()
        unknown = [name for name in names if name not in checks]
        if unknown:
            expected = "one of " + ", ".join(checks)
            raise UsageError(
                Problem(f"no check {name!r}", "", expected, nearest(name, checks)) for name in unknown
            )
        if only_list:
            _list(checks, table, as_json)
            return True
        outcomes = _run(names or tuple(checks), checks)
        save_csv(
            table,
            [{key: value for key, value in _facts(each).items() if key != "details"} for each in outcomes],
        )
    _print(outcomes, details, as_json)
    if pictures is not None:
        _pictures(outcomes, pictures)
    return not any(broken(outcome) for outcome in outcomes)


def _measured(data: Path) -> None:
    """The folder of measured rows, for this command. Raises UsageError for what is none."""
    if not data.is_dir():
        raise UsageError(Problem("no such folder", f"--data {data}", "a folder with " + ", ".join(FILES)))
    lacking = missing(data)
    if lacking:
        raise UsageError(
            Problem(f"not there: {', '.join(lacking)}", f"--data {data}", "the folder of measured rows")
        )
    os.environ[VARIABLE] = str(data)


def _pictures(outcomes: Sequence[Check], folder: Path) -> None:
    """A picture of each check that compares times, in a folder that is made if need be."""
    from accelsim import files
    from accelsim.report.style import picture
    from tests.validation.kernel_plot import against_measured

    makers = {
        f"{outcome.name}.png": picture(
            against_measured(f"{outcome.name}: {outcome.what}", outcome.compared), ".png"
        )
        for outcome in outcomes
        if outcome.compared
    }
    for path in files.write_folder(folder, makers) if makers else ():
        click.echo(f"picture: {path}", err=True)


def verdict(outcome: Check) -> str:
    """'passes', 'fails', or 'skipped' where there was nothing to compare with."""
    if not outcome.rows:
        return "skipped"
    return "fails" if broken(outcome) else "passes"


def all_checks() -> dict[str, Any]:
    """Every check, found by importing the modules of the package."""
    for module in sorted(module.name for module in iter_modules(package.__path__)):
        import_module(f"{package.__name__}.{module}")
    return dict(sorted(CHECKS.items()))


def _list(checks: dict[str, Any], table: Path | None, as_json: bool) -> None:
    """Return what each check compares and how long it takes."""
    rows = [
        {"name": name, "what": claim.what, "takes": claim.takes, "measured_s": claim.seconds}
        for name, claim in ((name, CLAIMS[name]) for name in checks)
    ]
    save_csv(table, rows)
    if as_json:
        show_json(rows)
        return
    formatter = click.HelpFormatter(width=width())
    formatter.write_dl([(name, f"{CLAIMS[name].what} ({_time(CLAIMS[name])})") for name in checks])
    click.echo(formatter.getvalue(), nl=False)


def _time(claim: Claim) -> str:
    """Return how long a check takes of one core, and whether that was measured."""
    return claim.takes + (", an estimate" if claim.seconds is None else "")


def _run(names: Sequence[str], checks: dict[str, Any]) -> list[Check]:
    outcomes = []
    with progress(len(names)) as stage:
        for name in dict.fromkeys(names):
            stage(name, 0.0)
            outcomes.append(checks[name]())
    return outcomes


def _rows(names: tuple[str, ...], rows: Path | None, table: Path | None) -> list[Check]:
    """The rows of a file through the machine, written to another."""
    if names != (TABLE,) or rows is None or table is None:
        raise UsageError(
            Problem("--rows FILE and --csv RESULTS", expected=f"both, and the one check {TABLE}")
        )
    from tests.validation import rtl_table

    check_file_target(table)
    lines = rtl_table.read(rows)
    with progress(len(lines)) as stage:
        found = rtl_table.simulate_lines(lines, lambda: stage(TABLE, 0.0))
    rtl_table.write(table, lines, found)
    outcome = rtl_table.compare(lines, found)
    click.echo(f"{len(lines):,} rows: {table}", err=True)
    return [outcome] if outcome is not None else []


def _print(outcomes: Sequence[Check], details: bool, as_json: bool) -> None:
    if as_json:
        show_json([_facts(outcome) for outcome in outcomes])
        return
    from accelsim.report.table import text_table

    if outcomes:
        headers = ["check", "rows", "agree", "bound", "verdict", "median error", "90th percentile", "largest"]
        rows = [
            (each.name, f"{each.rows:,}", f"{each.equal:,}", each.bound, verdict(each),
             *(_error(value) if each.errors.size else "-" for value in (each.median, each.p90, each.max)))
            for each in outcomes
        ]  # fmt: skip
        show(text_table(headers, rows, width()))
    for each in outcomes:
        if details or broken(each):
            click.echo(f"\n{each.name}: {each.what}")
            for line in (
                [broken(each), *each.details] if each.equal == each.rows and broken(each) else each.details
            ):
                click.echo(click.wrap_text(line, width(), "  ", "    "))


def _error(value: float) -> str:
    """A relative error: in percent, or as a power of ten where that would have too many zeros."""
    return f"{100 * value:.1f}%" if value >= SMALL or not value else f"{value:.1e}"


def _facts(outcome: Check) -> dict[str, Any]:
    return {
        "name": outcome.name, "what": outcome.what, "rows": outcome.rows, "equal": outcome.equal,
        "bound": outcome.bound, "unclaimed": outcome.unclaimed,
        "passes": not broken(outcome), "median_error": outcome.median, "p90_error": outcome.p90,
        "largest_error": outcome.max, "details": outcome.details,
    }  # fmt: skip
