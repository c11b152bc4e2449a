"""Pictures of studies: the ladder of number formats; time per sample by batch, by its parts and of several chips."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from accelsim.explore.batching import PARTS, Batching
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

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW)
WIDE = 0.8
"""Share of the room of a chip that its bars take."""


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
        _parts(bars, found)
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


def _parts(axes: Axes, found: Batching) -> None:
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
