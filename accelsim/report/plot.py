"""The registry of plots: name -> function of a run. ``draw`` makes one, ``save_all`` writes all files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from accelsim.errors import Problem, UsageError, nearest
from accelsim.machine.run import Run
from accelsim.report import layer_plots, machine_plots, roofline_plot, whole_plot
from accelsim.report.style import picture, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = ("png", "svg")


@dataclass(frozen=True)
class Plot:
    """One plot; calling it with a run gives the matplotlib figure. ``caption`` says how to read it.

    ``applies``: whether a run has anything to show in it; a report leaves out what would be empty.
    """

    name: str
    title: str
    caption: str
    function: Callable[[Run], Figure]
    applies: Callable[[Run], bool] = lambda run: True

    def __call__(self, run: Run) -> Figure:
        """Draw it; the caller owns the figure."""
        with styled():
            return self.function(run)


PLOTS: dict[str, Plot] = {
    plot.name: plot
    for plot in (
        Plot(
            "whole",
            "The whole run",
            "What the time and the energy of the run went to, each as a bar of 100 %. The last bar leaves out static "
            "power, which is drawn whether the chip works or not.",
            whole_plot.whole,
        ),
        Plot(
            "latency",
            "Latency per layer",
            "A bar is what the layer adds to the run: its time on the critical path. Bars add up to the latency; "
            "colours say what the run was waiting for. What happens meanwhile, such as a prefetch, is in no bar.",
            layer_plots.latency,
        ),
        Plot(
            "energy",
            "Energy per layer",
            "Energy of each layer by what used it. Static power is charged for the time that the layer adds; the "
            "second panel leaves it out.",
            layer_plots.energy,
        ),
        Plot(
            "roofline",
            "Roofline",
            "A mark is a layer (numbers as in the table), its area the layer's share of the time. No layer "
            "can lie above the line: left of the knee the memory is the limit, right of it the arithmetic.",
            roofline_plot.roofline,
            roofline_plot.has_roofs,
        ),
        Plot(
            "timeline",
            "Engine timeline",
            "One row per engine; what overlaps runs at the same time. The top row says which layer the run "
            "was waiting for.",
            machine_plots.timeline,
        ),
        Plot(
            "occupancy",
            "Buffer occupancy",
            "How much of each on-chip buffer held data that was still needed.",
            machine_plots.occupancy,
            machine_plots.has_buffers,
        ),
        Plot(
            "moving_data",
            "Energy of moving data against computing",
            "Three marks per layer, on a logarithmic axis: a small distance is a large factor.",
            layer_plots.moving_data,
            layer_plots.has_dynamic_energy,
        ),
    )
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
