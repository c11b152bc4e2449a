"""The registry of plots: name -> function of a run. ``draw`` makes one, ``all_bytes`` the files of all."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from accelsim.errors import Problem, UsageError, nearest
from accelsim.machine.run import Run
from accelsim.report import layer_plots, machine_plots, roofline_plot, whole_plot
from accelsim.report.style import Plot, picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = ("png", "svg")


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
    """Every plot that has something to show, as PNG and SVG: 'latency.png' and so on. Same run, same bytes."""
    found = {}
    for name in [name for name, entry in PLOTS.items() if entry.applies(run)]:
        drawn = draw(name, run)
        for suffix in SUFFIXES:
            file = BytesIO()
            picture(drawn, f".{suffix}")(file)
            found[f"{name}.{suffix}"] = file.getvalue()
    return found
