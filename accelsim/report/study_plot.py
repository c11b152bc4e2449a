"""Pictures of studies: the ladder of number formats, and time per sample of several chips by batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from accelsim.explore.studies import Crossover, Ladder, Rung
from accelsim.report.legends import below
from accelsim.report.style import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    figure,
    styled,
    subtitle,
)
from accelsim.report.text import si

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW)
WIDE = 0.8
"""Of the room of a chip, what its bars take."""


def ladder(found: Ladder) -> Figure:
    """Per chip a bar for each format: time of an inference with its interval, energy, error of a product."""
    formats = sorted({rung.dtype for rung in found.rungs}, key=found.formats.index)
    with styled():
        fig, (time, energy, error) = figure(6.6, 3, 1, sharex=True)
        for axes, label, unit in ((time, "time", "s"), (energy, "energy", "J"), (error, "error", "")):
            axes.set_yscale("log")
            axes.set_ylabel(label)
            axes.yaxis.set_major_formatter(_with(unit))
            axes.grid(True, axis="y")
        for place, chip in enumerate(found.chips):
            rungs = found.of(chip)
            for index, rung in enumerate(rungs):
                x = place + (index - (len(rungs) - 1) / 2) * WIDE / len(formats)
                _bars(
                    (time, energy, error),
                    x,
                    WIDE / len(formats),
                    rung,
                    COLOURS[formats.index(rung.dtype) % 7],
                )
        for name in formats:
            time.bar([0], [0], color=COLOURS[formats.index(name) % 7], label=name)
        error.set_xticks(
            range(len(found.chips)), [found.of(chip)[0].title for chip in found.chips], fontsize=8
        )
        time.set_title(f"{found.model}, batch {found.batch}: an inference by number format", pad=20)
        subtitle(time, "whiskers: 90 % interval of the time; error: root mean square of a product of K = 1024 by the "
                       "chip's own rule")  # fmt: skip
        below(fig, time, 7)
        return fig


def _with(unit: str) -> Callable[[float, float], str]:
    """Texts of an axis: with prefix and unit, or plain."""
    return lambda value, _: si(value, unit) if unit else f"{value:g}"


def _bars(panels: tuple[Axes, Axes, Axes], x: float, width: float, rung: Rung, colour: str) -> None:
    for axes, value in zip(panels, (rung.seconds, rung.joules, rung.error), strict=True):
        axes.bar([x], [value], width * 0.92, color=colour)
    if rung.low:
        panels[0].plot([x, x], [rung.low, rung.high], color=INK, lw=1)


def crossing(found: Crossover) -> Figure:
    """Time per sample by batch: a line for each chip, and what would be left without waiting for transfers."""
    with styled():
        fig, (axes,) = figure(4.6)
        for series, colour in zip(found.series, COLOURS * len(found.series), strict=False):
            batches = [point.batch for point in series.points]
            times = [point.seconds_per_sample for point in series.points]
            axes.plot(batches, times, "o-", color=colour, label=series.chip.title)
            if series.links:
                rest = [point.seconds_per_sample - point.per_sample_s("link") for point in series.points]
                axes.plot(batches, rest, ":", color=colour)
        axes.set(xscale="log", yscale="log", xlabel="batch size", ylabel="time per sample")
        axes.set_xticks(batches, [str(batch) for batch in batches])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: si(value, "s"))
        axes.grid(True)
        axes.set_title(f"{found.model}: time per sample by batch size", pad=20)
        subtitle(axes, "dotted: without waiting for transfers to and from the host")
        below(fig, axes)
        return fig
