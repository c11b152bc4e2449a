"""The plot of the SRAM model: energy, time, leakage and area over the capacity, with the CACTI points it was fitted
to."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accelsim.report.style import BLUE, GREEN, INK, ORANGE, VERMILLION, figure, styled, subtitle
from accelsim.sram.model import LARGEST_B, SMALLEST_B, sram
from accelsim.units import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from accelsim.sram.terms import Point


class Panel(NamedTuple):
    """One panel: title, unit of the axis, factor from SI to it, and (field of ``Sram``, label, colour, mark)."""

    title: str
    unit: str
    factor: float
    lines: tuple[tuple[str, str, str, str], ...]


PANELS = (
    Panel("Energy of an access", "pJ", 1e12, (("read_J", "read", BLUE, "o"), ("write_J", "write", ORANGE, "s"))),
    Panel("Time", "ns", 1e9, (("access_s", "access", BLUE, "o"), ("cycle_s", "cycle", ORANGE, "s"))),
    Panel("Leakage", "mW", 1e3, (("leakage_W", "channels and gates", VERMILLION, "o"),)),
    Panel("Area", "mm²", 1e6, (("area_m2", "area", GREEN, "o"),)),
)  # fmt: skip
"""The panels of the plot."""


class Asked(NamedTuple):
    """The memory that the curves are drawn for; capacity is where the star stands."""

    capacity_B: int
    word_bits: int
    ports: int
    banks: int
    node_nm: float
    cell: str


def sweep(asked: Asked, points: Sequence[Point]) -> Figure:
    """Four panels over the capacity: curves of the model for ``asked``, a star at its capacity, CACTI's points.

    ``points`` are those of one bank and port; only those of the node, cell and word width of ``asked`` are drawn, and
    none where it has more banks or ports, since they are other memories.
    """
    single = asked.banks == asked.ports == 1
    drawn = (asked.node_nm, asked.cell, asked.word_bits)
    own = [p for p in points if single and (p.node_nm, p.cell, p.word_bits) == drawn]
    with styled():
        fig, panels = figure(6.4, 2, 2, sharex=True)
        for panel, axes in zip(PANELS, panels, strict=True):
            _panel(axes, panel, asked, own)
        for axes in panels[2:]:
            axes.set_xlabel("capacity of the memory")
        words = f"{asked.node_nm:g} nm, {asked.cell}, words of {asked.word_bits} bits"
        words += f", {asked.banks} banks" if asked.banks > 1 else ", one bank"
        words += f", {asked.ports} ports" if asked.ports > 1 else ", one port"
        fig.suptitle(f"SRAM: {words}", x=0.01, ha="left", weight="bold")
    return fig


def _panel(axes: Axes, panel: Panel, asked: Asked, points: Sequence[Point]) -> None:
    least = max(SMALLEST_B, asked.banks * asked.word_bits // 8)
    low, high = min(least, asked.capacity_B), max(LARGEST_B, asked.capacity_B)
    capacities = np.geomspace(low, high, 60)
    setup = asked._asdict()
    curves = [sram(**setup | {"capacity_B": float(capacity)}) for capacity in capacities]
    star = sram(**setup)
    for name, label, color, mark in panel.lines:
        values = [panel.factor * getattr(memory, name) for memory in curves]
        here = panel.factor * getattr(star, name)
        said = f"{label}: {here:.3g} {panel.unit}"
        axes.plot(capacities, values, color=color, linewidth=1.5, label=said)
        axes.plot([asked.capacity_B], [here], "*", color=color, markersize=13, markeredgecolor=INK)
        axes.plot(
            [p.capacity_B for p in points], [panel.factor * p.values[name] for p in points], mark, color=color,
            markersize=4, alpha=0.6, markeredgewidth=0,
        )  # fmt: skip
    if points:
        axes.plot([], [], "o", color="#888888", markersize=4, label="CACTI")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    _capacity_axis(axes, low, high)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(True, which="major")
    axes.set_ylabel(panel.unit)
    axes.set_title(panel.title, pad=18)
    at = show(asked.capacity_B, "B", 3, binary=True)
    subtitle(axes, f"star and figures: {at}")
    axes.legend(loc="upper left")


def _capacity_axis(axes: Axes, low: float, high: float) -> None:
    """Powers of two, few enough to be read."""
    every = 2 ** np.arange(int(log2(low)), int(log2(high)) + 1, 4, dtype=float)
    axes.set_xticks(every, [show(value, "B", 3, binary=True) for value in every])
    axes.minorticks_off()
