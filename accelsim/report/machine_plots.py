"""Plots of the whole machine: roofline, what each engine did when, how full the buffers were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite, log
from typing import TYPE_CHECKING, Any, NamedTuple

from accelsim.account.critical_path import HIDDEN, KEYS, parts
from accelsim.account.latency import Layer, layers
from accelsim.account.roofline import Point, Roofline, rooflines
from accelsim.account.spans import stream_ends_fs
from accelsim.machine.run import Run, Slice
from accelsim.report.style import (
    ENGINE_LOOKS,
    FAINT,
    GREEN,
    GREY,
    INK,
    REASON_LOOKS,
    Look,
    figure,
    log_axis,
    prefixed,
    subtitle,
)
from accelsim.report.text import count_of, percent, si
from accelsim.units import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FS = 1e-15
RESOLUTION = 2000
"""Parts of the time axis below which neighbouring slices are drawn as one."""


class Interval(NamedTuple):
    """A time span, fs."""

    start: int
    end: int


def merged(intervals: Iterable[tuple[int, int]], gap: int) -> list[Interval]:
    """Sorted, disjoint intervals; those closer than ``gap`` become one."""
    result: list[Interval] = []
    for start, end in sorted(intervals):
        if result and start - result[-1].end <= gap:
            result[-1] = Interval(result[-1].start, max(result[-1].end, end))
        else:
            result.append(Interval(start, end))
    return result


def has_roofs(run: Run) -> bool:
    """Whether any layer used the matrix unit and moved data off the chip."""
    return bool(_roofs(run))


def _roofs(run: Run) -> list[Roofline]:
    return [roof for roof in rooflines(run) if any(isfinite(p.intensity_ops_per_B) for p in roof.points)]


def roofline(run: Run) -> Figure:
    """One panel per off-chip memory with every layer; the area of a mark is its share of the latency."""
    roofs = _roofs(run)
    fig, panels = figure(5.0 if roofs else 1.3, 1, max(1, len(roofs)), sharey=True)
    if not roofs:
        _nothing(panels[0], "Roofline", "no layer used the matrix unit and moved data off the chip")
        return fig
    rows = {layer.index: layer for layer in layers(run)}
    rates = [p.achieved_ops_per_s for roof in roofs for p in roof.points if p.achieved_ops_per_s]
    panels[0].set_yscale("log")
    panels[0].set_ylim(min(rates) / 2.5, roofs[0].peak_ops_per_s * 2)
    factor, unit = prefixed([roofs[0].peak_ops_per_s], "op/s")
    log_axis(panels[0].yaxis, factor)
    for roof, axes in zip(roofs, panels, strict=True):
        _roof(axes, roof)
        _points(axes, roof, rows, run)
    panels[0].set_ylabel(f"achieved ({unit}; one MAC is two operations)")
    for key in dict.fromkeys(rows[p.layer].bound_key for roof in roofs for p in roof.points):
        label = "adds no time" if key == HIDDEN else f"bound by {KEYS[key]}"
        panels[0].plot([], [], "o", color=REASON_LOOKS[key].color, label=label)
    fig.suptitle("Roofline: how fast each layer ran, and how fast it could", x=0.01, ha="left", weight="bold")
    fig.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return fig


def _roof(axes: Axes, roof: Roofline) -> None:
    finite = [p.intensity_ops_per_B for p in roof.points if isfinite(p.intensity_ops_per_B)]
    low = min(*finite, roof.knee_ops_per_B) / 4
    high = max(*finite, roof.knee_ops_per_B) * 4
    knee, peak = roof.knee_ops_per_B, roof.peak_ops_per_s
    axes.plot([low, knee, high], [roof.roof(low), peak, peak], color=INK, linewidth=1.5)
    axes.vlines(knee, axes.get_ylim()[0], peak, color=FAINT, linestyle=":", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    log_axis(axes.xaxis)
    axes.grid(True, which="major")
    _name_roof(axes, roof, low, high)
    kind = "" if roof.kind == roof.memory else f" ({roof.kind})"
    hidden = sum(not isfinite(p.intensity_ops_per_B) for p in roof.points)
    lines = [
        f"{roof.memory}{kind}, {si(roof.bandwidth_Bps, 'B/s')}",
        f"peak {si(roof.peak_ops_per_s, 'OPS')}, knee at {si(knee)} operations/B",
        f"not shown: {count_of(hidden, 'layer')} without bytes" if hidden else "",
    ]
    axes.set_title("\n".join(lines), fontsize=9, weight="normal")
    axes.set_xlabel(f"operations per byte of {', '.join(roof.holds)}")


def _name_roof(axes: Axes, roof: Roofline, low: float, high: float) -> None:
    """The two roofs by name, each along its line: the memory on the slope, the matrix unit on the flat."""
    knee, peak = roof.knee_ops_per_B, roof.peak_ops_per_s
    look: dict[str, Any] = {"fontsize": 7.5, "color": INK, "textcoords": "offset points"}
    axes.annotate(
        f"peak of the matrix unit {si(peak, 'OPS')}", (high, peak), xytext=(-2, 3), ha="right", **look
    )
    middle = low**0.35 * knee**0.65
    axes.annotate(
        f"{roof.kind} {si(roof.bandwidth_Bps, 'B/s')}",
        (middle, roof.roof(middle)),
        xytext=(-4, 3),
        ha="right",
        **look,
    )


def _points(axes: Axes, roof: Roofline, rows: dict[int, Layer], run: Run) -> None:
    shown = [p for p in roof.points if isfinite(p.intensity_ops_per_B) and p.achieved_ops_per_s]
    sizes = [18 + 400 * rows[p.layer].added_fs / max(run.time_fs, 1) for p in shown]
    colors = [REASON_LOOKS[rows[p.layer].bound_key].color for p in shown]
    axes.scatter(
        [p.intensity_ops_per_B for p in shown], [p.achieved_ops_per_s for p in shown], s=sizes, c=colors,
        edgecolors="white", linewidths=0.6, zorder=3,
    )  # fmt: skip
    for group in _clusters(axes, shown, rows):
        numbers = [str(rows[p.layer].number) for p in group]
        text = ", ".join(numbers) if len(numbers) <= 3 else f"{numbers[0]}, {numbers[1]}, +{len(numbers) - 2}"
        axes.annotate(
            text, (group[0].intensity_ops_per_B, group[0].achieved_ops_per_s), xytext=(6, -9),
            textcoords="offset points", fontsize=7, color="#444444",
        )  # fmt: skip


def _clusters(axes: Axes, points: Sequence[Point], rows: dict[int, Layer]) -> list[list[Point]]:
    """Points that lie so close that they can only share one label; the costliest layer leads each group."""
    (low, high), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    groups: list[tuple[float, float, list[Point]]] = []
    for point in sorted(points, key=lambda p: -rows[p.layer].added_fs):
        x = log(point.intensity_ops_per_B / low) / log(high / low)
        y = log(point.achieved_ops_per_s / bottom) / log(top / bottom)
        for gx, gy, group in groups:
            if abs(gx - x) < 0.11 and abs(gy - y) < 0.06:
                group.append(point)
                break
        else:
            groups.append((x, y, [point]))
    return [group for _, _, group in groups]


def timeline(run: Run) -> Figure:
    """What each engine did when: one row per engine, and on top whose turn it was."""
    engines = [name for name in run.program.engines if any(piece.engine == name for piece in run.slices)]
    fig, (axes,) = figure(1.7 + 0.42 * (len(engines) + 1))
    factor, unit = prefixed([run.seconds], "s")
    scale = FS * factor
    _layer_row(axes, run, scale)
    streamed = stream_ends_fs(run)
    busy = {entry.engine: entry.busy for entry in run.engines}
    by_engine: dict[str, list[Slice]] = {name: [] for name in engines}
    for piece in run.slices:
        by_engine.setdefault(piece.engine, []).append(piece)
    for row, name in enumerate(engines, 1):
        look = ENGINE_LOOKS.get(run.program.engines[name], Look(GREY))
        for parity, shade in ((0, 1.0), (1, 0.55)):
            times = [(p.data, streamed.get(p.command, p.end)) for p in by_engine[name] if p.op % 2 == parity]
            bars = [
                (i.start * scale, (i.end - i.start) * scale) for i in merged(times, run.time_fs // RESOLUTION)
            ]
            axes.broken_barh(
                bars, (row - 0.36, 0.72), facecolor=look.color, alpha=shade, linewidth=0, snap=False
            )
        if run.time_fs:
            share = percent(busy.get(name, 0) / run.time_fs)
            axes.annotate(f"busy {share}", (1.0, row), xycoords=("axes fraction", "data"), xytext=(6, 0),
                          textcoords="offset points", va="center", fontsize=8)  # fmt: skip
    axes.set_yticks(range(len(engines) + 1), ["layer", *engines])
    axes.set_ylim(len(engines) + 0.6, -0.6)
    axes.set_xlim(0, run.time_fs * scale or 1)
    axes.set_xlabel(f"time ({unit})")
    axes.tick_params(axis="y", length=0)
    axes.grid(True, axis="x")
    axes.set_title(f"What each engine did: {si(run.seconds, 's')}", pad=20)
    subtitle(axes, "moving or computing data; dark and light alternate from layer to layer, white is waiting")
    return fig


def _layer_row(axes: Axes, run: Run, scale: float) -> None:
    """The top row: which layer the run was waiting for, with its number where there is room."""
    rows = layers(run)
    for step, start, end in _waited_for(run):
        width, number = (end - start) * scale, str(rows[step].number or "")
        color = "#d9d9d9" if step % 2 else "#f0f0f0"
        axes.broken_barh([(start * scale, width)], (-0.36, 0.72), facecolor=color, linewidth=0)
        if run.time_fs and (end - start) / run.time_fs > 0.004 + 0.006 * len(number):
            axes.text(start * scale + width / 2, 0, number, ha="center", va="center", fontsize=7)


def _waited_for(run: Run) -> list[tuple[int, int, int]]:
    """(step, start, end) of the critical path, fs: neighbouring pieces of one layer together."""
    found: list[tuple[int, int, int]] = []
    at = 0
    for part in parts(run):
        if found and found[-1][0] == part.step:
            found[-1] = (part.step, found[-1][1], at + part.fs)
        else:
            found.append((part.step, at, at + part.fs))
        at += part.fs
    return [entry for entry in found if entry[0] >= 0]


def has_buffers(run: Run) -> bool:
    """Whether the run recorded what its on-chip buffers held."""
    return any(run.occupancy.values())


def occupancy(run: Run) -> Figure:
    """How full each on-chip buffer was: one panel each, with its capacity."""
    shown = [(name, points) for name, points in run.occupancy.items() if points]
    fig, panels = figure(1.0 + 1.45 * max(1, len(shown)), max(1, len(shown)), 1, sharex=True)
    if not shown:
        _nothing(panels[0], "Buffer occupancy", "this run has no on-chip buffers, or did not record them")
        return fig
    factor, unit = prefixed([run.seconds], "s")
    for (name, points), axes in zip(shown, panels, strict=True):
        _buffer(axes, run, name, points, FS * factor)
    fig.suptitle("Buffer occupancy: how full each on-chip buffer was", x=0.01, ha="left", weight="bold")
    panels[-1].set_xlabel(f"time ({unit})")
    panels[-1].set_xlim(0, run.time_fs * FS * factor or 1)
    return fig


def _buffer(axes: Axes, run: Run, name: str, points: Sequence[tuple[int, int]], scale: float) -> None:
    buffer = run.chip.buffers.get(name)
    capacity = float(buffer.capacity) if buffer else 0.0
    peak = max(size for _, size in points)
    factor = 100 / capacity if capacity else 1.0
    steps = _coarse([*points, (run.time_fs, points[-1][1])], run.time_fs // RESOLUTION)
    times, sizes = [t * scale for t, _ in steps], [size * factor for _, size in steps]
    axes.fill_between(times, sizes, step="post", color=GREEN, alpha=0.35, linewidth=0)
    axes.step(times, sizes, where="post", color=GREEN, linewidth=1)
    whole = f" of {show(capacity, 'B', 3, binary=True)}" if capacity else ""
    axes.set_title(
        f"{name}: at most {show(peak, 'B', 3, binary=True)}{whole} in use", fontsize=9.5, weight="normal"
    )
    axes.set_ylabel("% full" if capacity else "bytes")
    axes.set_ylim(0, max(1.15 * peak * factor, 1e-9))
    axes.grid(True)


def _coarse(points: Sequence[tuple[int, int]], step: int) -> list[tuple[int, int]]:
    """At most one point per ``step``, the largest of those that fall together: no peak is lost."""
    result: list[tuple[int, int]] = []
    for time, size in points:
        if result and step and time - result[-1][0] < step:
            result[-1] = (result[-1][0], max(size, result[-1][1]))
        else:
            result.append((time, size))
    return result


def _nothing(axes: Axes, title: str, why: str) -> None:
    axes.set_title(title)
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes)
