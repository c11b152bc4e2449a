"""Plots of energies per action: what a multiplication, an SRAM and a DRAM cost, whoever says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from accelsim.account.energy_figures import Figure
from accelsim.report.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    SKY,
    VERMILLION,
    figure,
    log_axis,
    styled,
    subtitle,
)
from accelsim.report.text import si
from accelsim.spec.scaling import nanometres

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


class Line(NamedTuple):
    """One row of the picture: its name, its colour, and which figures are in it."""

    name: str
    color: str
    holds: Callable[[Figure], bool]


def _arithmetic(what: str) -> Callable[[Figure], bool]:
    return lambda each: each.component == "arithmetic" and each.what == what


def _sram(what: str, newest: float = 0.0) -> Callable[[Figure], bool]:
    return lambda each: (
        each.component == "SRAM" and each.what == what and (nanometres(each.node) or 0) >= newest
    )


def _dram(*kinds: str) -> Callable[[Figure], bool]:
    return lambda each: each.component == "DRAM" and each.what.upper() in kinds


LINES = (
    Line("int8 addition", SKY, _arithmetic("int8 add")),
    Line("int8 multiplication", BLUE, _arithmetic("int8 multiply")),
    Line("int32 multiplication", BLUE, _arithmetic("int32 multiply")),
    Line("fp32 multiplication", BLUE, _arithmetic("fp32 multiply")),
    Line("register file of 1 KiB", GREEN, lambda each: each.component == "register" and "file" in each.what),
    Line("SRAM of 32 KiB", GREEN, _sram("32 KiB")),
    Line("SRAM of 1 MiB", GREEN, _sram("1 MiB")),
    Line("PCIe", ORANGE, lambda each: each.component == "link" and each.what.lower().startswith("pcie")),
    Line("HBM2, HBM2E, HBM3", VERMILLION, _dram("HBM2", "HBM2E", "HBM3")),
    Line("GDDR6, GDDR6X", VERMILLION, _dram("GDDR6", "GDDR6X")),
    Line("LPDDR4, LPDDR5", VERMILLION, _dram("LPDDR4", "LPDDR5")),
    Line("DDR4", VERMILLION, _dram("DDR4")),
    Line("DDR3", VERMILLION, _dram("DDR3")),
)
"""Rows from the arithmetic outwards."""


def joules(each: Figure) -> tuple[float, float]:
    """(lowest, highest) per operation, or per word of 32 bits."""
    return each.word_J or (each.low_J, each.high_J)


def per_access(found: Sequence[Figure]) -> Drawing:
    """One row per thing on a logarithmic axis: a mark per source, hollow where the figure is not verified."""
    with styled():
        rows = [(line, [each for each in found if line.holds(each)]) for line in LINES]
        rows = [(line, figures) for line, figures in rows if figures]
        drawn, (axes,) = figure(1.6 + 0.3 * len(rows))
        for place, (line, figures) in enumerate(rows):
            _row(axes, place, line, figures)
        _finish(axes, [line.name for line, _ in rows])
        drawn.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return drawn


def _row(axes: Axes, place: int, line: Line, figures: Sequence[Figure]) -> None:
    ends = [end for each in figures for end in joules(each)]
    axes.hlines(place, min(ends), max(ends), color=line.color, linewidth=6, alpha=0.25, zorder=1)
    for each in figures:
        low, high = joules(each)
        style: dict[str, Any] = {
            "markerfacecolor": line.color if each.is_verified else "white",
            "markeredgecolor": line.color,
        }
        axes.plot([low, high] if high > low else [low], [place] * (1 + (high > low)), "o", markersize=6.5, zorder=3,
                  linestyle="none", **style)  # fmt: skip
    if max(ends) / min(ends) < 1.05:
        text = si(max(ends), "J")
    else:
        text = f"{si(min(ends), 'J')} to {si(max(ends), 'J')}"
    axes.annotate(
        text, (max(ends), place), xytext=(9, 0), textcoords="offset points", va="center", fontsize=8
    )


def _finish(axes: Axes, names: Sequence[str]) -> None:
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * 12)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    log_axis(axes.xaxis)
    axes.xaxis.set_major_formatter(
        lambda value, _: f"{1e12 * value:,.0f}" if value > 1e-12 else f"{1e12 * value:g}"
    )
    axes.grid(True, axis="x")
    axes.set_xlabel("energy of one operation, or of moving one 32-bit word (pJ, logarithmic)")
    axes.set_title("Computing is cheap, memory is not: energy by operation and by 32-bit access", pad=20)
    subtitle(
        axes,
        "a mark per source, 45 nm to 7 nm; the bar is what sources and nodes differ by; DRAM with or without I/O",
    )
    axes.plot([], [], "o", color=INK, label="verified, measured, or derived from such")
    axes.plot([], [], "o", markerfacecolor="white", markeredgecolor=INK, label="quoted, recalled or guessed")
    axes.spines["left"].set_color(FAINT)
