"""What a file is made of: functions that write its content to a binary file that is open."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any

Make = Callable[[IO[bytes]], object]
"""Writes the content of one file to a binary file that is open."""


def content(make: Make) -> bytes:
    """Return what a file would hold."""
    made = io.BytesIO()
    make(made)
    return made.getvalue()


def as_bytes(whole: bytes) -> Make:
    """Makes a file of these bytes."""
    return lambda file: file.write(whole)


def text(pieces: str | Iterable[str]) -> Make:
    """Makes a file of UTF-8 text, in one piece or in many; line ends stay as they are."""
    chunks = (pieces,) if isinstance(pieces, str) else pieces
    return lambda file: file.writelines(chunk.encode("utf-8", "surrogateescape") for chunk in chunks)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Make:
    """Makes a CSV file: a line of column names, then the rows."""

    def make(file: IO[bytes]) -> None:
        stream = io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="")
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        stream.detach()

    return make


def records(rows: Sequence[Mapping[str, Any]]) -> Make:
    """Makes a CSV file of records: columns in the order of first appearance; None and what is missing are empty."""
    header = list(dict.fromkeys(name for row in rows for name in row))
    return table(header, ([row.get(name) for name in header] for row in rows))
