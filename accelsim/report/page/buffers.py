"""Contents of each on-chip memory over time: one rectangle in time and address for each version of a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accelsim.machine.lifetimes import Live, lifetimes, occupancy
from accelsim.machine.run import Run
from accelsim.program.actions import WRITE
from accelsim.program.roles import buffer_of
from accelsim.report.page.layers import Lines
from accelsim.report.page.timeline import Texts, deltas, spans, thinned
from accelsim.report.text import percent, seconds, si
from accelsim.units import show

MOST = 30_000
"""Rectangles that a page has at most."""


def buffers(run: Run, lines: Lines) -> dict[str, Any] | None:
    """A map of each on-chip memory; None where the run used none. Times in fs, addresses and sizes in bytes."""
    regions = run.program.regions
    found = [live for live in lifetimes(run) if regions[live.region].offset >= 0]
    if not found:
        return None
    texts = Texts()
    row, start, end = (
        np.array(column, np.int64)
        for column in ([x.region for x in found], [x.start for x in found], [max(x.start, x.end) for x in found])
    )
    names = [texts.number(_content(lines, live)) for live in found]
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
    return {
        "end": run.time_fs,
        "memories": [
            _memory(run, lines, name, [each for each in rectangles if regions[each[0].region].memory == name])
            for name in occupancy(run)
        ],
        "note": note if left_out else "",
    }


def _memory(run: Run, lines: Lines, name: str, rectangles: Sequence[tuple[Live, int, int]]) -> dict[str, Any]:
    regions, texts = run.program.regions, Texts()
    ordered = sorted(rectangles, key=lambda each: (each[1], each[0].region, each[0].version))
    mine = [regions[live.region] for live, _, _ in ordered]
    peak = max((size for _, size in occupancy(run)[name]), default=0)
    capacity = _capacity_B(run, name)
    share = f" ({percent(peak / capacity)})" if capacity else ""
    whole = f" of {show(capacity, 'B', 3, binary=True)}{share}" if capacity else ""
    return {
        "name": name,
        "title": f"{name}: at most {show(peak, 'B', 3, binary=True)}{whole} in use at a time",
        "top": max((region.offset + region.size_B for region in mine), default=1),
        "start": deltas(np.array([start for _, start, _ in ordered], np.int64)),
        "span": [end - start for _, start, end in ordered],
        "offset": [region.offset for region in mine],
        "size": [region.size_B for region in mine],
        "layer": [lines.line_of(lines.pieces[live.command].op) for live, _, _ in ordered],
        "tensor": [texts.number(_content(lines, live)) for live, _, _ in ordered],
        "place": [texts.number(region.name) for region in mine],
        "texts": texts.all(),
    }


def _content(lines: Lines, live: Live) -> str:
    """The tensor that was written there, by the ledger; the name of the place where that says none."""
    region = lines.run.program.regions[live.region]
    actions = lines.commands[live.command].actions
    tensors = (act.tensor for act in actions if act.component == region.memory and act.action == WRITE)
    return next((tensor for tensor in tensors if tensor), region.name)


def _capacity_B(run: Run, name: str) -> int:
    buffer, level = buffer_of(run.chip, name), run.chip.memories.get(name)
    return int(buffer.capacity if buffer else level.memory.capacity or 0 if level else 0)
