"""CSV files of runs of the small machine: parameters in, every counter out, compared with what the file says."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accelsim.digits import whole
from accelsim.errors import AccelsimError, ModelError, Problem, nearest
from accelsim.files.reading import read_text
from accelsim.program.mapping import ORDERS
from tests.validation.base import Check
from tests.validation.golden import golden
from tests.validation.rtl_machine import PARAMETERS, simulate_row

CHOICES: dict[str, Sequence[str]] = {
    "pipelined": ("0", "1"),
    "reuse": ("0", "1"),
    "order": ORDERS,
    "out": ("int32", "int8"),
}
"""Columns that hold one of a few words."""

LEAST = {"L": 0, "shift": 0}
"""Smallest value of a column of whole numbers where it is not 1."""

MOST = {"shift": 31}
"""Largest value of a column of whole numbers where there is one."""

MOST_DETAILS = 20
"""Differences that are listed."""


class Line(NamedTuple):
    """A row of the file: ``where`` is 'file:line', ``cells`` its text by column."""

    where: str
    cells: dict[str, str]


def results() -> list[str]:
    """The result columns, in the order of the golden file."""
    with golden("rtl_machine/machine_golden.csv").open(newline="", encoding="utf-8") as file:
        header = next(csv.reader(file))
    return [name for name in header if name not in (*PARAMETERS, "id")]


def read(path: Path) -> list[Line]:
    """The rows of a file; ModelError with file and line of all that is wrong."""
    try:
        with StringIO(read_text(path), newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = list(reader.fieldnames or [])
            lines = [(f"{path}:{reader.line_num}", row) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise ModelError(Problem(f"cannot be read: {error}", str(path))) from error
    problems = list(_header_problems(header, f"{path}:1", bool(lines)))
    if not problems:
        problems = [problem for where, row in lines for problem in _row_problems(where, row)]
    if problems:
        raise ModelError(problems)
    return [Line(where, row) for where, row in lines]


def _header_problems(header: list[str], where: str, has_rows: bool) -> Iterator[Problem]:
    spare = [name for name in header if name not in PARAMETERS]
    for name in PARAMETERS:
        if name not in header:
            yield Problem(f"column {name!r} is missing", where, ", ".join(PARAMETERS), nearest(name, spare))
        elif header.count(name) > 1:
            yield Problem(f"column {name!r} occurs twice", where)
    if not has_rows:
        yield Problem("has no rows", where)


def _row_problems(where: str, row: dict[Any, Any]) -> Iterator[Problem]:
    if None in row or None in row.values():
        yield Problem("has another number of cells than the header", where)
        return
    for name in PARAMETERS:
        text = row[name].strip()
        if name in CHOICES:
            if text not in CHOICES[name]:
                yield Problem(f"{name} is {text!r}", where, "one of " + ", ".join(CHOICES[name]))
            continue
        least, most = LEAST.get(name, 1), MOST.get(name, 2**20)
        size = whole(text)
        if size is None or not least <= size <= most:
            yield Problem(f"{name} is {text!r}", where, f"a whole number from {least} to {most:,}")


def simulate_lines(lines: Sequence[Line], each: Callable[[], None] = lambda: None) -> list[dict[str, Any]]:
    """Every result of every row; ``each`` is called after each row. ModelError names all rows that cannot run."""
    problems: list[Problem] = []
    found = []
    for line in lines:
        try:
            found.append(simulate_row({name: line.cells[name].strip() for name in PARAMETERS}))
        except AccelsimError as error:
            problems += [Problem(str(problem), line.where) for problem in error.problems]
        each()
    if problems:
        raise ModelError(problems)
    return found


def joined(lines: Sequence[Line], found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The input columns of each row, then every result in the order of the golden file."""
    names = results()
    return [
        {name: cell for name, cell in line.cells.items() if name not in names} | {name: row[name] for name in names}
        for line, row in zip(lines, found, strict=True)
    ]


def compare(lines: Sequence[Line], found: Sequence[dict[str, Any]]) -> Check | None:
    """Our results against the result columns that the file has; None when it has none."""
    names = [name for name in results() if name in lines[0].cells]
    if not names:
        return None
    equal, details = 0, []
    for line, row in zip(lines, found, strict=True):
        off = [f"{name} {row[name]}, the file has {line.cells[name]}" for name in names
               if str(row[name]) != line.cells[name].strip()]  # fmt: skip
        equal += not off
        details += [f"{line.where}: {'; '.join(off)}"] if off else []
    what = f"{len(names)} result columns of each row of the file"
    own = "rows of a file"
    return Check("rtl-machine", what, len(lines), equal, np.zeros(0), details[:MOST_DETAILS], other_rows=own)
