"""Rates of requests over time, in a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from pathlib import Path

from accelsim.errors import Problem, UsageError
from accelsim.serving.arrivals import Profile

NAMES = ("time_s", "rate")
"""Columns."""


SHOWN = 8
"""Problems of a file that are told."""


def shortened(problems: Sequence[Problem], path: Path) -> list[Problem]:
    """Return the first problems of a file, and how many more there are."""
    more = len(problems) - SHOWN
    return [*problems[:SHOWN], *([Problem(f"{more:,} more of this kind", str(path))] if more > 0 else [])]


def unread(error: Exception) -> str:
    """Return why a file cannot be read, without the words of Python."""
    why = "it is no text" if isinstance(error, UnicodeError) else getattr(error, "strerror", None) or str(error)
    return f"cannot be read: {why}"


def read_rates(path: Path) -> Profile:
    """Return the profile of a CSV file with the columns time_s and rate (1/s): a rate holds until the next row, the
    last as long as the one before. Raises UsageError with file:line of what is wrong."""
    found, problems = list[tuple[float, float]](), list[Problem]()
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            lacking = [name for name in NAMES if name not in (rows.fieldnames or [])]
            problems += [Problem(f"no column {name}", f"{path}:1", "the columns time_s, rate") for name in lacking]
            for row in () if lacking else rows:
                _add(found, problems, row, f"{path}:{rows.line_num}")
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(unread(error), str(path), "a CSV file") from None
    if not problems and (len(found) < 2 or not any(rate for _, rate in found)):
        problems.append(Problem("no rates", str(path), "two rows or more, one with a rate above 0"))
    UsageError.raise_for(shortened(problems, path))
    lasts = [after - before for (before, _), (after, _) in pairwise(found)]
    return tuple(zip([*lasts, lasts[-1]], [rate for _, rate in found], strict=True))


def _add(found: list[tuple[float, float]], problems: list[Problem], row: dict[str, str], where: str) -> None:
    try:
        time_s, rate = (float(row[name]) for name in NAMES)
        if not (0 <= rate < inf and abs(time_s) < inf):
            raise ValueError
    except (TypeError, ValueError):
        what = ", ".join(str(row[name]) for name in NAMES)
        problems.append(Problem(what, where, "time_s, and a rate of 0 or more per second"))
        return
    if found and time_s <= found[-1][0]:
        what = f"time_s {row['time_s']} is not after that of the row above"
        problems.append(Problem(what, where, "rows in order of time"))
    found.append((time_s, rate))
