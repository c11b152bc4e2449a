"""Traces: requests that were recorded, one a row of a CSV file."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from accelsim.errors import Problem, UsageError
from accelsim.serving.rates import shortened, unread
from accelsim.serving.requests import Part, Request


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
    Columns("timestamp", "input_length", "output_length", lambda text: float(text) / 1e3),  # Mooncake's
)
"""Kinds of traces, by their columns."""


PREFIX = ("prefix", "prefix_tokens", "hash_ids")
"""Columns of shared prefixes, which a trace may lack."""
ADAPTER = "adapter"
"""Column of the names of adapters; empty for none."""
HASHED = 512
"""Tokens of a part of a prompt with one of Mooncake's hash_ids; the last part may have fewer."""
Row = Mapping[str, Any]
C = TypeVar("C")
T = TypeVar("T")


def read_trace(path: Path) -> list[Request]:
    """Return the requests of a CSV file, or of one with a JSON object a line (``.jsonl``); the first arrives at 0.
    Raises UsageError with file:line of what is wrong."""
    names = dict[str, int]()
    found = read_rows(path, _columns, partial(_add, names))
    first = found[0].arrival_s
    return [each._replace(arrival_s=each.arrival_s - first) for each in found]


def read_rows(
    path: Path, columns_of: Callable[[Path, object], C], add: Callable[[list[T], list[Problem], C, Row, str], None]
) -> list[T]:
    """Return what rows of a file become, at least one. ``columns_of``: checks the names of columns; ``add``: adds what
    a row becomes, or its problem. Raises UsageError with file:line of what is wrong."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = _json(file) if path.suffix == ".jsonl" else csv.DictReader(file)
            found, problems, columns = list[T](), list[Problem](), None
            for line, row in enumerate(rows, 1 if path.suffix == ".jsonl" else 2):
                columns = columns or columns_of(path, row)
                add(found, problems, columns, row, f"{path}:{line}")
            if isinstance(rows, csv.DictReader) and columns is None:
                columns_of(path, rows.fieldnames or [])
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(unread(error), str(path), "a CSV file, or one JSON object a line") from None
    if not found and not problems:
        problems.append(Problem("no requests", str(path), "a row for each"))
    UsageError.raise_for(shortened(problems, path))
    return found


def _json(lines: Iterable[str]) -> Iterator[Row]:
    for line in lines:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise ValueError(f"{line.strip()!r} is no object")
        yield row


def _prefix(row: Row, prompt: int) -> tuple[Part, ...]:
    """Return the shared parts of a prompt: Mooncake's hash_ids, or the columns prefix and prefix_tokens."""
    if ids := row.get("hash_ids"):
        ids = json.loads(ids) if isinstance(ids, str) else ids
        last = prompt - HASHED * (len(ids) - 1)
        if not 0 < last <= HASHED:
            raise ValueError
        return tuple((int(name), HASHED if at < len(ids) - 1 else last) for at, name in enumerate(ids))
    if not row.get("prefix"):
        return ()
    tokens = int(row["prefix_tokens"])
    if not 0 < tokens <= prompt:
        raise ValueError
    return ((str(row["prefix"]), tokens),)


def _columns(path: Path, names: object) -> Columns:
    for kind in KINDS:
        if set(kind[:3]) <= set(names):  # type: ignore[call-overload]
            return kind
    known = " or ".join(", ".join(kind[:3]) for kind in KINDS)
    lacking = ", ".join(name for name in KINDS[0][:3] if name not in names)  # type: ignore[operator]
    raise UsageError(f"no column {lacking}", f"{path}:1", f"the columns {known}")


def _adapter(names: dict[str, int], row: Row) -> int:
    """Return the number of the adapter of a row, by the order in which names come; 0 for none."""
    name = row.get(ADAPTER)
    return 0 if name in (None, "") else names.setdefault(str(name), 1 + len(names))


def _add(
    names: dict[str, int], found: list[Request], problems: list[Problem], columns: Columns, row: Row, where: str
) -> None:
    try:
        arrival = columns.seconds(row[columns.arrival])
        prompt = int(row[columns.prompt])
        made = Request(arrival, prompt, int(row[columns.output]), _prefix(row, prompt), _adapter(names, row))
        if not (0 <= arrival < float("inf") and made.prompt > 0 and made.output > 0):
            raise ValueError
    except (TypeError, ValueError, KeyError):
        expected = f"{columns.arrival} of 0 or more, {columns.prompt} and {columns.output} of 1 or more"
        own = [name for name in (*columns[:3], *PREFIX) if name in row or name in columns[:3]]
        more = f", a prefix of at most {columns.prompt} tokens" if len(own) > 3 else ""
        problems.append(Problem(", ".join(str(row.get(name)) for name in own), where, expected + more))
        return
    if found and arrival < found[-1].arrival_s:
        what = f"{columns.arrival} {row[columns.arrival]} is before that of the row above"
        problems.append(Problem(what, where, "rows in order of arrival"))
    found.append(made)
