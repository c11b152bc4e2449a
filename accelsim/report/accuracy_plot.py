"""Accuracy, latency and energy of a model over number formats, chip by chip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from accelsim.report.legends import below
from accelsim.report.style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    figure,
    log_axis,
    prefixed,
    styled,
    subtitle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from accelsim.explore.accuracy import Accuracy, Row

LOOKS = ((BLUE, "o", ""), (VERMILLION, "s", "////"), (GREEN, "^", "...."), (ORANGE, "D", "xxxx"), (PURPLE, "v", "||||"),
         (SKY, "P", "----"))  # fmt: skip
"""Colour, mark and hatch of one chip after the other."""

WIDE = 20.0
"""Ratio of the largest to the smallest bar from which on the axis is logarithmic."""


@styled()
def draw(result: Accuracy) -> Figure:
    """Three panels over the formats: accuracy, latency and energy of one inference, chip by chip."""
    known = [row for row in result.rows if row.known]
    labels = list(dict.fromkeys(_label(row) for row in result.rows))
    chips = list(dict.fromkeys(row.chip for row in result.rows))
    fig, (top, middle, bottom) = figure(7.6, 3, sharex=True, gridspec_kw={"height_ratios": [1.3, 1, 1]})
    _points(top, known, labels, chips, result)
    for axes, value, unit, what in (
        (middle, lambda row: row.chip_s, "s", "latency on the chip"),
        (bottom, lambda row: row.chip_J, "J", "energy on the chip"),
    ):
        _bars(axes, known, labels, chips, value, unit, what)
    bottom.set_xticks(range(len(labels)), labels)
    bottom.set_xlabel("number format (QAT: trained with its rounding; the others: rounded after training)")
    below(fig, middle)
    return fig


def _label(row: Row) -> str:
    return f"{row.dtype}\nQAT" if row.method == "QAT" else row.dtype


def _points(
    axes: Axes, rows: Sequence[Row], labels: Sequence[str], chips: Sequence[str], result: Accuracy
) -> None:
    for index, chip in enumerate(chips):
        color, mark, _ = LOOKS[index % len(LOOKS)]
        mine = [row for row in rows if row.chip == chip]
        at = [labels.index(_label(row)) + _offset(index, len(chips)) for row in mine]
        axes.plot(at, [100 * row.accuracy for row in mine], mark, color=color, markersize=6)
    for tick, label in enumerate(labels):
        found = [100 * row.accuracy for row in rows if _label(row) == label]
        if found:
            best = max(found)
            axes.annotate(f"{best:.1f}", (tick, best), xytext=(0, 6), textcoords="offset points", fontsize=8,
                          ha="center")  # fmt: skip
    axes.axhline(100 * result.baseline, color="#666666", linewidth=0.8, linestyle="--")
    axes.set_ylim(0, 112)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel("accuracy (%)")
    axes.grid(True, axis="y")
    axes.set_title(f"{result.model}: what a number format costs and saves", pad=20)
    subtitle(
        axes,
        f"{result.samples} test samples of {result.data}; one inference, batch {result.batch}; dashed: FP32",
    )


def _bars(
    axes: Axes, rows: Sequence[Row], labels: Sequence[str], chips: Sequence[str], value: Callable[[Row], float],
    unit: str, what: str,
) -> None:  # fmt: skip
    factor, name = prefixed([value(row) for row in rows], unit)
    share = 0.8 / max(len(chips), 1)
    for index, chip in enumerate(chips):
        color, _, hatch = LOOKS[index % len(LOOKS)]
        mine = [row for row in rows if row.chip == chip]
        at = [labels.index(_label(row)) + _offset(index, len(chips)) for row in mine]
        axes.bar(at, [value(row) * factor for row in mine], share, color=color, hatch=hatch, edgecolor="white",
                 linewidth=0.4, label=chip)  # fmt: skip
    values = [value(row) for row in rows if value(row) > 0]
    if values and max(values) > WIDE * min(values):
        axes.set_yscale("log")
        log_axis(axes.yaxis)
    axes.set_ylabel(f"{what} ({name})".replace(" on the chip", ""))
    axes.grid(True, axis="y")


def _offset(index: int, count: int) -> float:
    """Where the bar of a chip stands beside the tick of its format."""
    return 0.8 * ((index + 0.5) / count - 0.5)
