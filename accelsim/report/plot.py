"""The registry of plots: name -> function of a run. ``draw`` makes one, ``all_bytes`` the files of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from typing import TYPE_CHECKING

from accelsim.errors import Problem, UsageError, nearest
from accelsim.machine.run import Run
from accelsim.report import layer_plots, machine_plots, roofline_plot, whole_plot
from accelsim.report.style import Plot, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = ("png", "svg")
"""Formats in which a report may have its pictures."""
_ALSO_PNG: ContextVar[bool] = ContextVar("pictures of reports as PNG too", default=False)


PLOTS: dict[str, Plot] = {
    plot.name: plot
    for module in (whole_plot, layer_plots, roofline_plot, machine_plots)
    for plot in module.PLOTS
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
