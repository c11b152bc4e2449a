"""The registry of plots: name -> function of a run. ``draw`` makes one, ``all_bytes`` the files of all.

The plot of the whole run is here: its time and its energy, each as one bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import TYPE_CHECKING, Any

from accelsim.account.critical_path import KEYS, by_blame
from accelsim.account.energy import CATEGORY_NAMES, STATIC
from accelsim.account.latency import summary
from accelsim.errors import Problem, UsageError, nearest
from accelsim.machine.run import Run
from accelsim.report import layer_plots, machine_plots, roofline_plot
from accelsim.report.layer_plots import key_labels
from accelsim.report.legends import under
from accelsim.report.style import CATEGORY_LOOKS, REASON_LOOKS, Look, Plot, figure, picture
from accelsim.report.text import percent, si
from accelsim.time import FS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = ("png", "svg")
"""Formats in which a report may have its pictures."""
_ALSO_PNG: ContextVar[bool] = ContextVar("pictures of reports as PNG too", default=False)


LEGEND_SHARE = 0.85
"""Share of the width of the figure, for a legend that begins where the bars do."""
ROOM = 0.06
"""Share of a bar from which on a part has room for its percentage."""


def whole(run: Run) -> Figure:
    """Bars of 100 %: what the time went to, what the energy, and what the energy without static power."""
    joules = summary(run)["energy_by_category_J"]
    dynamic = {name: joules.get(name, 0.0) for name in CATEGORY_NAMES if name != STATIC}
    static = joules.get(STATIC, 0.0)
    fig, (upper, lower) = figure(3.8 if static else 3.2, 2, 1, height_ratios=[1, 2 if static else 1])
    upper.set_title(f"Where the time went: {si(run.seconds, 's')}")
    _bar(upper, 0, _by_key(run), REASON_LOOKS, key_labels(run))
    upper.set_yticks([0], ["time"])
    lower.set_title(f"Where the energy went: {si(sum(joules.values()), 'J')}")
    _bar(lower, 0, {name: joules.get(name, 0.0) for name in CATEGORY_NAMES}, CATEGORY_LOOKS, {})
    if static:
        _bar(lower, 1, dynamic, CATEGORY_LOOKS, dict.fromkeys(CATEGORY_NAMES, ""))
        lower.set_yticks([0, 1], ["energy", f"without static:\n{si(sum(dynamic.values()), 'J')}"])
    else:
        lower.set_yticks([0], ["energy"])
    for axes, quantity in ((upper, "time"), (lower, "energy")):
        _finish(axes, quantity)
        under(fig, axes, 3, LEGEND_SHARE)
    return fig


def _by_key(run: Run) -> dict[str, float]:
    totals = dict.fromkeys(KEYS, 0.0)
    for blame, fs in by_blame(run).items():
        totals[blame.key] += fs * FS
    return totals


def _bar(
    axes: Axes, row: int, parts: Mapping[str, float], looks: Mapping[str, Look], labels: Mapping[str, str]
) -> None:
    """One bar of 100 %; ``labels``: part -> its text in the legend ('' for none), by default its own name."""
    total, start = sum(parts.values()), 0.0
    for name, value in parts.items():
        if not value:
            continue
        share, look = value / total, looks[name]
        label = labels.get(name, name) or "_"  # matplotlib leaves out what begins so
        style: dict[str, Any] = {
            "color": look.color,
            "hatch": look.hatch,
            "edgecolor": "white",
            "linewidth": 0.3,
        }
        axes.barh(row, share, 0.7, left=start, label=label, **style)
        if share >= ROOM:
            box: dict[str, Any] = {
                "facecolor": "white",
                "alpha": 0.8,
                "linewidth": 0,
                "boxstyle": "round,pad=0.15",
            }
            axes.text(
                start + share / 2, row, percent(share), ha="center", va="center", fontsize=7.5, bbox=box
            )
        start += share


def _finish(axes: Axes, quantity: str) -> None:
    axes.set_xlabel(f"share of the {quantity}, percent where there is room", loc="left", fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


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
        raise UsageError(
            Problem(f"no plot {name!r}", expected=f"one of {', '.join(PLOTS)}", nearest=nearest(name, PLOTS))
        )
    return PLOTS[name](run)


def all_bytes(run: Run) -> dict[str, bytes]:
    """Return every plot that has something to show: 'latency.svg' and so on. Same run, same bytes."""
    found: dict[str, bytes] = {}
    for name in [name for name, entry in PLOTS.items() if entry.applies(run)]:
        found |= pictures(name, draw(name, run))
    return found


def pictures(name: str, drawn: Figure) -> dict[str, bytes]:
    """Return the files of one picture of a report: its SVG, and within ``also_png`` its PNG."""
    found = {}
    for suffix in SUFFIXES if _ALSO_PNG.get() else ("svg",):
        file = BytesIO()
        picture(drawn, f".{suffix}")(file)
        found[f"{name}.{suffix}"] = file.getvalue()
    return found


@contextmanager
def also_png(wanted: bool = True) -> Iterator[None]:
    """Within it, reports have their pictures as PNG beside SVG, if ``wanted``."""
    token = _ALSO_PNG.set(wanted)
    try:
        yield
    finally:
        _ALSO_PNG.reset(token)
