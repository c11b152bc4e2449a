"""The answer about several runs side by side: a table, records of all digits, layers, bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from accelsim.account.categories import CATEGORY_NAMES
from accelsim.report.answer import Answer, Lines, Part, Record, Table
from accelsim.report.compare import (
    STAR,
    Metric,
    Source,
    Summary,
    basis,
    category_metric,
    counted,
    grounds_of,
    heading,
    load_summaries,
    metrics_of,
    notes,
)
from accelsim.report.compare_labels import common, labels, settings
from accelsim.report.compare_layers import differences, layer_table
from accelsim.report.looks import CATEGORY_LOOKS
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, note, stacked
from accelsim.report.style import GREY, Look
from accelsim.report.table import GAP, Column
from accelsim.report.table import table as ranked
from accelsim.report.text import ratio, si, wrapped

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


NAME, NOTE = 30, 145
"""Characters of a line of a name in the picture, and of a note."""
LINE_IN = 0.15
"""Height of a line of a name."""


def compare_figure(entries: Sequence[Summary]) -> Picture:
    """Draw bars of latency and of energy per inference by category, relative to the first run, with the figures as
    text."""
    names = ["\n".join(wrapped(name, NAME)) for name in labels(entries)]
    texts = [text for text in (heading(entries), *notes(entries)) if text]
    lines = [part for text in texts for part in wrapped(text, NOTE)]
    heights = (max(0.4, 0.2 + LINE_IN * (1 + name.count("\n"))) for name in names)
    parts = {name: category_metric(name) for name in CATEGORY_NAMES}
    energy = {name: [part.value(entry) or 0.0 for entry in entries] for name, part in parts.items()}
    latency = {"": [entry["latency_s"] for entry in entries]}
    stars = [STAR * bool(each) for each in grounds_of(entries)]
    title, y = f"Energy per {' or '.join(counted(entries))}", Axis(names=names)
    left = _relative(entries, "latency_s", "Latency of one run", latency, [""] * len(entries), y)
    right = _relative(entries, "energy_per_inference_J", title, energy, stars, y)
    height = 1.7 + sum(heights) + LINE_IN * len(lines)
    return Picture(height, [left, right], note="\n".join(lines), legend=4, across=2, share="y")


def relative_to(values: Sequence[float]) -> tuple[float, str]:
    """Return what bars are relative to: the first value, else the largest; and that in words."""
    if values[0]:
        return values[0], "relative to the first run"
    return max(values) or 1.0, "relative to the largest"


def _relative(
    entries: Sequence[Summary],
    shown: str,
    title: str,
    parts: Mapping[str, Sequence[float]],
    stars: Sequence[str],
    y: Axis,
) -> Panel:
    """Return a bar for each run, of parts from left to right, with its value and star; a line is its interval.

    The interval is that of a whole run; of an inference, its share.
    """
    what, unit = shown.partition("_")[0], shown[-1]
    values = [entry[shown] for entry in entries]
    base, words = relative_to(values)
    series = {name: [part / base for part in found] for name, found in parts.items()}
    looks = {name: CATEGORY_LOOKS.get(name, Look(GREY)) for name in series}
    marks: list[Mark] = stacked(range(len(entries)), series, looks, {}, flat=True, wide=0.7)
    farthest = 0.0
    for place, (entry, value, star) in enumerate(zip(entries, values, stars, strict=True)):
        found, scale, end = (
            entry.get(f"{what}_interval"),
            value / (entry[f"{what}_{unit}"] or 1.0) / base,
            value / base,
        )
        if found is not None:
            end = found[f"high_{unit}"] * scale
            marks.append(line([found[f"low_{unit}"] * scale, end], [place, place], linewidth=1))
        times = f" ({ratio(value / base)}{star})" if place and values[0] else ""
        marks.append(note(end, place, si(value, unit) + times, (3, 0)))
        farthest = max(farthest, end)
    title += ", with 90 % interval" * any(entry.get(f"{what}_interval") for entry in entries)
    return Panel(title, marks, Axis(words, low=0, high=1.55 * farthest or 1.0), y, grid="x")
