"""Bars of compared runs: latency and energy, relative to the first run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

Stack = tuple[Callable[[Summary], float | None], dict[str, Any]]
"""A part of a bar: its value in a summary, and how it looks."""
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
    latency: list[Stack] = [(lambda entry: entry["latency_s"], {"color": GREY})]
    _bars(left, entries, "latency", "s", "Latency of one run", latency, [""] * len(entries))
    energy: list[Stack] = []
    for name in CATEGORY_NAMES:
        look = CATEGORY_LOOKS[name]
        style = {
            "color": look.color,
            "hatch": look.hatch,
            "edgecolor": "white",
            "linewidth": 0.3,
            "label": name,
        }
        energy.append((energy_of(name), style))
    title, stars = (
        f"Energy per {' or '.join(counted(entries))}",
        [STAR * bool(each) for each in grounds_of(entries)],
    )
    _bars(right, entries, "energy", "J", title, energy, stars)
    below(fig, right)
    if told:
        fig.suptitle("\n".join(told), fontsize=8, x=0.01, ha="left", color="#555555")
    return fig


def _base(values: Sequence[float]) -> tuple[float, str]:
    """Return what bars are relative to: the first value, else the largest; and that in words."""
    if values[0]:
        return values[0], "relative to the first run"
    return max(values) or 1.0, "relative to the largest"


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


def _bars(
    axes: Axes, entries: Sequence[Summary], what: str, unit: str, title: str, stacks: Sequence[Stack],
    marks: Sequence[str],
) -> None:  # fmt: skip
    """Draw a bar for each run, of parts from left to right, with its value and ``marks`` beside it."""
    values = [entry[SHOWN[what]] for entry in entries]
    base, words = _base(values)
    start = [0.0] * len(entries)
    for value, style in stacks:
        parts = [(value(entry) or 0.0) / base for entry in entries]
        if any(parts):
            axes.barh(range(len(entries)), parts, 0.7, left=start, **style)
            start = [below + part for below, part in zip(start, parts, strict=True)]
    _value_labels(axes, values, base, unit, marks, _intervals(axes, entries, base, what, unit))
    known = any(entry.get(f"{what}_interval") for entry in entries)
    axes.set_title(title + ", with 90 % interval" * known)
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
