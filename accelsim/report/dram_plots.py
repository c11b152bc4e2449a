"""Plots of one memory alone and of several side by side: latency, what the bus did, utilisation, energy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from accelsim.explore.dram_compare import TRACES, Row
from accelsim.explore.dram_replay import Replay
from accelsim.explore.dram_waits import REASONS
from accelsim.report.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    YELLOW,
    Look,
    figure,
    log_axis,
    styled,
    subtitle,
)
from accelsim.report.text import percent, si
from accelsim.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 60

WAIT_LOOKS: dict[str, Look] = {
    "data": Look(BLUE),
    "group": Look(VERMILLION, "\\\\\\\\"),
    "column": Look("#7a5195", "++++"),
    "turn": Look(ORANGE, "||||"),
    "rank": Look(YELLOW, "xxxx"),
    "bank": Look(PURPLE, "...."),
    "tFAW": Look(SKY, "////"),
    "t32AW": Look("#003f63", "----"),
    "tRRD": Look("#9ecae1"),
    "refresh": Look(GREEN, "--"),
    "request": Look("#cfcfcf"),
    "uneven": Look("#f2f2f2", "//"),
}
"""Reason (``explore.dram_waits.REASONS``) -> look."""

SHORT = {
    "data": "data",
    "group": "same bank group (tCCD_L)",
    "column": "column commands (tCCD_S)",
    "turn": "read/write turn-around",
    "rank": "change of rank",
    "bank": "row cycle of a bank (tRC)",
    "tFAW": "four activations (tFAW)",
    "t32AW": "32 activations (t32AW)",
    "tRRD": "activations (tRRD)",
    "refresh": "refresh",
    "request": "no request to serve",
    "uneven": "channel out of work",
}
"""Reason -> its line in the legend."""

TRACE_LOOKS = (
    Look(BLUE),
    Look(GREEN, "////"),
    Look(SKY, "----"),
    Look(ORANGE, "||||"),
    Look(VERMILLION, "xxxx"),
)


def latency(found: Replay) -> Figure | None:
    """Histogram of the read latencies under load, with mean, p99 and the unloaded one; None without any."""
    values = found.latencies_s
    if values is None:
        return None
    ns = values * 1e9
    high = float(np.quantile(ns, 0.999))
    with styled():
        fig, (axes,) = figure(3.8)
        top = high if high > ns.min() else ns.min() + 1
        axes.hist(
            ns[ns <= top], BINS, range=(0, top), color=BLUE, weights=np.full((ns <= top).sum(), 100 / len(ns))
        )
        lines = (
            ("unloaded", found.unloaded_s * 1e9, GREEN, "--"),
            ("mean", float(ns.mean()), INK, "-"),
            ("99th percentile", float(np.quantile(ns, 0.99)), VERMILLION, ":"),
        )
        for name, value, color, line in lines:
            axes.axvline(value, color=color, linestyle=line, linewidth=1.8, label=f"{name}: {value:.0f} ns")
        axes.set_xlim(0, top * 1.03)
        axes.set_xlabel("from acceptance to the last data of a read (ns)")
        axes.set_ylabel("reads (%)")
        axes.grid(True, axis="y")
        axes.set_title(f"Read latency under load: {found.trace_name} on {found.device.name}", pad=18)
        queued = " Most of it is waiting in the queue." if ns.mean() > 2e9 * found.unloaded_s else ""
        subtitle(axes, f"{len(ns):,} reads; the slowest took {ns.max():.0f} ns.{queued}")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return fig


def bus(founds: Sequence[tuple[str, Replay]], title: str, note: str = "") -> Figure:
    """One stacked bar per (label, replay): what the data buses did, shares of the time."""
    told = [(label, found.waits) for label, found in founds]
    shown = [
        reason
        for reason in REASONS
        if any(waits is not None and waits.share(reason) >= 0.005 for _, waits in told)
    ]
    with styled():
        fig, (axes,) = figure(max(2.8, 1.9 + 0.42 * len(told)))
        left = np.zeros(len(told))
        for reason in shown:
            shares = np.array([100 * waits.share(reason) if waits else 0.0 for _, waits in told])
            look = WAIT_LOOKS[reason]
            axes.barh(range(len(told)), shares, 0.62, left, color=look.color, hatch=look.hatch, edgecolor="white",
                      linewidth=0.5, label=SHORT[reason])  # fmt: skip
            if reason == "data":
                for y, share in enumerate(shares):
                    axes.text(1, y, f"{share:.0f} %", va="center", color="white", weight="bold", fontsize=8)
            left += shares
        axes.set_yticks(range(len(told)), [label for label, _ in told])
        axes.invert_yaxis()
        axes.set_xlim(0, 100)
        axes.set_xlabel("time of the data bus (%)")
        axes.set_title(title, pad=18 if note else 8)
        subtitle(axes, note)
        fig.legend(loc="outside lower center", ncols=4)
    return fig


def _bars(axes: Axes, places: Array, values: list[float], wide: float, look: Look, trace: str) -> None:
    """One bar per memory, those of one trace."""
    axes.bar(places, values, wide * 0.92, color=look.color, hatch=look.hatch, edgecolor="white", label=trace)


def utilisation(rows: Sequence[Row]) -> Figure:
    """Share of the peak by trace, a group of bars per memory."""
    with styled():
        fig, (axes,) = figure(4.2)
        wide = 0.8 / len(TRACES)
        for index, (trace, look) in enumerate(zip(TRACES, TRACE_LOOKS, strict=True)):
            places = np.arange(len(rows)) + (index - (len(TRACES) - 1) / 2) * wide
            values = [100 * row.share(trace) for row in rows]
            _bars(axes, places, values, wide, look, trace)
            for x, value in zip(places, values, strict=True):
                axes.text(x, value + 1, f"{value:.0f}" if value >= 1 else "<1", ha="center", fontsize=6.5)
        axes.set_xticks(range(len(rows)), [f"{row.name}\n{si(row.peak_Bps, 'B/s')}" for row in rows])
        axes.tick_params(axis="x", length=0)
        axes.set_ylim(0, 108)
        axes.set_ylabel("achieved of the peak (%)")
        axes.grid(True, axis="y")
        axes.set_title("The peak is a promise; what is kept of it depends on the addresses", pad=18)
        subtitle(
            axes,
            "each memory with its own mapping; tile3 and stream3 walk through three tensors a power of two apart",
        )
        fig.legend(loc="outside lower center", ncols=len(TRACES))
    return fig


ENERGY_LOOKS = {
    "seq_read": Look(BLUE),
    "rand_read": Look(ORANGE, "||||"),
    "conflict": Look(VERMILLION, "xxxx"),
}


def energy(rows: Sequence[Row]) -> Figure | None:
    """Energy of the dies per bit by trace, on a logarithmic axis; None when no memory states any."""
    known = [row for row in rows if row.pJ_per_bit("seq_read") is not None]
    if not known:
        return None
    with styled():
        fig, (axes,) = figure(4.2)
        wide = 0.8 / len(ENERGY_LOOKS)
        for index, (trace, look) in enumerate(ENERGY_LOOKS.items()):
            places = np.arange(len(known)) + (index - 1) * wide
            values = [row.pJ_per_bit(trace) or 0.0 for row in known]
            _bars(axes, places, values, wide, look, trace)
            for x, value in zip(places, values, strict=True):
                axes.text(x, value * 1.05, f"{value:.3g}", ha="center", va="bottom", fontsize=7)
        axes.set_yscale("log")
        axes.set_ylim(top=axes.get_ylim()[1] * 1.5)
        log_axis(axes.yaxis)
        axes.set_xticks(
            range(len(known)), [row.name + ("\n(not verified)" if row.doubtful else "") for row in known]
        )
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("dies (pJ/bit)")
        axes.grid(True, axis="y", color=FAINT)
        axes.set_title("Energy per bit: the memory decides, and the addresses as much", pad=18)
        subtitle(
            axes, "without I/O; conflict: a row opened for each burst, on one bank, while all others idle"
        )
        fig.legend(loc="outside lower center", ncols=3)
    return fig


def bus_title(found: Replay) -> str:
    """Title of the plot of one replay."""
    share = percent(found.waits.share("data")) if found.waits else ""
    return f"What the data bus did: {found.trace_name} on {found.device.name}, {share} data"
