"""The answer about several runs side by side: a table, records of all digits, layers, bars."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.account.categories import CATEGORIES
from accelsim.account.latency import layers as layers_of
from accelsim.account.titles import is_own
from accelsim.errors import UsageError, count_of
from accelsim.files.reading import read_text
from accelsim.machine.run import Run
from accelsim.report.answer import Answer, Field, Lines, Part, Record, in_unit
from accelsim.report.compare import (
    STAR,
    Metric,
    Source,
    Summary,
    basis,
    category_metric,
    common,
    counted,
    heading,
    labels,
    load_summaries,
    metrics_of,
    notes,
    records,
    settings,
)
from accelsim.report.looks import CATEGORY_LOOKS
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, note, stacked
from accelsim.report.style import GREY, Look
from accelsim.report.table import GAP, Column
from accelsim.report.table import table as ranked
from accelsim.report.text import MISSING, Facts, cut, ratio, si, wrapped
from accelsim.time import FS

if TYPE_CHECKING:
    from rich.table import Table as RichTable

LEAST_LABEL, RATIO = 12, 8
"""Characters of a line of a label at least, of a ratio at most."""
LAYERS = "layers.csv"
SHARED = 0.5
"""Share of the layers of the longer run that the other must have too, or the models are not one."""
LEAST_NAME = 20
SIDES = ("first", "second")
FIGURES = ("time_s", "energy_J", "bound_by")
"""Figures compared of a layer: the time that it adds, its energy, what it is bound by."""
KEPT = ((0, 1, 2, 3, 4, 5, 6, 7, 8), (0, 1, 2, 3, 4, 5, 7, 8), (0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 7, 8), (0, 1, 2, 3))
"""Columns that stay, from all to the least."""


def compare(sources: Sequence[Source], layers: int | None = None) -> Answer:
    """Compare several runs; ``layers``: show so many layers of two runs of one model too (``rows`` has all).

    UsageError as for ``load_summaries``, and where ``layers`` cannot be compared.
    """
    entries = load_summaries(sources)
    rows: Sequence[Record] = records(entries)
    runs = [{**row, "settings": settings(entry)} for row, entry in zip(rows, entries, strict=True)]
    facts = {"tool": "accelsim", "common": common(entries), "runs": runs, "notes": notes(entries)}
    text, said = heading(entries), basis(entries)
    shown: list[Part] = [*([text, ""] if text else []), partial(run_table, rows, metrics_of(entries))]
    shown += ["", Lines(said)] if said else []
    shown += [part for each in notes(entries) for part in ("", each)]
    if layers is not None:
        rows = facts["layers"] = differences(sources)
        one, two = runs
        legend = f"Layers by the difference of the time that they add. First: {one['run']}; second: {two['run']}."
        shown += ["", legend, "", partial(layer_table, rows, bool(two["unlike"]), layers)]
    return Answer(facts, shown, rows, {"comparison": partial(compare_figure, entries)})


def run_table(rows: Sequence[Record], metrics: Sequence[Metric], width: int) -> RichTable:
    """Lay out ``records``: a column per run where they fit, else a row; a column for each ratio to the first.

    'energy' and the rows 'E ...' (its parts) are per inference. No value is ever cut: where the width is short, columns
    go, the least important first.
    """
    cells = [_cells(metric, rows) for metric in metrics]
    first = max(len(metric.title) for metric in metrics)
    room = (width - first - (len(rows) - 1) * (RATIO + GAP)) // len(rows) - GAP
    by_column = room >= LEAST_LABEL
    names = ["\n".join(wrapped(row["run"], room if by_column else max(LEAST_LABEL, width // 3))) for row in rows]
    if by_column:
        columns = [Column("", right=False), Column(names[0])]
        columns += [column for name in names[1:] for column in (Column(name), Column("ratio"))]
        figures = [[metric.title, row[0], *row[2:]] for metric, row in zip(metrics, cells, strict=True)]
        return ranked(columns, figures, width)
    columns = [Column("run", 0, right=False)]
    for rank, metric in enumerate(metrics):
        columns += [Column(metric.title, 2 * rank), Column("ratio", 2 * rank + (rank > 0))]
    pairs = [[cell for row in cells for cell in row[2 * at : 2 * at + 2]] for at in range(len(rows))]
    return ranked(columns, [[name, *each] for name, each in zip(names, pairs, strict=True)], width)


def _cells(metric: Metric, rows: Sequence[Record]) -> list[str]:
    """Return one figure of each run and its ratio to the first, '' where there is none."""
    starred, cells = any(row.get("unlike") for row in rows), list[str]()
    for row in rows:
        times, mark = row.get(f"ratio_of_{metric.column}"), metric.star(row) or " " * starred
        cells += [metric.text(row[metric.column]), "" if times is None else f"{ratio(times)}{mark}"]
    return cells


def differences(sources: Sequence[Source]) -> list[Record]:
    """Return every layer of either run, matched by name, the largest difference of time first, then of energy.

    None where a run lacks the layer, which takes no time there. Raises UsageError unless there are two runs of one
    model: most layers of both have one name.
    """
    if len(sources) != 2:
        raise UsageError(f"layers of {count_of(len(sources), 'run')}", "--layers", "two runs of one model")
    first, second = map(_figures_by_layer, sources)
    shared, most = len(first.keys() & second.keys()), max(len(first), len(second))
    if shared < SHARED * most:
        raise UsageError(f"{shared} of {most} layers have one name", "--layers", "two runs of one model")
    found = []
    for key in {**first, **second}:
        title, sides = (first.get(key) or second[key])[0], [each.get(key, (None,) * 4)[1:] for each in (first, second)]
        row: Facts = {"name": key[0], "title": title}
        for figure, values in zip(FIGURES, zip(*sides, strict=True), strict=True):
            row |= {f"{side}_{figure}": value for side, value in zip(SIDES, values, strict=True)}
        for figure in FIGURES[:2]:
            row[f"difference_{figure}"] = (row[f"second_{figure}"] or 0.0) - (row[f"first_{figure}"] or 0.0)
        found.append(row)
    return sorted(found, key=lambda row: (-abs(row["difference_time_s"]), -abs(row["difference_energy_J"])))


def _figures_by_layer(source: Source) -> dict[tuple[str, int], tuple[Any, ...]]:
    """(Name of a layer, how many of that name came before) -> its title and ``FIGURES``."""
    found, seen = {}, Counter[str]()
    for name, *rest in _of_run(source) if isinstance(source, Run) else _of_report(Path(source)):
        found[name, seen[name]] = tuple(rest)
        seen[name] += 1
    return found


def _of_run(run: Run) -> Iterator[tuple[str, str, float, float, str]]:
    for layer in layers_of(run):
        yield layer.name, layer.title, layer.added_fs * FS, layer.energy_J, layer.bound_key


def _of_report(folder: Path) -> list[tuple[str, str, float, float, str]]:
    """Layers of the report; UsageError where its file of layers cannot be read or is not of this version."""
    try:
        text = read_text(folder / LAYERS)
        return [
            (row["name"], row["title"], int(row["added_fs"]) * FS, float(row["energy_J"]), row["bound_by"])
            for row in csv.DictReader(io.StringIO(text, newline=""))
        ]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        expected = "a report of this version ('accelsim rerun' makes it again)"
        raise UsageError("cannot be read", str(folder / LAYERS), expected) from error


def layer_table(found: Sequence[Record], unlike: bool, most: int | None, width: int) -> RichTable:
    """Lay out the differences, ``most`` of them at most, with the totals of all layers; ``unlike``: energies of the two
    runs do not rest on the same figures. No value is ever cut: where the width is short, whole columns go.
    """
    fields = [Field("name", form=_name, whole=True, look=Column("layer", right=False, least=LEAST_NAME, shorten=cut))]
    for figure, what, unit, mark in (("time_s", "time", "s", ""), ("energy_J", "energy", "J", STAR * unlike)):
        fields += [Field(f"{side}_{figure}", form=in_unit(unit), look=Column(f"{what}\n{side}")) for side in SIDES]
        fields.append(Field(figure, form=partial(_times, figure, mark), whole=True, look=Column("ratio")))
    fields += [Field(f"{side}_bound_by", form=_bound, look=Column(f"bound by\n{side}", right=False)) for side in SIDES]
    sums = {
        f"{side}_{figure}": sum(row[f"{side}_{figure}"] or 0.0 for row in found)
        for side in SIDES
        for figure in FIGURES[:2]
    }
    total = {"name": "total", "title": "", "first_bound_by": "", "second_bound_by": "", **sums}
    rows = [[each.cell(row) for each in fields] for row in (*found[:most], total)]
    columns = [each.look for each in fields if each.look]
    for kept in KEPT:
        heads = [columns[i].title for i in kept]
        cells = [[row[i] for i in kept] for row in rows]
        wide = (
            max(len(text) for cell in each for text in cell.split("\n")) + GAP
            for each in zip(heads, *cells, strict=True)
        )
        if sum(list(wide)[1:]) + LEAST_NAME <= width:
            break
    return ranked([columns[i] for i in kept], cells[:-1], width, footer=cells[-1])


def _name(row: Record) -> str:
    return row["name"] if is_own(row["name"]) or not row["title"] else f"{row['name']} {row['title']}"


def _times(figure: str, mark: str, row: Record) -> str:
    one, two = row[f"first_{figure}"], row[f"second_{figure}"]
    return f"{ratio(two / one)}{mark}" if one and two is not None else ""


def _bound(key: str | None) -> str:
    return MISSING if key is None else key.replace("_", " ")


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
    parts = {name: category_metric(name) for name in CATEGORIES}
    energy = {name: [part.value(entry) or 0.0 for entry in entries] for name, part in parts.items()}
    latency = {"": [entry["latency_s"] for entry in entries]}
    stars = [STAR * bool(row.get("unlike")) for row in records(entries)]
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
