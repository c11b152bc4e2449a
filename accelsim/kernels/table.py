"""Tables of kernels, one row each, with the times that were measured where they say so: read, checked, grouped.

Columns: ``op``, ``dtype`` (or ``precision``), ``device``, ``time_us`` (or ``time_ms``) and, by the kind of kernel,
``B, M, K, N`` | ``rows, cols`` | ``B, C_in, C_out, kernel, H_W, stride, padding`` or those of DeepBench
(``n, c, h, w, k, filter_h, filter_w, out_h, out_w, stride_w, direction``) | ``tokens, kv, heads, kv_heads, head_dim`` |
``bytes``. Capital and small letters are the same where no column has the other.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from accelsim.errors import Problem, UsageError, nearest
from accelsim.files.reading import read_text
from accelsim.formats.table import FORMATS as KNOWN_FORMATS
from accelsim.kernels.ops import FAMILY_OF, FORMATS, SERVING, SIZES
from accelsim.kernels.rows import READERS, Cells, Wrong, number
from accelsim.spec.serving import served
from accelsim.types import Floats, Ints

MOST_B = 2**26
"""Bytes of a table that is read: 64 MiB; a kernel takes about 50."""
MOST_SHOWN = 20
"""Problems of a table that are shown one by one."""


class Group(NamedTuple):
    """Kernels of one family and format: their numbers in the table, and their columns."""

    family: str
    format: str
    rows: Ints
    columns: Mapping[str, Floats]


@dataclass(frozen=True)
class Table:
    """Kernels as a file has them: ``header`` and ``cells`` as they are, line of each row and its time (s, NaN where
    there is none); ``groups`` for predictions."""

    path: Path
    header: Sequence[str]
    cells: Sequence[Cells]
    lines: Sequence[int]
    measured: Floats
    groups: Sequence[Group]

    @cached_property
    def ops(self) -> list[str]:
        """Return the op of each row."""
        return [row["op"].strip() for row in self.cells]

    @cached_property
    def devices(self) -> list[str]:
        """Return the device of each row, '' where it names none."""
        return [row.get("device", "").strip() for row in self.cells]

    def where(self, row: int) -> str:
        """Return file:line of a row."""
        return f"{self.path}:{self.lines[row]}"

    def of_device(self, device: str | None, names: Sequence[str]) -> Table:
        """The rows of a device; of None those of ``names``, and those that name none. Raises UsageError without any."""
        called = (device,) if device else names
        rows = [row for row, name in enumerate(self.devices) if name in called or (not device and not name)]
        if not rows:
            there, asked = list(dict.fromkeys(self.devices)), device or names[0]
            expected = f"--device with one of: {', '.join(there)}"
            raise UsageError(f"no rows of {asked}", str(self.path), expected, nearest(asked, there))
        return self.only(rows)

    def only(self, rows: Sequence[int]) -> Table:
        """Return the table of some rows, in their order."""
        place = {row: index for index, row in enumerate(rows)}
        groups = []
        for group in self.groups:
            kept = [index for index, row in enumerate(group.rows.tolist()) if row in place]
            if kept:
                columns = {name: values[kept] for name, values in group.columns.items()}
                numbers = np.array([place[int(group.rows[index])] for index in kept])
                groups.append(Group(group.family, group.format, numbers, columns))
        return replace(
            self,
            cells=[self.cells[row] for row in rows],
            lines=[self.lines[row] for row in rows],
            measured=self.measured[list(rows)],
            groups=groups,
        )


def joined(tables: Sequence[Table]) -> Table:
    """Return one table of the rows of several, in their order; columns that only some have are empty in the others."""
    if len(tables) == 1:
        return tables[0]
    header = list(dict.fromkeys(name for table in tables for name in table.header))
    starts = np.cumsum([0, *(len(table.ops) for table in tables)])
    parts: dict[tuple[str, str], list[Group]] = {}
    for start, table in zip(starts, tables, strict=False):
        for group in table.groups:
            key = (group.family, group.format)
            parts.setdefault(key, []).append(group._replace(rows=group.rows + start))
    groups = [
        Group(
            *key,
            np.concatenate([each.rows for each in found]),
            {name: np.concatenate([each.columns[name] for each in found]) for name in found[0].columns},
        )
        for key, found in parts.items()
    ]
    return Table(
        Path(", ".join(str(table.path) for table in tables)),
        header,
        [{**dict.fromkeys(header, ""), **cells} for table in tables for cells in table.cells],
        [line for table in tables for line in table.lines],
        np.concatenate([table.measured for table in tables]),
        groups,
    )


def read_table(path: Path, timed: bool = False) -> Table:
    """Read a table of kernels. ``timed``: each row must have a time.

    Raises UsageError with everything that is wrong, each with file and line: no such file, columns that lack, ops and
    formats that nobody knows, numbers that are none.
    """
    header, cells, lines = _read(path)
    problems: list[Problem] = []
    found: list[tuple[str, str, Mapping[str, float]]] = []
    times = []
    for row, line in zip(cells, lines, strict=True):
        try:
            found.append(_kernel(row))
            times.append(_time(row, timed))
        except Wrong as wrong:
            problems.append(Problem(wrong.what, f"{path}:{line}", wrong.expected, wrong.near))
    if problems:
        raise UsageError(shortened(problems, path))
    if not cells:
        raise UsageError("no rows", str(path), "kernels, one a line")
    return Table(path, header, cells, lines, np.array(times), list(_grouped(found)))


def shortened(problems: Sequence[Problem], path: Path) -> list[Problem]:
    """Return the first problems of a table, and how many there are more."""
    more = len(problems) - MOST_SHOWN
    return [*problems[:MOST_SHOWN], *([Problem(f"and {more:,} rows more", str(path))] if more > 0 else [])]


def named_sizes(op: str, sizes: Sequence[str], without: str = "") -> dict[str, str]:
    """Return the sizes of a kernel as the cells of a row: each is NAME=VALUE, or stands in the order of its family.

    ``without``: a size that is left out of that order. Raises UsageError.
    """
    if op not in FAMILY_OF:
        raise UsageError(f"op {op!r} is no kernel", "", ", ".join(FAMILY_OF), nearest(op, FAMILY_OF))
    order = ("bytes",) if op == "copy" and len(sizes) == 1 else SIZES[FAMILY_OF[op]]
    names = [name for name in order if name != without]
    plain = [text for text in sizes if "=" not in text]
    if len(plain) > len(names):
        raise UsageError(f"{len(plain)} sizes of a {op}", "", " ".join(names))
    return dict(zip(names, plain, strict=False)) | dict(text.split("=", 1) for text in sizes if "=" in text)


def one(op: str, dtype: str, cells: Mapping[str, str]) -> Table:
    """Return a table of one kernel, from the columns of a row. Raises UsageError."""
    return several(op, dtype, [cells])


def several(op: str, dtype: str, rows: Sequence[Mapping[str, str]]) -> Table:
    """A table of kernels of one op, from the columns of each row. Raises UsageError for the first that cannot be."""
    cells = [{"op": op, "dtype": dtype, **row} for row in rows]
    try:
        kernels = [_kernel(row) for row in cells]
    except Wrong as wrong:
        raise UsageError(wrong.what, "", wrong.expected, wrong.near) from None
    count = len(cells)
    lines, times = list(range(1, count + 1)), np.full(count, np.nan)
    return Table(Path("-"), list(cells[0]), cells, lines, times, list(_grouped(kernels)))


def _read(path: Path) -> tuple[list[str], list[Cells], list[int]]:
    try:
        text = read_text(path, MOST_B)
    except (OSError, ValueError) as error:
        why = "it is no text" if isinstance(error, UnicodeError) else getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read it: {why}", str(path), "a CSV file") from None
    reader = csv.reader(text.splitlines())
    try:
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise UsageError(f"no CSV: {error}", f"{path}:{reader.line_num}") from None
    if not rows:
        raise UsageError("an empty file", str(path), "a line of column names, and rows")
    header = [name.strip() for name in rows[0][1]]
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if "op" not in header or twice:
        what = f"column {twice[0]} twice" if twice else "no column op"
        raise UsageError(what, f"{path}:{rows[0][0]}", "op, dtype, sizes, time_us", nearest("op", header))
    ragged = [
        Problem(f"{len(row)} cells", f"{path}:{line}", f"{len(header)}, one for each column")
        for line, row in rows[1:]
        if len(row) != len(header)
    ]
    if ragged:
        raise UsageError(ragged[:MOST_SHOWN])
    cells: list[Cells] = [dict(zip(header, row, strict=True)) for _, row in rows[1:]]
    return header, cells, [line for line, _ in rows[1:]]


def _kernel(row: Cells) -> tuple[str, str, Mapping[str, float]]:
    """Family, format and columns of a row."""
    op = row["op"].strip()
    family = FAMILY_OF.get(op)
    if family is None:
        raise Wrong(f"op {op!r} is no kernel", ", ".join(FAMILY_OF), nearest(op, FAMILY_OF))
    text = (row.get("dtype") or row.get("precision") or "").strip()
    name = FORMATS.get(text, text)
    if name not in KNOWN_FORMATS and (op not in SERVING or served(name) is None):
        raise Wrong(f"dtype {text!r} is no number format", "fp32, fp16, bf16, int8, ...", nearest(name, KNOWN_FORMATS))
    return family, name, READERS[family](row, op, name)


def _time(row: Cells, needed: bool) -> float:
    for column, unit in (("time_us", 1e-6), ("time_ms", 1e-3)):
        if row.get(column, "").strip():
            return number(row, column) * unit
    if needed:
        raise Wrong("no time", "a column time_us or time_ms")
    return float("nan")


def _grouped(found: Sequence[tuple[str, str, Mapping[str, float]]]) -> Iterator[Group]:
    keys = dict.fromkeys((family, name) for family, name, _ in found)
    for family, name in keys:
        rows = [index for index, each in enumerate(found) if each[:2] == (family, name)]
        columns = {key: np.array([found[row][2][key] for row in rows]) for key in found[rows[0]][2]}
        yield Group(family, name, np.array(rows), columns)
