"""The picture of a number format: where its values lie, and a zoom to one of them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from accelsim.formats import codec
from accelsim.formats.describe import Description, neighbour
from accelsim.formats.table import Format, get
from accelsim.report.style import BLUE, ORANGE, VERMILLION, figure, styled, subtitle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SINGLE_BITS = 8
"""Formats of at most so many bits are drawn value by value, longer ones binade by binade."""
EACH_SIDE = 4
"""Values that the zoom shows on either side."""


def draw(what: Description) -> Figure:
    """All positive values on a logarithmic axis; below it, to scale, the values around the one described."""
    row = get(what.format)
    with styled():
        drawn, (above, below) = figure(4.6, rows=2)
        _overview(above, row, what)
        _zoom(below, row, what)
    return drawn


def ladder(axes: Axes, row: Format, low: float, high: float) -> None:
    """The positive values of a format as strokes of a ruler over log2, from ``low`` to ``high``.

    Subnormals are shorter and have another colour.
    """
    values, single = _positive(row)
    small = values < row.min_normal if row.kind == "float" else np.zeros(values.shape, bool)
    for chosen, color, height, name in ((~small, BLUE, 1.0, "normal"), (small, ORANGE, 0.6, "subnormal")):
        if chosen.any():
            label = name if single else f"{name}, powers of two only"
            axes.vlines(np.log2(values[chosen]), 0, height, color=color, linewidth=1.1, label=label)
    axes.set_xlim(math.log2(low) - 1, math.log2(high) + 1)
    axes.set_ylim(0, 1.35)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    _powers(axes, math.floor(math.log2(low)), math.ceil(math.log2(high)))


def _positive(row: Format) -> tuple[np.ndarray, bool]:
    """Positive finite values: every one of a short format, else the powers of two among them and the largest."""
    if row.bits <= SINGLE_BITS:
        values = codec.decode(np.arange(row.codes), row.name).astype(np.float64)
        return values[np.isfinite(values) & (values > 0)], True
    lowest = round(math.log2(row.min_subnormal))
    return np.append(np.ldexp(1.0, np.arange(lowest, row.emax + 1)), row.max), False


def _powers(axes: Axes, first: int, last: int) -> None:
    """Round labels on an axis of powers of two: plain numbers where they are short."""
    step = max(1, math.ceil((last - first) / 14))
    exponents = [power for power in range(first, last + 1) if power % step == 0]
    axes.set_xticks(
        exponents,
        [
            f"{2**power}" if 0 <= power <= 12 else f"1/{2**-power}" if -6 <= power < 0 else f"2^{power}"
            for power in exponents
        ],
    )


def _overview(axes: Axes, row: Format, what: Description) -> None:
    ends = [row.min_subnormal, row.max]
    size = abs(what.value)
    if 0 < size < math.inf:
        ends += [size]
    ladder(axes, row, min(ends), max(ends))
    if 0 < size < math.inf:
        axes.axvline(math.log2(size), color=VERMILLION, linewidth=2)
        _say(axes, f"|x| = {size:.6g}", (math.log2(size), 1.2), "left")
    axes.set_title(f"{row.name}: its positive values, logarithmic", pad=18)
    facts = [f"largest {row.max:.5g}", f"smallest normal {row.min_normal:.3g}"]
    facts += [f"smallest {row.min_subnormal:.3g}"] if row.min_subnormal < row.min_normal else []
    facts += [f"{row.codes:,} codes"] if row.bits <= 32 else []
    subtitle(axes, " · ".join(facts))
    axes.legend(loc="upper left", bbox_to_anchor=(0, -0.16), ncols=2)


def _zoom(axes: Axes, row: Format, what: Description) -> None:
    values = around(what.rounded, row)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylim(0, 1.2)
    if len({float(value) for value in values}) < 2:
        axes.set_xticks([])
        axes.set_title(f"{what.value:g} becomes {what.rounded:g}: no neighbours to draw", pad=18)
        return
    axes.vlines(values, 0, 0.5, color=BLUE, linewidth=1.6)
    reach = (min(values), max(values))
    spread = (reach[1] - reach[0]) or 1.0
    axes.set_xlim(reach[0] - 0.06 * spread, reach[1] + 0.06 * spread)
    _label(axes, values, spread)
    _mark(axes, what, reach, spread)
    axes.set_title(f"The values around it, to scale: {what.value:g} becomes {what.rounded:.9g}", pad=18)
    lost = (
        ""
        if what.relative_error is None
        else f"error {what.absolute_error:.3g}, {100 * what.relative_error:.3g} % of x · "
    )
    subtitle(axes, f"{lost}{codec.ROUNDINGS[what.rounding]}; code {what.bits}")


def _label(axes: Axes, values: list[float], spread: float) -> None:
    """Every value by its number; slanted where they would touch."""
    texts = [f"{value:.6g}" for value in values]
    gap = min((b - a for a, b in pairwise(values)), default=spread)
    crowded = gap / spread < 0.012 * max(len(text) for text in texts)
    axes.set_xticks(values, texts, rotation=25 if crowded else 0, ha="right" if crowded else "center")


def _mark(axes: Axes, what: Description, reach: tuple[float, float], spread: float) -> None:
    """x as a line on the ruler and an arrow to what it becomes; at the edge when x lies outside."""
    shown = min(max(what.value, reach[0] - 0.05 * spread), reach[1] + 0.05 * spread)
    outside = shown != what.value
    axes.vlines([shown], 0, 0.9, color=VERMILLION, linewidth=2, linestyle="--" if outside else "-")
    side = "right" if shown > (reach[0] + reach[1]) / 2 else "left"
    _say(axes, f"x = {what.value:.6g}{', outside' if outside else ''}", (shown, 0.95), side)
    if math.isfinite(what.rounded) and what.rounded != shown:
        arrow = {"arrowstyle": "-|>", "color": VERMILLION, "lw": 1.4, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (what.rounded, 0.62), (shown, 0.62), arrowprops=arrow)


def _say(axes: Axes, text: str, at: tuple[float, float], side: str) -> None:
    """A text beside a point, on the side where there is room."""
    shift = (-4 if side == "right" else 4, 0)
    axes.annotate(text, at, xytext=shift, textcoords="offset points", ha=side, color=VERMILLION)


def around(value: float, row: Format) -> list[float]:
    """Finite values of the format around one of them, ascending; from the largest when it is an infinity."""
    if math.isnan(value):
        return []
    low, high = (row.low, row.high) if row.kind == "int" else (row.min, row.max)
    centre = max(min(value, high), low)
    found = [neighbour(centre, row, step) for step in range(-EACH_SIDE, EACH_SIDE + 1)]
    return sorted({each for each in found if each is not None and math.isfinite(each)})
