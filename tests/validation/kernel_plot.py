"""Picture of kernels: measured against predicted times, a panel for each set."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accelsim.report.style import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, figure, styled
from accelsim.types import Array, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REGIME_COLOURS = {
    "many waves": BLUE, "few waves": ORANGE, "less than a wave": GREEN, "launch": PURPLE, "streaming": SKY,
    "prefill": BLUE, "decode": ORANGE,
}  # fmt: skip
"""Regime -> colour; others are grey."""


ACROSS = 3
"""Panels beside each other, at the most."""


FEW = 50
"""Below this factor from end to end an axis has labels between powers of ten."""


class Compared(NamedTuple):
    """Rows of a set beside each other, for a picture: seconds measured and predicted, regime of each ('' where there
    are none), and the factor of the interval (0: none)."""

    title: str
    measured: Floats
    predicted: Floats
    regime: Array
    factor: float = 0.0


def against_measured(title: str, sets: Sequence[Compared]) -> Figure:
    """A panel for each set: every row a point, right on the line where prediction and measurement agree."""
    across = min(ACROSS, len(sets))
    down = ceil(len(sets) / across)
    with styled():
        fig, panels = figure(0.9 + 2.7 * down, down, across)
        for index, (axes, each) in enumerate(zip(panels, sets, strict=False)):
            _panel(axes, each)
            if index + across >= len(sets):
                axes.set_xlabel("measured, ms")
            if index % across == 0:
                axes.set_ylabel("predicted, ms")
        for axes in panels[len(sets) :]:
            axes.set_visible(False)
        fig.suptitle(title, fontsize=11, x=0.01, ha="left")
        seen = {text: line for axes in panels for line, text in zip(*axes.get_legend_handles_labels(), strict=True)}
        if seen:
            fig.legend(seen.values(), seen.keys(), loc="outside lower center", ncols=5, markerscale=2.5)
        return fig


def _panel(axes: Axes, each: Compared) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    measured, predicted = 1e3 * each.measured, 1e3 * each.predicted
    both = np.concatenate([measured, predicted])
    ends = np.array([both.min() / 1.5, both.max() * 1.5])
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.plot(ends, ends, color=INK, lw=0.8)
    if each.factor:
        axes.fill_between(
            ends, ends / each.factor, ends * each.factor, color=GREY, alpha=0.3, lw=0, label="90 % interval"
        )
    regimes = each.regime.astype(str)
    for name in np.unique(regimes):
        mine = regimes == name
        colour = REGIME_COLOURS.get(name, BLUE if not name else GREY)
        axes.plot(
            measured[mine], predicted[mine], ".", ms=2.5 if len(both) > 200 else 6, color=colour, alpha=0.6,
            label=name or None,
        )  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0,) if ends[1] / ends[0] > FEW else (1.0, 3.0)))
        axis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        axis.set_minor_formatter(NullFormatter())
    axes.set_title(f"{each.title}\n{len(each.measured):,} rows, mean error {_mean(each):.1%}", fontsize=8.5)
    axes.tick_params(labelsize=7)


def _mean(each: Compared) -> float:
    return float(np.abs(each.predicted / each.measured - 1).mean())
