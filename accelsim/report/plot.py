"""The registry of plots: name -> picture of a run. ``draw`` makes one, ``all_bytes`` the files of all.

The plot of the whole run is here: its time and its energy, each as one bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import TYPE_CHECKING

from accelsim.account.categories import CATEGORIES
from accelsim.account.critical_path import KEYS, by_blame
from accelsim.account.energy import STATIC
from accelsim.account.latency import summary
from accelsim.errors import UsageError, nearest
from accelsim.machine.run import Run
from accelsim.report import layer_plots, machine_plots, roofline_plot
from accelsim.report.layer_plots import Plot, key_labels
from accelsim.report.looks import CATEGORY_LOOKS, REASON_LOOKS
from accelsim.report.picture import Axis, Panel, Picture, note, nothing, stacked
from accelsim.report.style import Look
from accelsim.report.text import percent, si
from accelsim.time import FS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = ("png", "svg")
"""Formats in which a report may have its pictures."""
_ALSO_PNG: ContextVar[bool] = ContextVar("pictures of reports as PNG too", default=False)


PERCENT: Mapping[str, object] = {"told": ["{share}"]}
"""Words of a page beside a part of a bar of 100 %."""
ROOM = 0.06
"""Share of a bar from which on a part has room for its percentage."""


def whole(run: Run) -> Picture:
    """Draw bars of 100 %: what the time went to, what the energy, and what the energy without static power."""
    spent = summary(run)["energy_by_category_J"]
    joules = {name: spent.get(name, 0.0) for name in CATEGORIES}
    dynamic, static = {**joules, STATIC: 0.0}, joules[STATIC]
    title = f"Where the time went: {si(run.seconds, 's')}"
    time = _shares(title, {"time": _by_key(run)}, REASON_LOOKS, key_labels(run))
    bars = {"energy": joules}
    if static:
        bars[f"without static:\n{si(sum(dynamic.values()), 'J')}"] = dynamic
    energy = _shares(f"Where the energy went: {si(sum(joules.values()), 'J')}", bars, CATEGORY_LOOKS, {})
    return Picture(3.8 if static else 3.2, [time, energy], ratios=[1, len(bars)])


def _by_key(run: Run) -> dict[str, float]:
    totals = dict.fromkeys(KEYS, 0.0)
    for blame, fs in by_blame(run).items():
        totals[blame.key] += fs * FS
    return totals


def _shares(
    title: str, rows: Mapping[str, Mapping[str, float]], looks: Mapping[str, Look], labels: Mapping[str, str]
) -> Panel:
    """Return bars of 100 %, one below the other, by name; ``labels``: part -> its text in the legend."""
    parts = dict.fromkeys(key for row in rows.values() for key in row)
    series = {key: [row[key] / (sum(row.values()) or 1.0) for row in rows.values()] for key in parts}
    marks = stacked(range(len(rows)), series, looks, labels, flat=True, wide=0.7)
    marks = [mark._replace(page={**PERCENT, "columns": {"share": list(map(percent, mark.x))}}) for mark in marks]
    box = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "boxstyle": "round,pad=0.15"}
    marks += [
        note(start + share / 2, row, percent(share), side="center", bbox=box)
        for mark in marks
        for row, (start, share) in enumerate(zip(mark.base, mark.x, strict=True))
        if share >= ROOM
    ]
    x = Axis("share, percent where there is room", low=0, high=1, names={})
    return Panel(title, marks, x, Axis(names=list(rows)), legend=3, finish=_frameless)


def _frameless(_: Figure, axes: Axes) -> None:
    axes.spines[["left", "bottom"]].set_visible(False)


WHOLE = Plot(
    "whole",
    "The whole run",
    "What the time and the energy of the run went to, each as a bar of 100 %. The last bar leaves out static "
    "power, which is drawn whether the chip works or not.",
    whole,
)
PLOTS: dict[str, Plot] = {
    plot.name: plot for plot in (WHOLE, *layer_plots.PLOTS, *roofline_plot.PLOTS, *machine_plots.PLOTS)
}
"""Every plot by name."""


def draw(name: str, run: Run) -> Figure:
    """The figure of that name. UsageError when there is none."""
    if name not in PLOTS:
        raise UsageError(f"no plot {name!r}", expected=f"one of {', '.join(PLOTS)}", nearest=nearest(name, PLOTS))
    _, title, _, function, why = PLOTS[name]
    drawn = function(run) or Picture(1.3, [nothing(title, why)])
    return drawn.figure()


def declared(run: Run) -> dict[str, Picture]:
    """Return every plot of the registry that has something to show, by name."""
    drawn = {name: entry.function(run) for name, entry in PLOTS.items()}
    return {name: picture for name, picture in drawn.items() if picture}


def all_bytes(plots: Mapping[str, Picture]) -> dict[str, bytes]:
    """Return the files of plots: 'latency.svg' and so on. Same run, same bytes."""
    return {file: content for name, drawn in plots.items() for file, content in pictures(name, drawn).items()}


def pictures(name: str, drawn: Picture) -> dict[str, bytes]:
    """Return the files of one picture of a report: its SVG, and within ``also_png`` its PNG."""
    found = {}
    for suffix in SUFFIXES if _ALSO_PNG.get() else ("svg",):
        file = BytesIO()
        drawn.file(f".{suffix}")(file)
        found[f"{name}.{suffix}"] = file.getvalue()
    return found


@contextmanager
def also_png(wanted: bool = True) -> Iterator[None]:
    """Give reports inside their pictures as PNG beside SVG, if ``wanted``."""
    token = _ALSO_PNG.set(wanted)
    try:
        yield
    finally:
        _ALSO_PNG.reset(token)
