"""Traces: requests that were recorded, one a row of a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from accelsim.errors import Problem, UsageError
from accelsim.serving.requests import Request

SHOWN = 8
"""Problems of a trace that are told."""


class Columns(NamedTuple):
    """Names of the columns of arrivals, prompts and outputs, and how an arrival becomes seconds."""

    arrival: str
    prompt: str
    output: str
    seconds: Callable[[str], float] = float


def _since_epoch(text: str) -> float:
    """Seconds of a date with a time, whose fraction may have 7 digits."""
    whole, _, fraction = text.partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


KINDS = (
    Columns("arrival_s", "prompt", "output"),
    Columns("TIMESTAMP", "ContextTokens", "GeneratedTokens", _since_epoch),  # Azure's of 2023
)
"""Kinds of traces, by their columns."""


def read_trace(path: Path) -> list[Request]:
    """Return the requests of a CSV file; the first arrives at 0. Raises UsageError with file:line of what is wrong."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            columns = _columns(path, rows.fieldnames or [])
            found, problems = list[Request](), list[Problem]()
            for row in rows:
                _add(found, problems, columns, row, f"{path}:{rows.line_num}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot be read: {error}", str(path), "a CSV file") from None
    if not found and not problems:
        problems.append(Problem("no requests", str(path), "a row for each"))
    if len(problems) > SHOWN:
        problems[SHOWN:] = [Problem(f"{len(problems) - SHOWN} more of this kind", str(path))]
    UsageError.raise_for(problems)
    first = found[0].arrival_s
    return [each._replace(arrival_s=each.arrival_s - first) for each in found]


def _columns(path: Path, names: object) -> Columns:
    for kind in KINDS:
        if set(kind[:3]) <= set(names):  # type: ignore[call-overload]
            return kind
    known = " or ".join(", ".join(kind[:3]) for kind in KINDS)
    lacking = ", ".join(name for name in KINDS[0][:3] if name not in names)  # type: ignore[operator]
    raise UsageError(f"no column {lacking}", f"{path}:1", f"the columns {known}")


def _add(found: list[Request], problems: list[Problem], columns: Columns, row: dict[str, str], where: str) -> None:
    try:
        arrival = columns.seconds(row[columns.arrival])
        made = Request(arrival, int(row[columns.prompt]), int(row[columns.output]))
        if not (0 <= arrival < float("inf") and made.prompt > 0 and made.output > 0):
            raise ValueError
    except (TypeError, ValueError):
        expected = f"{columns.arrival} of 0 or more, {columns.prompt} and {columns.output} of 1 or more"
        problems.append(Problem(", ".join(str(row.get(name)) for name in columns[:3]), where, expected))
        return
    if found and arrival < found[-1].arrival_s:
        what = f"{columns.arrival} {row[columns.arrival]} is before that of the row above"
        problems.append(Problem(what, where, "rows in order of arrival"))
    found.append(made)
