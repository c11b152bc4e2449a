"""Plots of links and networks: rate against transfer size, latency against load, the load of each channel."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from accelsim.network.link import effective_Bps, framing, half_size_B
from accelsim.network.noc.sweep import Sweep
from accelsim.report.style import BLUE, GREY, INK, ORANGE, VERMILLION, figure, styled, subtitle
from accelsim.report.text import si
from accelsim.spec.link import Link
from accelsim.units import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WAYS = ((False, "read", BLUE), (True, "write", VERMILLION))


def link_rates(name: str, link: Link, sizes_B: Sequence[int]) -> Figure:
    """Payload per second against the size of a transfer, back to back and one at a time, both directions."""
    with styled():
        fig, (axes,) = figure(4.2)
        for write, what, color in WAYS:
            streams = [effective_Bps(link, size, write) * 1e-9 for size in sizes_B]
            alone = [effective_Bps(link, size, write, alone=True) * 1e-9 for size in sizes_B]
            axes.plot(sizes_B, streams, color=color, label=f"{what}, back to back")
            axes.plot(sizes_B, alone, "--", color=color, label=f"{what}, one at a time")
        wire = float(framing(link, True).wire_Bps) * 1e-9
        axes.axhline(wire, color=INK, linewidth=1, linestyle=":", label="wire, headers included")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: show(value, "B", 4, binary=True))
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel("size of a transfer")
        axes.set_ylabel("payload (GB/s)")
        axes.grid(True)
        axes.set_title(f"{name}: what of its bandwidth is left for data", pad=20)
        half = show(half_size_B(link, False), "B", 3, binary=True)
        subtitle(
            axes, f"one at a time, latency {si(link.latency, 's')}: half of the best rate from {half} on"
        )
        fig.legend(loc="outside lower center", ncols=3)
        return fig


def load_latency(found: Sweep) -> Figure:
    """Latency against offered load: simulated, by formula, and the bound that no load can pass."""
    with styled():
        fig, (axes,) = figure(4.2)
        points = [(each.load, each.latency) for each in found.measured if isfinite(each.latency)]
        top = max(
            [found.zero_load * 3, *(latency for _, latency in points if latency < 10 * found.zero_load)]
        )
        axes.plot(*zip(*points, strict=True), "o-", color=BLUE, label="simulated") if points else None
        estimated = [
            (each.load, value)
            for each, value in zip(found.measured, found.estimated, strict=True)
            if isfinite(value)
        ]
        axes.plot(*zip(*estimated, strict=True), "--", color=ORANGE, label="formula: a queue at each channel")
        axes.axhline(found.zero_load, color=GREY, linewidth=1, linestyle=":", label="empty network")
        axes.axvline(found.bound, color=VERMILLION, linewidth=1.5, label="bound: the busiest channel is full")
        for each in found.measured:
            if each.packets and not isfinite(each.latency):
                axes.plot([each.load], [top * 1.1], marker="^", color=BLUE, clip_on=False)
                axes.annotate("does not get through", (each.load, top * 1.1), xytext=(-6, -3),
                              textcoords="offset points", ha="right", va="center", fontsize=8)  # fmt: skip
                break
        axes.set_xlim(0, found.bound * 1.05)
        axes.set_ylim(0, top * 1.1)
        axes.set_xlabel("offered load (flits per clock and node)")
        axes.set_ylabel("mean latency (clocks)")
        axes.grid(True)
        axes.set_title(f"{_title(found)}: latency against load", pad=20)
        subtitle(axes, f"{found.pattern} traffic, packets of {found.packet_flits} flit"
                       f"{'s' if found.packet_flits > 1 else ''}, mean of {found.mean_hops:.2f} links")  # fmt: skip
        fig.legend(loc="outside lower center", ncols=2)
        return fig


def _title(found: Sweep) -> str:
    return f"{found.network.name} {' x '.join(map(str, found.network.shape))}"


def channel_loads(found: Sweep) -> Figure:
    """Every link as an arrow whose colour is its load when each node sends a flit per clock: red ones set the bound."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    with styled():
        network = found.network
        load = found.load_of_one[2 * network.nodes :]
        fig, (axes,) = figure(6.0)
        scale = ScalarMappable(Normalize(0, max(1e-9, float(load.max(initial=0)))), colormaps["inferno_r"])
        _arrows(axes, found, scale)
        xs, ys = network.places.T
        axes.scatter(xs, ys, s=140 if network.routers < 40 else 40, c="white", edgecolors=INK, zorder=3)
        if network.routers == network.nodes and network.routers < 40:
            for router, (x, y) in enumerate(network.places):
                axes.text(x, y, str(router), ha="center", va="center", fontsize=6, zorder=4)
        axes.set_axis_off()
        if network.name not in ("tree", "fat-tree", "bus"):
            axes.set_aspect("equal")
        axes.margins(0.08)
        axes.set_title(f"{_title(found)}: load of each link, {found.pattern} traffic", pad=20)
        ends = found.load_of_one[: 2 * network.nodes].max() >= load.max(initial=0) - 1e-9
        busiest = "the way in or out of a node" if ends else "the darkest link"
        subtitle(axes, f"flits per clock if every node sent one per clock; {busiest} sets the bound of "
                       f"{found.bound:.3f}")  # fmt: skip
        if len(load):
            fig.colorbar(scale, ax=axes, shrink=0.7, label="flits per clock")
        return fig


def _arrows(axes: Axes, found: Sweep, scale: object) -> None:
    """Links as arrows beside the line between their routers; those that close a torus leave and come in at the edge."""
    network = found.network
    load = found.load_of_one[2 * network.nodes :]
    for link, (start, end) in enumerate(network.links):
        if start < 0:
            xs = network.places[:, 0]
            axes.plot([xs.min(), xs.max()], [0, 0], color=scale.to_rgba(load[link]), linewidth=6)  # type: ignore[attr-defined]
            continue
        a, b = network.places[start], network.places[end]
        side = np.array([a[1] - b[1], b[0] - a[0]])
        length = float(np.hypot(*side)) or 1.0
        shift = 0.06 * side / length if network.name in ("mesh", "torus", "ring", "tree") else 0 * side
        if network.wraps[link] and network.name == "torus":
            b = a + 0.6 * (a - b) / length  # leaves the picture here and comes in at the other side
        axes.annotate(
            "", b + shift, a + shift,
            arrowprops={
                "arrowstyle": "-|>", "color": scale.to_rgba(load[link]), "linewidth": 1.8,  # type: ignore[attr-defined]
                "shrinkA": 7, "shrinkB": 7,
            },
        )  # fmt: skip
        axes.plot(*b, alpha=0)
