"""Plots of the whole machine: what each engine did when, how full the buffers were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from accelsim.account.critical_path import parts
from accelsim.account.latency import layers
from accelsim.account.spans import stream_ends_fs
from accelsim.engines.registry import ENGINES
from accelsim.machine import lifetimes
from accelsim.machine.run import Run, Slice
from accelsim.program.roles import buffer_of
from accelsim.report.layer_plots import Plot
from accelsim.report.looks import ENGINE_LOOKS
from accelsim.report.picture import Axis, Mark, Panel, Picture, area, line, note, spans
from accelsim.report.style import GREEN, GREY, Look, tint
from accelsim.report.text import percent, si
from accelsim.time import FS
from accelsim.units import show

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


def timeline(run: Run) -> Picture:
    """Draw what each engine did when: one row per engine, and on top whose turn it was."""
    engines = [name for name in run.program.engines if any(piece.engine == name for piece in run.slices)]
    streamed, busy = stream_ends_fs(run), {entry.engine: entry.busy for entry in run.engines}
    by_engine: dict[str, list[Slice]] = {name: [] for name in engines}
    for piece in run.slices:
        by_engine[piece.engine].append(piece)
    marks = [*_layer_row(run)]
    for row, (name, pieces) in enumerate(by_engine.items(), 1):
        kind = run.program.engines[name]
        color = ENGINE_LOOKS.get(kind, Look(GREY)).color
        if ENGINES[kind].moves:
            marks.append(_painted(run, row, [(p.start, p.data) for p in pieces], tint(color, PALE)))
        ranks = _ranks(pieces, run.time_fs // RESOLUTION)
        for parity, shade in enumerate((1.0, LIGHT)):
            mine = (p for p in pieces if ranks.get(p.op, 0) % 2 == parity)
            times = [(p.data, streamed.get(p.command, p.end)) for p in mine]
            marks.append(_painted(run, row, times, tint(color, shade)))
        if run.time_fs:
            text = f"busy {percent(busy.get(name, 0) / run.time_fs)}"
            marks.append(note(1.0, row, text, (6, 0), xycoords=("axes fraction", "data"), fontsize=8))
    x, y = Axis("time", "s", low=0, high=run.seconds or 1), Axis(names=["layer", *engines])
    caption = "dark and light: moving or computing, by layer; pale: a request is under way, no data yet; white: waiting"
    panel = Panel(f"What each engine did: {si(run.seconds, 's')}", marks, x, y, caption, "x")
    return Picture(1.7 + 0.42 * (len(engines) + 1), [panel])


def _ranks(pieces: Sequence[Slice], least_fs: int) -> dict[int, int]:
    """Step -> its place among those that an engine works for long enough to be seen."""
    spent: dict[int, int] = {}
    for piece in pieces:
        spent[piece.op] = spent.get(piece.op, 0) + piece.end - piece.data
    return {step: rank for rank, step in enumerate(sorted(s for s in spent if spent[s] > least_fs))}


def _painted(run: Run, row: int, times_fs: Sequence[tuple[int, int]], color: str) -> Mark:
    """Return one row of bars."""
    bars = [(i.start * FS, i.end * FS) for i in merged(times_fs, run.time_fs // RESOLUTION)]
    return spans(row, bars, facecolor=color, snap=False)


def _layer_row(run: Run) -> Iterator[Mark]:
    """The top row: which layer the run was waiting for, with its number where there is room."""
    rows = layers(run)
    seen = [entry for entry in _waited_for(run) if entry[2] - entry[1] > run.time_fs // RESOLUTION]
    for parity, color in enumerate(("#f0f0f0", "#d9d9d9")):
        yield spans(0, [(start * FS, end * FS) for _, start, end in seen[parity::2]], facecolor=color)
    for step, start, end in seen:
        number = str(rows[step].number or "")
        if run.time_fs and (end - start) / run.time_fs > 0.004 + 0.006 * len(number):
            yield note((start + end) / 2 * FS, 0, number, side="center", fontsize=7)


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


def occupancy(run: Run) -> Picture | None:
    """Draw how full each on-chip buffer was: one panel each, with its capacity."""
    shown = [(name, points) for name, points in lifetimes.occupancy(run).items() if points]
    if not shown:
        return None
    panels = [_buffer(run, name, points) for name, points in shown]
    title = "Buffer occupancy: how full each on-chip buffer was"
    return Picture(1.0 + 1.45 * len(shown), panels, title, share="x")


def _buffer(run: Run, name: str, points: Sequence[tuple[int, int]]) -> Panel:
    buffer, level = buffer_of(run.chip, name), run.chip.memories.get(name)
    capacity = float(buffer.capacity if buffer else level.memory.capacity if level else 0.0)
    peak, factor = max(size for _, size in points), 100 / capacity if capacity else 1.0
    steps = _coarse([*points, (run.time_fs, points[-1][1])], run.time_fs // RESOLUTION)
    times, sizes = [t * FS for t, _ in steps], [size * factor for _, size in steps]
    marks = [
        area(times, [0] * len(times), sizes, step="post", color=GREEN, alpha=0.35, linewidth=0),
        line(times, sizes, "", GREEN, linewidth=1, drawstyle="steps-post"),
    ]
    whole = f" of {show(capacity, 'B', 3, binary=True)}" if capacity else ""
    title = f"{name}: at most {show(peak, 'B', 3, binary=True)}{whole} in use"
    y = Axis("% full" if capacity else "bytes", low=0, high=max(1.15 * peak * factor, 1e-9))
    x = Axis("time", "s", low=0, high=run.seconds or 1)
    return Panel(title, marks, x, y, grid="both")


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
        "this run has no on-chip buffers, or did not record them",
    ),
)
"""Rows of the registry."""
