"""Several runs side by side, from their summaries: a table and a bar plot."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accelsim.account.energy import CATEGORIES
from accelsim.account.latency import summary
from accelsim.errors import Problem, UsageError
from accelsim.machine.memory_models import DEFAULT
from accelsim.machine.run import Run
from accelsim.report.style import BLUE, CATEGORY_LOOKS, figure, prefixed, styled
from accelsim.report.table import Column, table
from accelsim.report.text import MISSING, percent, shorten, si
from accelsim.report.write import SUMMARY, is_report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

Summary = dict[str, Any]
RUN_WIDTH = 17
"""Characters that a run needs as a column."""


class Metric(NamedTuple):
    """One compared figure: its name, its column in a CSV (with the unit), its value in a summary (None: not there),
    how it is written."""

    title: str
    column: str
    value: Callable[[Summary], float | None]
    text: Callable[[float | None], str]


def _traffic(entry: Summary) -> float:
    return float(sum(flow["read_B"] + flow["write_B"] for flow in entry["traffic"].values()))


METRICS = (
    Metric("latency", "latency_s", lambda s: s["latency_s"], lambda v: si(v, "s")),
    Metric("energy", "energy_per_inference_J", lambda s: s["energy_per_inference_J"], lambda v: si(v, "J")),
    Metric("power", "power_average_W", lambda s: s["power_average_W"], lambda v: si(v, "W")),
    Metric("utilisation", "utilisation", lambda s: s["utilisation"], percent),
    Metric("inferences/s", "throughput_per_s", lambda s: s["throughput_per_s"], si),
    Metric("TOPS", "achieved_TOPS", lambda s: s["achieved_TOPS"], si),
    Metric("off-chip", "off_chip_B", _traffic, lambda v: si(v, "B")),
)
"""What is compared, the most important first; 'energy' is per inference."""


def load_summaries(sources: Sequence[Run | str | Path]) -> list[Summary]:
    """Summaries of runs, or of the directories that ``write_run`` wrote.

    UsageError naming every directory that has no (readable) summary, all at once.
    """
    problems = [
        Problem(
            f"has no readable {SUMMARY}", where=str(source), expected="a directory with the report of a run"
        )
        for source in sources
        if not isinstance(source, Run) and not is_report(Path(source))
    ]
    if not sources:
        problems.append(
            Problem("nothing to compare", expected="one or more directories with the report of a run")
        )
    if problems:
        raise UsageError(problems)
    return [summary(source) if isinstance(source, Run) else _read(Path(source)) for source in sources]


def _read(folder: Path) -> Summary:
    entry: Summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    return entry | {"label": folder.name}


def labels(entries: Sequence[Summary]) -> list[str]:
    """A name for each run: what differs of chip, model, format, batch, memory model; numbered if that is not enough."""
    parts = [
        (
            entry["chip"],
            entry["model"],
            entry["dtype"],
            f"batch {entry['batch']}",
            entry.get("memory_model", DEFAULT),
        )
        for entry in entries
    ]
    shown = [i for i in range(len(parts[0])) if len({part[i] for part in parts}) > 1] or [0, 1]
    names = [" ".join(part[i] for i in shown) for part in parts]
    if len(set(names)) < len(names):
        names = [entry.get("label") or name for entry, name in zip(entries, names, strict=True)]
    return [f"{n}. {name}" if names.count(name) > 1 else name for n, name in enumerate(names, 1)]


def _metrics(entries: Sequence[Summary]) -> list[Metric]:
    """The common metrics, and the energy per inference of each category that any run has."""
    found = [name for name in CATEGORIES if any(name in entry["energy_by_category_J"] for entry in entries)]
    parts = (
        Metric(f"E {name}", f"energy_{name}_J", _energy_of(name), lambda v: si(v, "J")) for name in found
    )
    return [*METRICS, *parts]


def _energy_of(name: str) -> Callable[[Summary], float | None]:
    def energy(entry: Summary) -> float | None:
        joules = entry["energy_by_category_J"].get(name)
        return None if joules is None else float(joules) / int(entry["batch"])

    return energy


def compare(sources: Sequence[Run | str | Path], width: int = 80) -> Table:
    """A table of several runs: a column per run (with its ratio to the first) where they fit, else a row.

    'energy' and the rows 'E ...' (its parts) are per inference. UsageError as for ``load_summaries``.
    """
    entries = load_summaries(sources)
    names, metrics = labels(entries), _metrics(entries)
    if width < 16 + RUN_WIDTH * len(entries):
        columns = [Column("run", 0, right=False, least=12)]
        columns += [Column(metric.title, rank) for rank, metric in enumerate(metrics)]
        rows = [
            [name, *(metric.text(metric.value(entry)) for metric in metrics)]
            for name, entry in zip(names, entries, strict=True)
        ]
        return table(columns, rows, width)
    columns = [Column("", right=False), *(Column(name, least=RUN_WIDTH - 3) for name in names)]
    return table(columns, [[metric.title, *_cells(metric, entries)] for metric in metrics], width)


def _cells(metric: Metric, entries: Sequence[Summary]) -> list[str]:
    """The values of one metric; from the second run on with the ratio to the first."""
    first = metric.value(entries[0])
    cells = [metric.text(first)]
    for entry in entries[1:]:
        value = metric.value(entry)
        ratio = f" ({value / first:.3g}×)" if value is not None and first else ""
        cells.append(MISSING if value is None else metric.text(value) + ratio)
    return cells


def compare_figure(sources: Sequence[Run | str | Path]) -> Figure:
    """Bars of latency and of energy per inference by category. UsageError as for ``compare``."""
    entries = load_summaries(sources)
    with styled():
        fig, (left, right) = figure(1.9 + 0.34 * len(entries), 1, 2, sharey=True)
        names = [shorten(name, 28) for name in labels(entries)]
        places = range(len(entries))
        left.set_yticks(places, names)
        left.set_ylim(len(entries) - 0.4, -0.6)
        factor, unit = prefixed([entry["latency_s"] for entry in entries], "s")
        values = [entry["latency_s"] * factor for entry in entries]
        left.barh(places, values, 0.7, color=BLUE)
        _value_labels(left, values, [si(entry["latency_s"], "s") for entry in entries])
        left.set_title("Latency")
        left.set_xlabel(f"latency of one run ({unit})")
        _energy_bars(right, entries)
        fig.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return fig


def _energy_bars(axes: Axes, entries: Sequence[Summary]) -> None:
    totals = [entry["energy_per_inference_J"] for entry in entries]
    factor, unit = prefixed(totals, "J")
    start = [0.0] * len(entries)
    for name in CATEGORIES:
        parts = [(_energy_of(name)(entry) or 0.0) * factor for entry in entries]
        if any(parts):
            look = CATEGORY_LOOKS[name]
            style: dict[str, Any] = {
                "color": look.color,
                "hatch": look.hatch,
                "edgecolor": "white",
                "linewidth": 0.3,
            }
            axes.barh(range(len(entries)), parts, 0.7, left=start, label=name, **style)
            start = [below + part for below, part in zip(start, parts, strict=True)]
    _value_labels(axes, start, [si(total, "J") for total in totals])
    axes.set_title("Energy per inference")
    axes.set_xlabel(f"energy ({unit})")


def _value_labels(axes: Axes, ends: Sequence[float], texts: Sequence[str]) -> None:
    for place, (end, text) in enumerate(zip(ends, texts, strict=True)):
        axes.annotate(
            text, (end, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7.5
        )
    axes.margins(x=0.2)
    axes.grid(True, axis="x")
    axes.tick_params(axis="y", length=0)
