"""Pictures of fused gradients: buckets beside the backward, and what the step waits for against cycle and threshold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from accelsim.cluster.buckets.base import Gradient
from accelsim.cluster.buckets.overlap import Overlapped
from accelsim.cluster.buckets.tune import Trial, Tuned
from accelsim.report.style import (
    BLUE,
    INK,
    ORANGE,
    PURPLE,
    VERMILLION,
    figure,
    log_axis,
    prefixed,
    styled,
    subtitle,
    tint,
)
from accelsim.units import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEMTO = 1e-15
MOST_LINES = 6
"""Lines of a picture of a grid; of more thresholds so many are drawn."""
CHOICES = {
    "cycle_fs": ("cycle time", "threshold_B"),
    "threshold_B": ("threshold", "cycle_fs"),
}
"""What the horizontal axis shows -> its name, what the lines differ in."""


def overlap_plot(panels: Sequence[tuple[str, Sequence[Gradient], Overlapped]]) -> Figure:
    """(title, gradients, what came of them) each: the backward, layer by layer, and the stream of buckets below it."""
    with styled():
        fig, axes = figure(1.7 * len(panels) + 0.6, len(panels), sharex=True)
        end = max(max(found.finish_fs, found.backward_fs) for _, _, found in panels)
        factor, unit = prefixed([end * FEMTO], "s")
        for place, panel in zip(axes, panels, strict=True):
            _overlap(place, *panel, factor * FEMTO)
        axes[-1].set_xlabel(f"time from the start of the backward ({unit})")
        axes[-1].set_xlim(0, end * factor * FEMTO)
        return fig


def _overlap(axes: Axes, title: str, gradients: Sequence[Gradient], found: Overlapped, scale: float) -> None:
    edges = [0, *sorted(gradient.ready_fs for gradient in gradients)]
    layers = [(a * scale, (b - a) * scale) for a, b in pairwise(edges)]
    shades = [tint(ORANGE, (0.9, 0.65)[index % 2]) for index in range(len(layers))]
    axes.broken_barh(layers, (-0.35, 0.7), facecolors=shades)
    times = [(each.start_fs, each.start_fs + each.copy_fs, each.end_fs) for each in found.buckets]
    for first, color in ((0, PURPLE), (1, BLUE)):
        bars = [(each[first] * scale, (each[first + 1] - each[first]) * scale) for each in times]
        axes.broken_barh(bars, (0.65, 0.7), facecolor=tint(color, 0.8), edgecolor="white", lw=0.4)
    axes.axvline(found.backward_fs * scale, color=INK, lw=1, ls=":")
    axes.axvspan(
        found.backward_fs * scale, max(found.finish_fs, found.backward_fs) * scale, color="#eeeeee", zorder=0
    )
    axes.set_yticks([0, 1], ["backward", "all-reduce"])
    axes.set_ylim(1.5, -0.5)
    axes.set_title(title, pad=18)
    subtitle(axes, sentence(found))


def sentence(found: Overlapped) -> str:
    """How many buckets, how long they take, and what of it the step waits for."""
    busy, exposed = (show(time * FEMTO, "s", 3) for time in (found.busy_fs, found.exposed_fs))
    count, copied = len(found.buckets), sum(bucket.copy_fs for bucket in found.buckets)
    copies = f", of it {show(copied * FEMTO, 's', 3)} of copies and casts (purple)" if copied else ""
    return (
        f"{count} bucket{'s' * (count != 1)}, {busy} on the stream{copies}; the step waits {exposed} (grey)"
    )


def tuning_plot(tuned: Tuned, title: str, along: str = "cycle_fs") -> Figure:
    """Time that the step waits against the cycle time (or ``along="threshold_B"``), a line per choice of the other."""
    words, other = CHOICES[along]
    with styled():
        fig, (axes,) = figure(3.8)
        lines: dict[int, list[Trial]] = {}
        for trial in tuned.trials:
            lines.setdefault(getattr(trial.fusion, other), []).append(trial)
        factor, unit = prefixed([trial.exposed_fs * FEMTO for trial in tuned.trials], "s")
        keys = sorted(lines)
        shown = keys[:: -(-len(keys) // MOST_LINES)] if len(keys) > MOST_LINES else keys
        for number, key in enumerate(shown):
            trials = sorted(lines[key], key=lambda trial: getattr(trial.fusion, along))
            waits = [trial.exposed_fs * FEMTO * factor for trial in trials]
            color = tint(BLUE, (number + 1) / len(shown))
            places = [_of(trial, along) for trial in trials]
            axes.plot(places, waits, marker="o", ms=3, color=color, label=_label(other, key))
        best = tuned.best
        axes.plot(
            [_of(best, along)], [best.exposed_fs * FEMTO * factor], "*", ms=13, color=VERMILLION, label="best"
        )
        axes.set_xscale("log")
        log_axis(axes.xaxis)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"{words} ({'ms' if along == 'cycle_fs' else 'MiB'})")
        axes.set_ylabel(f"the step waits ({unit})")
        axes.grid(True)
        axes.set_title(title, pad=18)
        subtitle(axes, f"best: {_label('cycle_fs', best.fusion.cycle_fs)}, "
                       f"{_label('threshold_B', best.fusion.threshold_B)}, {best.buckets} buckets")  # fmt: skip
        fig.legend(loc="outside right center")
        return fig


def _of(trial: Trial, along: str) -> float:
    """Milliseconds or MiB."""
    return float(getattr(trial.fusion, along)) / (10**12 if along == "cycle_fs" else 2**20)


def _label(field: str, value: int | None) -> str:
    if field == "cycle_fs":
        return f"cycle {show((value or 0) * FEMTO, 's', 3)}"
    return f"threshold {show(value or 0, 'B', 3, binary=True)}"
