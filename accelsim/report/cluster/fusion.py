"""Pictures of fused gradients: buckets beside the backward, and what the step waits for against cycle and threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.cluster.buckets.tune import Trial, Tuned
from accelsim.report.style import (
    BLUE,
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
    from matplotlib.figure import Figure

FEMTO = 1e-15
MOST_LINES = 6
"""Lines of a picture of a grid; of more thresholds so many are drawn."""
CHOICES = {
    "cycle_fs": ("cycle time", "threshold_B"),
    "threshold_B": ("threshold", "cycle_fs"),
}
"""What the horizontal axis shows -> its name, what the lines differ in."""


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
