"""One GEMM on one array alone, and tables of them: CSV in, CSV out."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path

import numpy as np

from accelsim.digits import whole
from accelsim.engines.systolic.counts import COUNTS, counts
from accelsim.engines.systolic.dataflow import DATAFLOWS
from accelsim.engines.systolic.spec import SHADOW_LOADS
from accelsim.engines.systolic.timing import SCHEDULES, cycles, folds, spatial
from accelsim.errors import ModelError, Problem, nearest
from accelsim.files import table as csv_file
from accelsim.files import write_file
from accelsim.files.reading import read_text
from accelsim.types import Array, Ints

Cell = str | int | float | None
CsvRow = dict[str, Cell]
_Parsed = tuple[tuple[str, ...], list[int]]

NAMES: dict[str, Iterable[str]] = {"dataflow": DATAFLOWS, "schedule": SCHEDULES, "shadow_load": SHADOW_LOADS}
"""Input columns that hold a name -> valid names."""

SIZES = ("array_rows", "array_cols", "gemm_M", "gemm_N", "gemm_K")
"""Input columns that hold a positive integer."""

DEFAULTS = {"shadow_load": "column"}
"""Input columns that may be absent or empty."""

RESULTS = ("cycles", "folds", "utilisation_pct", "mapping_efficiency_pct", "a_reads", "b_reads", *COUNTS)
"""Result columns; ``a_reads`` and ``b_reads`` are the words of A and B read from their memories."""

LARGEST_SLOTS = float(2**61)
"""PE and edge pairs beyond which 64-bit counts could overflow."""


def one(
    rows: int, cols: int, dataflow: str, schedule: str, M: int, N: int, K: int, shadow_load: str = "column"
) -> dict[str, float]:
    """Result of one GEMM on one array alone: the columns :data:`RESULTS`.

    ``utilisation_pct`` is 100 x MACs / (cycles x PEs), ``mapping_efficiency_pct`` the share of the PEs of all
    folds that get a row and a column of the GEMM. Raises ModelError for bad values, all at once.
    """
    row = {"dataflow": dataflow, "schedule": schedule, "shadow_load": shadow_load}
    sizes = dict(zip(SIZES, (rows, cols, M, N, K), strict=True))
    names, numbers = _checked([{**row, **sizes}], [""])[0]
    return {name: column.item() for name, column in zip(RESULTS, _results(names, np.array([numbers])), strict=True)}


def table(rows: Sequence[Mapping[str, Cell]], where: Sequence[str] | None = None) -> list[CsvRow]:
    """Each row's input columns, then :data:`RESULTS`; a result replaces an input column of its name.

    ``where`` names the rows in error texts. Raises ModelError for bad cells, all at once.
    """
    places = where if where is not None else [f"row {index + 1}" for index in range(len(rows))]
    parsed = _checked(rows, places)
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, (names, _) in enumerate(parsed):
        groups.setdefault(names, []).append(index)
    out: list[CsvRow] = [{} for _ in rows]
    for names, members in groups.items():
        sizes = np.array([parsed[index][1] for index in members], np.int64)
        figures = zip(*(column.tolist() for column in _results(names, sizes)), strict=True)
        for index, figure in zip(members, figures, strict=True):
            kept = {name: cell for name, cell in rows[index].items() if name not in _RESULT_NAMES}
            out[index] = kept | dict(zip(RESULTS, figure, strict=True))
    return out


_RESULT_NAMES = frozenset(RESULTS)


def _results(names: tuple[str, ...], sizes: Ints) -> list[Array]:
    """Columns of :data:`RESULTS` for cases ``sizes`` [n, 5] that share their names."""
    dataflow, schedule, shadow_load = names
    R, C, M, N, K = sizes.T
    Sr, Sc, _ = spatial(dataflow, M, N, K)
    along_rows, along_cols = folds(R, C, dataflow, M, N, K)
    total = cycles(R, C, dataflow, schedule, shadow_load, M, N, K)
    count = counts(R, C, dataflow, schedule, M, N, K, shadow_load=shadow_load)
    used = 100.0 * count.macs / (total.astype(float) * R * C)
    mapped = 100.0 * Sr * Sc / (along_rows.astype(float) * along_cols * R * C)
    operands = DATAFLOWS[dataflow].a_and_b(count.row_words, count.col_words)
    return [total, along_rows * along_cols, used, mapped, *operands, *count.as_dict().values()]


def _checked(rows: Sequence[Mapping[str, Cell]], where: Sequence[str]) -> list[_Parsed]:
    """Names and sizes of each row in a fixed order; ModelError with every bad cell."""
    problems: list[Problem] = []
    parsed = [_parse(row, place, problems) for row, place in zip(rows, where, strict=True)]
    ModelError.raise_for(problems)
    return parsed


def _parse(row: Mapping[str, Cell], where: str, problems: list[Problem]) -> _Parsed:
    before = len(problems)
    names = tuple([_name(column, row.get(column), where, problems) for column in NAMES])
    sizes = [_size(column, row.get(column), where, problems) for column in SIZES]
    if len(problems) == before and _slots(names[0], *sizes) > LARGEST_SLOTS:
        problems.append(Problem("the GEMM is too large to count in 64 bits", where, "at most 2^61 PE cycles"))
    return names, sizes


def _slots(dataflow: str, R: int, C: int, M: int, N: int, K: int) -> float:
    T = spatial(dataflow, M, N, K)[2]
    along_rows, along_cols = folds(R, C, dataflow, M, N, K)
    return float(along_rows) * along_cols * R * C * (T + 2.0 * R + C)


def _name(column: str, cell: Cell, where: str, problems: list[Problem]) -> str:
    text = str(cell if cell is not None else "").strip() or DEFAULTS.get(column, "")
    valid = NAMES[column]
    if text not in valid:
        expected = f"one of {', '.join(valid)}"
        problems.append(Problem(f"{column} is {text!r}", where, expected, nearest(text, valid)))
    return text


def _size(column: str, cell: Cell, where: str, problems: list[Problem]) -> int:
    text = str(cell if cell is not None else "").strip()
    size = whole(text)
    if size and size < 2**40:
        return size
    problems.append(Problem(f"{column} is {text!r}", where, "a whole number from 1 to 2^40"))
    return 1


def read_rows(path: str | Path) -> list[CsvRow]:
    """Rows of a CSV file with the input columns (``shadow_load`` may be missing) and any others.

    Raises ModelError with ``file:line`` for what cannot be read, a missing column or a bad cell, all at once.
    """
    try:
        with StringIO(read_text(Path(path)), newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = list(reader.fieldnames or [])
            lines = [(reader.line_num, row) for row in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise ModelError(f"cannot be read: {error}", str(path)) from error
    _check_header(header, f"{path}:1", bool(lines))
    problems: list[Problem] = []
    for line, row in lines:
        if None in row or None in row.values():
            problems.append(Problem("has another number of cells than the header", f"{path}:{line}"))
        else:
            _parse(row, f"{path}:{line}", problems)
    ModelError.raise_for(problems)
    return [dict(row) for _, row in lines]


def _check_header(header: list[str], where: str, has_rows: bool) -> None:
    needed = [column for column in (*NAMES, *SIZES) if column not in DEFAULTS]
    missing = [column for column in needed if column not in header]
    problems = [Problem(f"column {name!r} is missing", where, "", nearest(name, header)) for name in missing]
    twice = [name for name in dict.fromkeys(header) if header.count(name) > 1]
    problems += [Problem(f"column {name!r} occurs twice", where) for name in twice]
    if not problems and not has_rows:
        problems.append(Problem("has no rows", where))
    ModelError.raise_for(problems)


def write_rows(path: str | Path, rows: Sequence[Mapping[str, Cell]]) -> None:
    """Write rows with one set of columns as CSV. Floats get six decimals. UsageError where it cannot be written."""
    header = list(rows[0]) if rows else [*NAMES, *SIZES, *RESULTS]
    write_file(path, csv_file(header, ([_cell(row[column]) for column in header] for row in rows)))


def _cell(value: Cell) -> Cell:
    return f"{value:.6f}" if isinstance(value, float) else value
