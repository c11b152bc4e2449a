"""Plots of the whole machine: what each engine did when, how full the buffers were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from accelsim.account.critical_path import parts
from accelsim.account.latency import layers
from accelsim.account.spans import stream_ends_fs
from accelsim.engines.registry import ENGINES
from accelsim.machine import lifetimes
from accelsim.machine.run import Run, Slice
from accelsim.program.roles import buffer_of
from accelsim.report.style import (
    ENGINE_LOOKS,
    GREEN,
    GREY,
    Look,
    Plot,
    figure,
    nothing,
    prefixed,
    subtitle,
    tint,
)
from accelsim.report.text import percent, si
from accelsim.time import FS
from accelsim.units import show

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RESOLUTION = 2000
"""Parts of the time axis below which neighbouring slices are drawn as one."""
LIGHT, PALE = 0.55, 0.18
"""Strength of the colour of every second layer of an engine, and of a request for which no data move yet."""


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


def timeline(run: Run) -> Figure:
    """Return what each engine did when: one row per engine, and on top whose turn it was."""
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
        if ENGINES[run.program.engines[name]].moves:
            _paint(axes, run, row, [(p.start, p.data) for p in by_engine[name]], look, PALE)
        ranks = _ranks(by_engine[name], run.time_fs // RESOLUTION)
        for parity, shade in enumerate((1.0, LIGHT)):
            mine = (p for p in by_engine[name] if ranks.get(p.op, 0) % 2 == parity)
            _paint(axes, run, row, [(p.data, streamed.get(p.command, p.end)) for p in mine], look, shade)
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
    subtitle(
        axes,
        "moving or computing data; dark and light alternate from layer to layer; "
        "pale: a request is under way, no data yet; white: waiting",
    )
    return fig


def _ranks(pieces: Sequence[Slice], least_fs: int) -> dict[int, int]:
    """Step -> its place among those that an engine works for long enough to be seen."""
    spent: dict[int, int] = {}
    for piece in pieces:
        spent[piece.op] = spent.get(piece.op, 0) + piece.end - piece.data
    return {step: rank for rank, step in enumerate(sorted(s for s in spent if spent[s] > least_fs))}


def _paint(
    axes: Axes, run: Run, row: int, times: Sequence[tuple[int, int]], look: Look, shade: float
) -> None:
    """One row of bars; ``times`` in fs."""
    factor, _ = prefixed([run.seconds], "s")
    scale = FS * factor
    bars = [(i.start * scale, (i.end - i.start) * scale) for i in merged(times, run.time_fs // RESOLUTION)]
    axes.broken_barh(bars, (row - 0.36, 0.72), facecolor=tint(look.color, shade), linewidth=0, snap=False)


def _layer_row(axes: Axes, run: Run, scale: float) -> None:
    """The top row: which layer the run was waiting for, with its number where there is room."""
    rows = layers(run)
    seen = [entry for entry in _waited_for(run) if entry[2] - entry[1] > run.time_fs // RESOLUTION]
    for parity, color in enumerate(("#f0f0f0", "#d9d9d9")):
        bars = [(start * scale, (end - start) * scale) for _, start, end in seen[parity::2]]
        axes.broken_barh(bars, (-0.36, 0.72), facecolor=color, linewidth=0)
    for step, start, end in seen:
        number = str(rows[step].number or "")
        if run.time_fs and (end - start) / run.time_fs > 0.004 + 0.006 * len(number):
            axes.text((start + end) / 2 * scale, 0, number, ha="center", va="center", fontsize=7)


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
    """Return whether the run recorded what its on-chip buffers held."""
    return any(lifetimes.occupancy(run).values())


def occupancy(run: Run) -> Figure:
    """Return how full each on-chip buffer was: one panel each, with its capacity."""
    shown = [(name, points) for name, points in lifetimes.occupancy(run).items() if points]
    fig, panels = figure(1.0 + 1.45 * max(1, len(shown)), max(1, len(shown)), 1, sharex=True)
    if not shown:
        nothing(panels[0], "Buffer occupancy", "this run has no on-chip buffers, or did not record them")
        return fig
    factor, unit = prefixed([run.seconds], "s")
    for (name, points), axes in zip(shown, panels, strict=True):
        _buffer(axes, run, name, points, FS * factor)
    fig.suptitle("Buffer occupancy: how full each on-chip buffer was", x=0.01, ha="left", weight="bold")
    panels[-1].set_xlabel(f"time ({unit})")
    panels[-1].set_xlim(0, run.time_fs * FS * factor or 1)
    return fig


def _buffer(axes: Axes, run: Run, name: str, points: Sequence[tuple[int, int]], scale: float) -> None:
    buffer, level = buffer_of(run.chip, name), run.chip.memories.get(name)
    capacity = float(buffer.capacity if buffer else level.memory.capacity if level else 0.0)
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


PLOTS = (
    Plot(
        "timeline",
        "Engine timeline",
        "One row per engine; what overlaps runs at the same time. The top row says which layer the run "
        "was waiting for.",
        timeline,
    ),
    Plot(
        "occupancy",
        "Buffer occupancy",
        "How much of each on-chip buffer held data that was still needed.",
        occupancy,
        has_buffers,
    ),
)
"""What the registry has from here."""
