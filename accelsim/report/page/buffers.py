"""Contents of each on-chip memory over time: one rectangle in time and address for each version of a region."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2

import numpy as np

from accelsim.machine.lifetimes import Live, lifetimes, occupancy
from accelsim.machine.run import Run
from accelsim.program.actions import WRITE
from accelsim.program.roles import buffer_of
from accelsim.report.page.layers import Lines
from accelsim.report.page.pictures import Drawn
from accelsim.report.page.timeline import Texts, spans, thinned
from accelsim.report.picture import Axis, Mark, Panel, Picture
from accelsim.report.style import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from accelsim.report.text import percent, seconds, si
from accelsim.time import FS, FS_PER_S
from accelsim.units import show

CAPTION = (
    "Time to the right, addresses upwards. A rectangle is a tensor, or the part of one that has a place there, from "
    "the first byte written to the last one used. The pointer names all that lies there at its time."
)
WORDS = "{tensor:text}: {size:B}{place:text}, written by {line:line}"
HUES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION)
"""Colours of tensors, in turn."""
MAP_IN = 3.1
MOST = 30_000
"""Rectangles that a page has at most."""


def buffers(run: Run, lines: Lines) -> Drawn | None:
    """Return a map of each on-chip memory; None where the run used none. Times in fs, addresses and sizes in bytes."""
    regions = run.program.regions
    found = [live for live in lifetimes(run) if regions[live.region].offset >= 0]
    if not found:
        return None
    row, start, end = (
        np.array(column, np.int64)
        for column in ([x.region for x in found], [x.start for x in found], [max(x.start, x.end) for x in found])
    )
    kinds = Texts()
    names = [kinds.number(_content(lines, live)) for live in found]
    kept, gap = thinned(spans(row, start, end, np.array(names, np.int64)), MOST, run.time_fs)
    left_out = kept.joined - len(kept.row)
    note = (
        f"Contents of one place that lie at most {seconds(gap)} apart are drawn as one, which joins {si(left_out)} "
        "of them."
    )
    rectangles = [
        (live, int(start_fs), int(end_fs))
        for live, start_fs, end_fs in zip((found[i] for i in kept.first.tolist()), kept.start, kept.end, strict=True)
    ]
    texts = Texts()
    panels = [
        _memory(run, lines, name, [each for each in rectangles if regions[each[0].region].memory == name], texts)
        for name in occupancy(run)
    ]
    picture = Picture(MAP_IN * len(panels), panels)
    return Drawn("buffers", "What lay in each buffer", CAPTION, picture, note if left_out else "", texts.all())


def _memory(run: Run, lines: Lines, name: str, rectangles: Sequence[tuple[Live, int, int]], texts: Texts) -> Panel:
    regions = run.program.regions
    ordered = sorted(rectangles, key=lambda each: (each[1], each[0].region, each[0].version))
    mine = [regions[live.region] for live, _, _ in ordered]
    peak = max((size for _, size in occupancy(run)[name]), default=0)
    capacity = _capacity_B(run, name)
    share = f" ({percent(peak / capacity)})" if capacity else ""
    whole = f" of {show(capacity, 'B', 3, binary=True)}{share}" if capacity else ""
    tensors = [_content(lines, live) for live, _, _ in ordered]
    columns = {
        "line": [lines.line_of(lines.pieces[live.command].op) for live, _, _ in ordered],
        "size": [region.size_B for region in mine],
        "tensor": [texts.number(tensor) for tensor in tensors],
        "place": [
            texts.number("" if region.name == tensor else f", {region.name}")
            for region, tensor in zip(mine, tensors, strict=True)
        ],
    }
    order = {tensor: number for number, tensor in enumerate(dict.fromkeys(tensors))}
    columns["tint"] = [order[tensor] % len(HUES) for tensor in tensors]
    places = np.array([(start, end) for _, start, end in ordered] or np.zeros((0, 2)), np.int64)
    page = {"columns": columns, "colours": HUES, "name": name, "title": WORDS, "text": "{tensor:text}"}
    mark = Mark("boxes", places[:, 1], [region.offset for region in mine], "", places[:, 0],
                {"size": [region.size_B for region in mine]}, page)  # fmt: skip
    top = max((region.offset + region.size_B for region in mine), default=1)
    title = f"{name}: at most {show(peak, 'B', 3, binary=True)}{whole} in use at a time"
    clock_fs = FS_PER_S / float(run.chip.clock)
    return memory_map(title, [mark], run.time_fs, top, clock_fs)


def memory_map(
    title: str, marks: Sequence[Mark], time_fs: int, top_B: int, least_fs: float, label: str = "address"
) -> Panel:
    """Return a panel of time and bytes, which zooms to ``least_fs``; bytes have ticks at a power of two."""
    step = 1 << max(0, ceil(log2(top_B / 5)))
    names = {at: show(at, "B", 4, binary=True) for at in range(0, top_B + step, step)}
    x = Axis("time", "s", low=0, high=max(time_fs, 1), factor=FS)
    return Panel(title, marks, x, Axis(label, low=0, high=max(names), names=names), page={"zoom": least_fs})


def _content(lines: Lines, live: Live) -> str:
    """The tensor that was written there, by the ledger; the name of the place where that says none."""
    region = lines.run.program.regions[live.region]
    actions = lines.commands[live.command].actions
    tensors = (act.tensor for act in actions if act.component == region.memory and act.action == WRITE)
    return next((tensor for tensor in tensors if tensor), region.name)


def _capacity_B(run: Run, name: str) -> int:
    buffer, level = buffer_of(run.chip, name), run.chip.memories.get(name)
    return int(buffer.capacity if buffer else level.memory.capacity or 0 if level else 0)
