"""The plot of ``explore.batching``: time per sample by its parts, and samples per second, against the batch size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.explore.batching import PARTS, Batching
from accelsim.report.legends import below
from accelsim.report.style import (
    BLUE,
    INK,
    ORANGE,
    VERMILLION,
    YELLOW,
    Look,
    figure,
    prefixed,
    styled,
    subtitle,
)
from accelsim.report.text import si

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOKS: dict[str, Look] = {
    "compute": Look(BLUE),
    "host": Look(YELLOW, "xxxx"),
    "link": Look(ORANGE, "||||"),
    "memory": Look(VERMILLION, "\\\\\\\\"),
    "other": Look("#cfcfcf"),
}
"""Part -> colour and hatch."""


def time_per_sample(found: Batching) -> Figure:
    """Stacked bars of the time per sample, and below them samples per second."""
    with styled():
        fig, (bars, rate) = figure(5.6, 2, 1, sharex=True, gridspec_kw={"height_ratios": [2.4, 1]})
        _bars(bars, found)
        places, best = range(len(found.points)), found.fastest
        rates = [point.samples_per_s for point in found.points]
        rate.plot(places, rates, "o-", color=INK)
        rate.yaxis.set_major_formatter(lambda value, _: si(value))
        rate.set_ylim(0, 1.15 * max(rates))
        rate.set_ylabel("samples per s")
        rate.set_xticks(list(places), [str(point.batch) for point in found.points])
        rate.set_xlabel("batch size")
        rate.grid(True, axis="y")
        bars.set_title(f"{found.model} on {found.chip.name}: time per sample against batch size", pad=20)
        kinds = " and ".join(dict.fromkeys(found.links.values()))
        subtitle(bars, f"host over {kinds or 'no link'}; most samples per second at batch {best.batch}: "
                       f"{si(best.samples_per_s)}/s, {si(best.seconds_per_sample, 's')} each")  # fmt: skip
        below(fig, bars, 2)
        return fig


def _bars(axes: Axes, found: Batching) -> None:
    factor, unit = prefixed([point.seconds_per_sample for point in found.points], "s")
    bottom = [0.0] * len(found.points)
    for part in found.parts:
        text = PARTS[part]
        heights = [point.per_sample_s(part) * factor for point in found.points]
        look = LOOKS[part]
        axes.bar(
            range(len(heights)), heights, bottom=bottom, width=0.7, color=look.color, hatch=look.hatch,
            edgecolor="white", linewidth=0.4, label=text,
        )  # fmt: skip
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set_ylim(0, 1.06 * max(bottom))
    axes.set_ylabel(f"time per sample ({unit})")
    axes.grid(True, axis="y")
