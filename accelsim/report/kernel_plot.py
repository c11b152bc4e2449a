"""Picture of a kernel: the staircase of a size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from accelsim.kernels.sweep import Sweep
from accelsim.report.legends import below
from accelsim.report.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    figure,
    prefixed,
    styled,
    subtitle,
)
from accelsim.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TILE_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY)


def staircase(sweep: Sweep) -> Figure:
    """Time with its interval, in the colour of its tile, and the share of it that the stated peaks would need."""
    with styled():
        fig, (time, share) = figure(5.4, 2, 1, sharex=True, gridspec_kw={"height_ratios": [2.2, 1]})
        factor, unit = prefixed(sweep.found.seconds.tolist(), "s")
        low, high = sweep.ends.low * factor, sweep.ends.high * factor
        time.fill_between(sweep.sizes, low, high, color=GREY, alpha=0.25, lw=0, label="90 % interval")
        time.plot(sweep.sizes, sweep.found.seconds * factor, color=INK, lw=0.6)
        _tiles(time, sweep, sweep.found.seconds * factor)
        time.set_ylim(0, 1.05 * float(np.max(high)))
        time.set_ylabel(f"time of the kernel, {unit}")
        share.plot(sweep.sizes, 100 * sweep.share, color=INK, lw=1)
        share.set_ylim(0, 100)
        share.set_ylabel("of the peaks, %")
        share.set_xlabel(sweep.name)
        cells = sweep.kernels.table.cells[0]
        fixed = ", ".join(
            f"{name} {cells[name]}" for name in cells if name not in ("op", "dtype", sweep.name)
        )
        time.set_title(
            f"{cells['op']} in {cells['dtype']} on {sweep.kernels.chip.title}, by {sweep.name}", pad=20
        )
        told = "calibrated" if bool(sweep.ends.calibrated.all()) else "uncalibrated"
        subtitle(time, f"{fixed}; constants {told}; below: what the stated peaks would need of that time")
        below(fig, time)
        return fig


def _tiles(axes: Axes, sweep: Sweep, values: Floats) -> None:
    """Points in the colour of their tile: the most frequent ones by name."""
    tiles = sweep.found.times.tile.astype(str)
    names, counts = np.unique(tiles, return_counts=True)
    ordered = [str(names[index]) for index in np.argsort(-counts, kind="stable") if names[index]]
    for name, colour in zip(ordered, TILE_COLOURS, strict=False):
        mine = tiles == name
        axes.plot(sweep.sizes[mine], values[mine], ".", ms=4, color=colour, label=f"tile {name}")
    rest = ~np.isin(tiles, ordered[: len(TILE_COLOURS)]) & (tiles != "")
    if rest.any():
        axes.plot(sweep.sizes[rest], values[rest], ".", ms=4, color=GREY, label="other tiles")
