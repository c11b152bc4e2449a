"""The answer about several runs side by side: a table, records of all digits, layers, bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from accelsim.report.answer import Answer, Lines, Part, Record, Table
from accelsim.report.compare import (
    STAR,
    Metric,
    Source,
    Summary,
    basis,
    grounds_of,
    heading,
    load_summaries,
    metrics_of,
    notes,
)  # fmt: skip
from accelsim.report.compare_labels import common, labels, settings
from accelsim.report.compare_layers import differences, layer_table
from accelsim.report.compare_plot import compare_figure
from accelsim.report.table import GAP, Column
from accelsim.report.table import table as ranked
from accelsim.report.text import ratio, wrapped

if TYPE_CHECKING:
    from rich.table import Table as RichTable

LEAST_LABEL, RATIO = 12, 8
"""Characters of a line of a label at least, of a ratio at most."""
WHAT = ("source", "chip", "model", "dtype", "batch", "values", "memory_model")
"""Keys of a summary that say what was run."""


def compare(sources: Sequence[Source], layers: int | None = None) -> Answer:
    """Several runs side by side; ``layers``: so many layers of two runs of one model too, in ``rows`` all of them.

    UsageError as for ``load_summaries``, and where ``layers`` cannot be compared.
    """
    entries = load_summaries(sources)
    rows: Sequence[Record] = records(entries)
    runs = [{**row, "settings": settings(entry)} for row, entry in zip(rows, entries, strict=True)]
    facts = {"tool": "accelsim", "common": common(entries), "runs": runs, "notes": notes(entries)}
    text, said = heading(entries), basis(entries)
    shown: list[Part] = [*([text, ""] if text else []), Runs((), (), entries=entries)]
    shown += ["", Lines(said)] if said else []
    shown += [part for note in notes(entries) for part in ("", note)]
    if layers is not None:
        rows = facts["layers"] = differences(sources)
        one, two = labels(entries)
        legend = f"Layers by the difference of the time that they add. First: {one}; second: {two}."
        shown += ["", legend, "", layer_table(rows, bool(grounds_of(entries)[1]), layers)]
    return Answer(facts, shown, rows, {"comparison": partial(compare_figure, entries)})


@dataclass(frozen=True)
class Runs(Table):
    """A column per run where they fit, else a row; a column for each ratio to the first.

    'energy' and the rows 'E ...' (its parts) are per inference. No value is ever cut: where the width is short, columns
    go, the least important first.
    """

    entries: Sequence[Summary] = ()

    def shown(self, terminal: int) -> RichTable:
        """The table for a terminal of so many characters."""
        names, metrics = labels(self.entries), metrics_of(self.entries)
        cells = [_cells(metric, self.entries) for metric in metrics]
        first = max(len(metric.title) for metric in metrics)
        room = (terminal - first - (len(names) - 1) * (RATIO + GAP)) // len(names) - GAP
        if room >= LEAST_LABEL:
            return _run_by_column(names, metrics, cells, terminal, room)
        return _run_by_row(names, metrics, cells, terminal)


def _run_by_column(
    names: Sequence[str], metrics: Sequence[Metric], cells: Sequence[Sequence[str]], width: int, room: int
) -> RichTable:
    columns = [Column("", right=False)]
    for index, name in enumerate(names):
        columns += [Column("ratio")] * (index > 0)
        columns.insert(len(columns) - (index > 0), Column("\n".join(wrapped(name, room))))
    return ranked(columns, [[metric.title, *row] for metric, row in zip(metrics, cells, strict=True)], width)


def _run_by_row(
    names: Sequence[str], metrics: Sequence[Metric], cells: Sequence[Sequence[str]], width: int
) -> RichTable:
    room = max(LEAST_LABEL, width // 3)
    columns = [Column("run", 0, right=False)]
    for rank, metric in enumerate(metrics):
        columns += [Column(metric.title, 2 * rank), Column("ratio", 2 * rank + (rank > 0))]
    rows = []
    for index, name in enumerate(names):
        at = slice(2 * index - 1, 2 * index + 1)
        pairs = [part for row in cells for part in (row[at] if index else (row[0], ""))]
        rows.append(["\n".join(wrapped(name, room)), *pairs])
    return ranked(columns, rows, width)


def _cells(metric: Metric, entries: Sequence[Summary]) -> list[str]:
    """The values of one metric; from the second run on each with its ratio to the first."""
    first, grounds = metric.value(entries[0]), grounds_of(entries)
    starred = any(grounds)
    cells = [metric.text(first)]
    for entry, unlike in zip(entries[1:], grounds[1:], strict=True):
        value = metric.value(entry)
        times = _ratio(value, first)
        mark = STAR if unlike & set(metric.grounds) else " " * starred
        cells += [metric.text(value), f"{ratio(times)}{mark}" if times is not None else ""]
    return cells


def records(entries: Sequence[Summary]) -> list[Summary]:
    """A row for each run: its label, what it is, every figure with all digits, and from the second run on the ratios
    to the first (``ratio_of_...``) with ``unlike``: grounds on which energies are not like those of the first."""
    names, metrics, grounds = labels(entries), metrics_of(entries), grounds_of(entries)
    rows: list[Summary] = []
    for name, entry, unlike in zip(names, entries, grounds, strict=True):
        figures = {metric.column: metric.value(entry) for metric in metrics}
        row = {"run": name, **{key: entry.get(key) for key in WHAT}, **figures}
        if rows:
            row |= {f"ratio_of_{key}": _ratio(value, rows[0][key]) for key, value in figures.items()}
            row["unlike"] = sorted(unlike)
        rows.append(row)
    return rows


def _ratio(value: float | None, first: float | None) -> float | None:
    if value is None or not first:
        return None
    found = value / first
    return found if isfinite(found) else None
