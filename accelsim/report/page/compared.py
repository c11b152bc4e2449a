"""Saved runs side by side as a page has them: totals, energy by category, layers matched by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from accelsim.errors import count_of
from accelsim.report.compare import (
    Metric,
    Summary,
    basis,
    common_metrics,
    heading,
    labels,
    load_summaries,
    metrics_of,
    notes,
    records,
)
from accelsim.report.layer_plots import NAME_WIDTH
from accelsim.report.page.data import section
from accelsim.report.page.document import Entry
from accelsim.report.page.form import Comparison, Line, Section
from accelsim.report.page.pictures import Drawn
from accelsim.report.picture import Axis, Panel, Picture, bars, beside
from accelsim.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from accelsim.report.text import MISSING, ratio, shorten, si, signed
from accelsim.time import FS

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION)
"""Colours of the runs, in turn."""
PART = "E "
"""Prefix of the titles of energy categories."""


def labelled(entries: Sequence[Entry], folders: Sequence[Path]) -> list[Entry]:
    """The entries with the names that tell the runs apart."""
    names = labels(load_summaries(folders))
    return [entry._replace(label=name) for entry, name in zip(entries, names, strict=True)]


def comparison(entries: Sequence[Entry], folders: Sequence[Path]) -> Comparison:
    """Return what the page says of all runs together; ``entries`` have their labels."""
    summaries = load_summaries(folders)
    names = [entry.label for entry in entries]
    lines = _lines(entries)
    shared = sum(all(time is not None for time in line["time_s"]) for line in lines)
    whole, metrics = common_metrics(summaries), metrics_of(summaries)
    rows = [{**row, "run": name} for row, name in zip(records(summaries), names, strict=True)]
    told = [heading(summaries)] if heading(summaries) else []
    return {
        "title": f"{count_of(len(entries), 'run')} side by side",
        "sentences": [*(f"{text}." for text in told), *_differences(summaries, names), *notes(summaries)],
        "tables": [
            _table("Totals", whole, rows, basis(summaries)),
            _table("Energy by category", metrics[len(whole) :], rows, ""),
        ],
        "runs": names,
        "rows": lines,
        "lines": {"names": [line["name"] for line in lines], "told": [list(_told(line, names)) for line in lines]},
        "pictures": [_picture(lines, names, shared).data()],
    }


def _picture(lines: Sequence[Line], names: Sequence[str], shared: int) -> Drawn:
    """Return bars of time and of energy by layer, a colour for each run."""
    caption = (
        f"Layers are matched by their names in the models: {shared} of {len(lines)} lines are in all runs. "
        "Differences are to the first run."
    )
    parts = {"first": 0, "count": len(lines), "flat": True}
    panels = []
    figures = {"s": [line["time_s"] for line in lines], "J": [line["energy_J"] for line in lines]}
    for what, (unit, of_lines) in zip(("time", "energy"), figures.items(), strict=True):
        marks = []
        for number, name in enumerate(names):
            values = [each[number] or 0.0 for each in of_lines]
            places = np.arange(len(lines)) + beside(number, len(names))
            page = {"columns": {"line": range(len(lines))}}
            marks.append(
                bars(places, values, name, COLOURS[number % len(COLOURS)], wide=0.8 / len(names), flat=True, page=page)
            )
        y = Axis(names=[shorten(line["name"], NAME_WIDTH) for line in lines])
        panels.append(Panel("", marks, Axis(what, unit, low=0), y, page={"parts": parts}))
    return Drawn("compare", "Layers side by side", caption, Picture(1 + 0.19 * len(lines), panels, across=2))


def _told(line: Line, names: Sequence[str]) -> Iterator[str]:
    """Yield what the page says of a line: its title, and the figures of each run."""
    yield from [line["title"]] * (line["title"] != line["name"])
    for name, time_s, energy_J, bound in zip(names, line["time_s"], line["energy_J"], line["bound"], strict=True):
        yield (
            f"{name}: not there"
            if time_s is None
            else f"{name}: {si(time_s, 's')}, {si(energy_J, 'J')}, bound by {bound}"
        )


def _differences(summaries: Sequence[Summary], names: Sequence[str]) -> list[str]:
    """One sentence for each run but the first: how long it takes and what it uses against that."""
    first, found = summaries[0], []
    for name, entry in zip(names[1:], summaries[1:], strict=True):
        parts = []
        for metric in common_metrics(summaries)[:2]:
            value, before = metric.value(entry), metric.value(first)
            share = f" ({signed(value / before - 1)})" if value is not None and before else ""
            parts.append(f"{metric.title} {metric.text(value)} against {metric.text(before)}{share}")
        found.append(f"{name} against {names[0]}: {', '.join(parts)}.")
    return found


def _table(title: str, metrics: Sequence[Metric], runs: Sequence[Summary], note: str) -> Section:
    headers = ["", runs[0]["run"]]
    for run in runs[1:]:
        headers += [run["run"], "difference", "ratio"]
    rows = []
    for metric in metrics:
        before = runs[0][metric.column]
        others = [_against(metric, run[metric.column], before, metric.star(run)) for run in runs[1:]]
        rows.append([metric.title.removeprefix(PART), metric.text(before), *chain.from_iterable(others)])
    return section(title, headers, rows, range(1, len(headers)), behind=[note] * bool(note))


def _against(metric: Metric, value: float | None, before: float | None, star: str) -> list[str]:
    """Value, its difference to that of the first run, its ratio to it; a category that a run lacks has no energy."""
    if metric.title.startswith(PART) and value != before:
        step = (value or 0.0) - (before or 0.0)
    elif value is None or before is None:
        return [metric.text(value), MISSING, MISSING]
    else:
        step = value - before
    sign = "+" if step > 0 else "−" if step < 0 else ""
    times = f"{ratio(value / before)}{star}" if before and value is not None else MISSING
    return [metric.text(value), f"{sign}{metric.text(abs(step))}", times]


def _lines(entries: Sequence[Entry]) -> list[Line]:
    """Every line of any run in the order of the first run that has it; None where a run lacks it."""
    places = [{key: at for at, key in enumerate(entry.data["layers"]["keys"])} for entry in entries]
    found = list[Line]()
    for key in dict.fromkeys(key for each in places for key in each):
        at = [each.get(key) for each in places]
        tables = [entry.data["layers"] for entry in entries]
        run, first = next((number, place) for number, place in enumerate(at) if place is not None)
        have = list(zip(tables, at, strict=True))
        found.append(
            {
                "name": tables[run]["names"][first],
                "title": tables[run]["titles"][first],
                "time_s": [None if place is None else table["time_fs"][place] * FS for table, place in have],
                "energy_J": [None if place is None else table["energy_J"][place] for table, place in have],
                "bound": ["" if place is None else table["bound"][place] for table, place in have],
            }
        )
    return found
