"""The picture of docs/sram.md: energy over the capacity with CACTI's points, and what a skewed read does to banks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from accelsim.report.style import BLUE, GREEN, GREY, INK, VERMILLION, figure, save, styled, subtitle
from accelsim.sram.banks import Banking
from accelsim.sram.model import sram
from accelsim.sram.patterns import feed
from accelsim.sram.terms import CACTI, Point, read_points
from accelsim.units import show
from tests.helpers.sram_banks import bank_loads, strided_clocks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELLS = (("itrs-hp", VERMILLION, "o"), ("itrs-lop", BLUE, "s"))
BANKS = 8
STRIDES = ((64, VERMILLION), (65, GREEN))
"""Bytes from row to row, and the colour."""


def _over_capacity(axes: Axes, points: list[Point], name: str, factor: float) -> None:
    """One quantity over the capacity, both cells, at 45 nm and 64 bits."""
    capacities = np.geomspace(2**10, 2**26, 80)
    for cell, color, mark in CELLS:
        own = [p for p in points if (p.node_nm, p.cell, p.word_bits) == (45, cell, 64)]
        curve = [factor * getattr(sram(capacity, cell=cell), name) for capacity in capacities]
        axes.plot(capacities, curve, color=color, label=f"{cell}, model")
        axes.plot([p.capacity_B for p in own], [factor * p.values[name] for p in own], mark, color=color,
                  markersize=4, alpha=0.6, label=f"{cell}, CACTI")  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = 2.0 ** np.arange(10, 27, 4)
    axes.set_xticks(ticks, [show(size, "B", 3, binary=True) for size in ticks])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.grid(True)
    axes.set_xlabel("capacity")
    axes.legend()


def _banks(axes: Axes) -> None:
    """Accesses per bank when eight ports read one column, with rows of 64 and of 65 bytes."""
    banking = Banking(BANKS, 1)
    for shift, (stride, color) in zip((-0.2, 0.2), STRIDES, strict=True):
        loads = bank_loads(feed("os", BANKS, 64, stride, skewed=False), banking, 0)
        label = f"rows of {stride} B: {loads.max()} clock{'s' if loads.max() > 1 else ''}"
        axes.bar(np.arange(BANKS) + shift, loads, 0.38, color=color, label=label)
    axes.axhline(1, color=INK, linewidth=0.8, linestyle="--")
    axes.text(BANKS - 0.5, 1.1, "one access per clock", ha="right", va="bottom", fontsize=8)
    axes.set_xticks(range(BANKS))
    axes.set_xlabel("bank")
    axes.set_ylabel("accesses at one clock")
    axes.set_title("Eight ports read a column", pad=18)
    subtitle(axes, "eight banks of 1-byte words, one port each")
    axes.legend()


def _strides(axes: Axes) -> None:
    """Clocks per access of 32 lanes over the stride, with 32 banks and with 37."""
    strides = np.arange(1, 65)
    for banks, color, width in ((32, VERMILLION, 1.0), (37, GREY, 1.6)):
        clocks = [strided_clocks(32, int(stride), banks) for stride in strides]
        axes.plot(strides, clocks, color=color, linewidth=width, label=f"{banks} banks")
    axes.set_yscale("log", base=2)
    axes.set_yticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    axes.minorticks_off()
    axes.set_xticks(range(0, 65, 16))
    axes.grid(True)
    axes.set_xlabel("stride, words")
    axes.set_ylabel("clocks")
    axes.set_title("32 lanes, a stride apart", pad=18)
    subtitle(axes, "32 banks: clocks = gcd(stride, 32)")
    axes.legend(loc="upper left")


def draw(path: Path) -> None:
    """Write the picture."""
    points = read_points(CACTI)
    with styled():
        drawn, (energy, leakage, banks, strides) = figure(6.2, 2, 2)
        _over_capacity(energy, points, "read_J", 1e12)
        energy.set_title("Energy of a 64-bit read, 45 nm")
        energy.set_ylabel("pJ")
        _over_capacity(leakage, points, "leakage_W", 1e3)
        leakage.set_title("Leakage, 45 nm")
        leakage.set_ylabel("mW")
        _banks(banks)
        _strides(strides)
    save(drawn, path)


if __name__ == "__main__":
    draw(Path(__file__).parents[1] / "img" / "sram.png")
