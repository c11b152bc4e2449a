"""Bars of compared runs: latency and energy, relative to the first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accelsim.account.energy import CATEGORY_NAMES
from accelsim.report.compare import STAR, Summary, counted, energy_of, grounds_of, heading, notes
from accelsim.report.compare_labels import labels
from accelsim.report.legends import below
from accelsim.report.style import CATEGORY_LOOKS, GREY, INK, figure, styled
from accelsim.report.text import ratio, si, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME, NOTE = 30, 145
"""Characters of a line of a name, and of a note."""
LINE_IN = 0.15
"""Height of a line of a name."""
SHOWN = {"latency": "latency_s", "energy": "energy_per_inference_J"}
"""What the bars show."""


@styled()
def compare_figure(entries: Sequence[Summary]) -> Figure:
    """Bars of latency and of energy per inference by category, relative to the first run, with the figures as text."""
    names = ["\n".join(wrapped(name, NAME)) for name in labels(entries)]
    told = [line for text in (heading(entries), *notes(entries)) if text for line in wrapped(text, NOTE)]
    height = (
        1.7 + sum(max(0.4, 0.2 + LINE_IN * (1 + name.count("\n"))) for name in names) + LINE_IN * len(told)
    )
    fig, (left, right) = figure(height, 1, 2, sharey=True)
    left.set_yticks(range(len(entries)), names)
    left.set_ylim(len(entries) - 0.4, -0.6)
    _latency_bars(left, entries)
    _energy_bars(right, entries)
    below(fig, right)
    if told:
        fig.suptitle("\n".join(told), fontsize=8, x=0.01, ha="left", color="#555555")
    return fig


def _base(values: Sequence[float]) -> tuple[float, str]:
    """Return what bars are relative to: the first value, else the largest; and that in words."""
    if values[0]:
        return values[0], "relative to the first run"
    return max(values) or 1.0, "relative to the largest"


def _latency_bars(axes: Axes, entries: Sequence[Summary]) -> None:
    values = [entry["latency_s"] for entry in entries]
    base, words = _base(values)
    axes.barh(range(len(entries)), [value / base for value in values], 0.7, color=GREY)
    ends = _intervals(axes, entries, base, "latency", "s")
    _value_labels(axes, values, base, "s", [""] * len(values), ends)
    axes.set_title("Latency of one run" + _with_intervals(entries, "latency"))
    axes.set_xlabel(words)


def _with_intervals(entries: Sequence[Summary], what: str) -> str:
    return ", with 90 % interval" if any(entry.get(f"{what}_interval") for entry in entries) else ""


def _intervals(axes: Axes, entries: Sequence[Summary], base: float, what: str, unit: str) -> list[float]:
    """A line from end to end of the interval of each latency or energy, where there is one; returns how far right
    each row reaches. The interval is that of a whole run; of an inference where ``unit`` is J, which is its share."""
    ends = []
    for place, entry in enumerate(entries):
        value = entry[SHOWN[what]]
        found, scale = entry.get(f"{what}_interval"), value / (entry[f"{what}_{unit}"] or 1.0) / base
        if found is not None:
            low, high = found[f"low_{unit}"] * scale, found[f"high_{unit}"] * scale
            axes.plot([low, high], [place, place], color=INK, lw=1)
        ends.append(value / base if found is None else high)
    return ends


def _energy_bars(axes: Axes, entries: Sequence[Summary]) -> None:
    totals = [entry["energy_per_inference_J"] for entry in entries]
    base, words = _base(totals)
    start = [0.0] * len(entries)
    for name in CATEGORY_NAMES:
        parts = [(energy_of(name)(entry) or 0.0) / base for entry in entries]
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
    marks = [STAR if unlike else "" for unlike in grounds_of(entries)]
    ends = _intervals(axes, entries, base, "energy", "J")
    _value_labels(axes, totals, base, "J", marks, ends)
    axes.set_title(f"Energy per {' or '.join(counted(entries))}" + _with_intervals(entries, "energy"))
    axes.set_xlabel(words)


def _value_labels(
    axes: Axes, values: Sequence[float], base: float, unit: str, marks: Sequence[str], ends: Sequence[float]
) -> None:
    """The value beside each bar, behind where its row ends, from the second on with its ratio to the first."""
    for place, (value, mark, end) in enumerate(zip(values, marks, ends, strict=True)):
        text = si(value, unit)
        if place and values[0]:
            text += f" ({ratio(value / base)}{mark})"
        axes.annotate(
            text, (end, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7.5
        )
    axes.margins(x=0.35)
    axes.set_xlim(left=0.0)
    axes.grid(True, axis="x")
    axes.tick_params(axis="y", length=0)
