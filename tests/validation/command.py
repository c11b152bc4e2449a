"""The command ``accelsim validate`` in a checkout: run checks, list them, print and draw their outcomes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import click

from accelsim.cli.common import progress, width
from accelsim.errors import Gather, Problem, UsageError, nearest
from accelsim.report.answer import Answer, Definitions, Field, Lines, Part, Table
from tests import validation as package
from tests.validation.base import CHECKS, Check
from tests.validation.claims import CLAIMS, Claim, broken
from tests.validation.measured import FILES, VARIABLE, missing

TABLE = "rtl-machine"
"""The check that also takes rows from a file."""


SMALL = 5e-4
"""Relative errors below this are written as powers of ten."""


def validate(
    gather: Gather, names: tuple[str, ...], rows: Path | None, data: Path | None, pictures: Path | None,
    details: bool, only_list: bool,
) -> Answer:  # fmt: skip
    """Run the checks ``names`` (all when empty) with the options of the command; the answer fails where one does.

    Raises UsageError for unknown checks and for folders of measurements that lack files.
    """
    if data is not None:
        with gather.also():
            _measured(data)
    if rows is not None:
        outcomes, table = _rows(gather, names, rows)
    else:
        checks = all_checks()
        unknown = [name for name in names if name not in checks]
        with gather.also():
            if unknown:
                expected = "one of " + ", ".join(checks)
                raise UsageError(Problem(f"no check {name!r}", "", expected, nearest(name, checks)) for name in unknown)
        gather.done()
        if only_list:
            return _list(checks)
        outcomes = _run(names or tuple(checks), checks)
        table = [{key: value for key, value in _facts(each).items() if key != "details"} for each in outcomes]
    if pictures is not None:
        _pictures(outcomes, pictures)
    return Answer(
        [_facts(outcome) for outcome in outcomes], _shown(outcomes, details), table,
        fails=any(broken(outcome) for outcome in outcomes),
    )  # fmt: skip


def _measured(data: Path) -> None:
    """The folder of measured rows, for this command. Raises UsageError for what is none."""
    if not data.is_dir():
        raise UsageError(Problem("no such folder", f"--data {data}", "a folder with " + ", ".join(FILES)))
    lacking = missing(data)
    if lacking:
        raise UsageError(Problem(f"not there: {', '.join(lacking)}", f"--data {data}", "the folder of measured rows"))
    os.environ[VARIABLE] = str(data)


def _pictures(outcomes: Sequence[Check], folder: Path) -> None:
    """A picture of each check that compares times, in a folder that is made if need be."""
    from accelsim import files
    from accelsim.report.style import picture
    from tests.validation.kernel_plot import against_measured

    makers = {
        f"{outcome.name}.png": picture(against_measured(f"{outcome.name}: {outcome.what}", outcome.compared), ".png")
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


def _list(checks: dict[str, Any]) -> Answer:
    """Return what each check compares and how long it takes."""
    rows = [
        {"name": name, "what": claim.what, "takes": claim.takes, "measured_s": claim.seconds}
        for name, claim in ((name, CLAIMS[name]) for name in checks)
    ]
    told = [(name, f"{CLAIMS[name].what} ({_time(CLAIMS[name])})") for name in checks]
    return Answer(rows, [Definitions(told)], rows)


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


def _rows(gather: Gather, names: tuple[str, ...], rows: Path) -> tuple[list[Check], list[dict[str, Any]]]:
    """The outcome of the rows of a file through the machine, and the rows with their results."""
    from tests.validation import rtl_table

    with gather.also():
        if names != (TABLE,) or click.get_current_context().params["csv"] is None:
            expected = f"both, and the one check {TABLE}"
            raise UsageError(Problem("--rows FILE and --csv RESULTS", expected=expected))
    gather.done()
    lines = rtl_table.read(rows)
    with progress(len(lines)) as stage:
        found = rtl_table.simulate_lines(lines, lambda: stage(TABLE, 0.0))
    outcome = rtl_table.compare(lines, found)
    return [outcome] if outcome is not None else [], rtl_table.joined(lines, found)


def _error(value: float | None) -> str:
    """A relative error: in percent, or as a power of ten where that would have too many zeros."""
    if value is None:
        return "-"
    return f"{100 * value:.1f}%" if value >= SMALL or not value else f"{value:.1e}"


FIELDS = (
    Field("name", "check"), Field("rows", "rows", "{:,}".format), Field("equal", "agree", "{:,}".format),
    Field("bound", "bound"), Field("verdict", "verdict"), Field("median", "median error", _error),
    Field("p90", "90th percentile", _error), Field("max", "largest", _error),
)  # fmt: skip


def _shown(outcomes: Sequence[Check], details: bool) -> list[Part]:
    shown: list[Part] = []
    if outcomes:
        rows = [
            {key: getattr(each, key) for key in ("name", "rows", "equal", "bound")}
            | {"verdict": verdict(each)}
            | {key: getattr(each, key) if each.errors.size else None for key in ("median", "p90", "max")}
            for each in outcomes
        ]
        shown.append(Table(FIELDS, rows))
    for each in outcomes:
        if details or broken(each):
            lines = [broken(each), *each.details] if each.equal == each.rows and broken(each) else each.details
            told = (click.wrap_text(line, width(), "  ", "    ") for line in lines)
            shown.append(Lines("\n".join([f"\n{each.name}: {each.what}", *told])))
    return shown


def _facts(outcome: Check) -> dict[str, Any]:
    return {
        "name": outcome.name, "what": outcome.what, "rows": outcome.rows, "equal": outcome.equal,
        "bound": outcome.bound, "unclaimed": outcome.unclaimed,
        "passes": not broken(outcome), "median_error": outcome.median, "p90_error": outcome.p90,
        "largest_error": outcome.max, "details": outcome.details,
    }  # fmt: skip
