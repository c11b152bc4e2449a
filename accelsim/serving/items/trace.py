"""Recorded requests for items, one a row of a CSV file: arrivals, classes, items of each."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import NamedTuple

from accelsim.errors import Problem, UsageError, nearest
from accelsim.serving.items.line import Arrival
from accelsim.serving.traces import KINDS, Row, read_rows

CLASSES = ("urgent", "other")
"""Names of the usual classes, the first goes first."""
MOST = 10**6
"""Items of a request, at most."""
EXPECTED = {
    "class": " or ".join(CLASSES), "priority": "a whole number of 0 or more, the smallest goes first",
    "items": f"a whole number from 1 to {MOST:,}",
}  # fmt: skip
"""Columns that a trace may lack, and what each takes."""


class Trace(NamedTuple):
    """Recorded requests; their classes by rank, empty where the file has none."""

    arrivals: tuple[Arrival, ...]
    classes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Items a second on average."""
        last_s = self.arrivals[-1].arrival_s
        return sum(each.items for each in self.arrivals) / last_s if last_s else inf


def read_trace(path: Path) -> Trace:
    """Return the requests of a CSV file, or of one with a JSON object a line; the first arrives at 0. Raises UsageError
    with file:line of what is wrong."""
    found = read_rows(path, _columns, _add)
    ranks = sorted({each.rank for each in found if each.rank >= 0})
    names = tuple(f"priority {rank - len(CLASSES)}" if rank >= len(CLASSES) else CLASSES[rank] for rank in ranks)
    first_s = found[0].arrival_s
    arrivals = (each._replace(arrival_s=each.arrival_s - first_s) for each in found)
    return Trace(tuple(each._replace(rank=ranks.index(each.rank) if ranks else 1) for each in arrivals), names)


class _Columns(NamedTuple):
    arrival: str
    kind: int


def _columns(path: Path, names: object) -> _Columns:
    """Return the column of arrivals."""
    given: Sequence[str] = list(names)  # type: ignore[call-overload]
    if "class" in given and "priority" in given:
        raise UsageError("both class and priority", f"{path}:1", "one of these columns")
    tokens = [name for name in given for kind in KINDS if name in (kind.prompt, kind.output)]
    if tokens:
        what = f"tokens of language models, {', '.join(tokens)}"
        raise UsageError(what, f"{path}:1", f"columns of items: an arrival, and perhaps {', '.join(EXPECTED)}")
    for name in given:
        if near := nearest(name, EXPECTED) if name not in EXPECTED else "":
            raise UsageError(
                f"a column {name}", f"{path}:1", f"{KINDS[0].arrival}, and perhaps {', '.join(EXPECTED)}", near
            )
    for at, kind in enumerate(KINDS):
        if kind.arrival in given:
            return _Columns(kind.arrival, at)
    known = " or ".join(kind.arrival for kind in KINDS)
    raise UsageError(f"no column {KINDS[0].arrival}", f"{path}:1", f"a column {known}; perhaps {', '.join(EXPECTED)}")


def _add(found: list[Arrival], problems: list[Problem], columns: _Columns, row: Row, where: str) -> None:
    try:
        arrival_s = KINDS[columns.kind].seconds(row[columns.arrival])
        if not 0 <= arrival_s < inf:
            raise ValueError
        made = Arrival(arrival_s, _rank(row), items=int(row.get("items", 1)))
        if not 1 <= made.items <= MOST:
            raise ValueError
    except (TypeError, ValueError, KeyError):
        given = [name for name in EXPECTED if name in row]
        expected = [f"{columns.arrival} of 0 or more", *(f"{name}: {EXPECTED[name]}" for name in given)]
        what = ", ".join(str(row.get(name)) for name in (columns.arrival, *given))
        problems.append(Problem(what, where, "; ".join(expected)))
        return
    if found and arrival_s < found[-1].arrival_s:
        what = f"{columns.arrival} {row[columns.arrival]} is before that of the row above"
        problems.append(Problem(what, where, "rows in order of arrival"))
    found.append(made)


def _rank(row: Row) -> int:
    """Return a number by which classes are in order: that of a name, or one beyond these; -1 without a class."""
    if "class" in row:
        return CLASSES.index(row["class"])
    if "priority" not in row:
        return -1
    if (priority := int(row["priority"])) < 0:
        raise ValueError
    return len(CLASSES) + priority
