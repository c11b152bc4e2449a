"""Timelines of requests: a bar for each, in rows that are free again when a request is done, and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import inf

from accelsim.report.page.form import Table
from accelsim.report.picture import Axis, Mark, Panel, Picture
from accelsim.report.style import Look
from accelsim.serving.history import Span

SHOWN, LANES = 240, 36
"""Requests of a timeline, and its rows, at most."""
ZOOM_S = 1e-4
"""A timeline can be stretched until so much of it is as wide as the page."""


def shown_of(ends: Sequence[tuple[float, float]]) -> tuple[list[int], list[int]]:
    """Return numbers of requests that are drawn, every one or each n-th, and the row of each. ``ends``: when each
    request begins and ends, s, in order of the begins."""
    step = -(-len(ends) // SHOWN)
    while True:
        numbers = [*range(0, len(ends), step)]
        lanes = _lanes([ends[at] for at in numbers])
        if max(lanes) < LANES or len(numbers) == 1:
            return numbers, lanes
        step += -(-step // 8)


def _lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """Return a row for each span, in order of their starts, such that none overlap."""
    free, busy, found = list[int](), list[tuple[float, int]](), list[int]()
    for start, end in spans:
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (end, lane))
        found.append(lane)
    return found


def left_out(every: int, shown: Sequence[int]) -> str:
    """Say how many of all requests are drawn; nothing where all are."""
    return "" if len(shown) == every else f"Of {every:,} requests {len(shown):,} are drawn, evenly taken."


def timeline(
    every: Sequence[Sequence[Span]], shown: Sequence[int], lanes: Sequence[int], looks: Sequence[Look],
    names: Sequence[str],
) -> Picture:  # fmt: skip
    """Draw the spans of requests, each in its row. ``looks``, ``names``: of each kind of span."""
    rows, marks = max(lanes) + 1, []
    for lane in range(rows):
        own = [(line, s) for line, (at, row) in enumerate(zip(shown, lanes, strict=True)) if row == lane
               for s in every[at]]  # fmt: skip
        columns = {
            "line": [line for line, _ in own],
            "tint": [s.kind for _, s in own],
            "label": [names[s.kind] for _, s in own],
        }
        page = {
            "columns": columns, "colours": [look.color for look in looks], "keys": [*names],
            "told": ("{label}", "{span:s}, from {start:s} to {end:s}"), "name": "request",
        }  # fmt: skip
        ends, starts = [s.end_s for _, s in own], [s.start_s for _, s in own]
        marks.append(Mark("spans", ends, [lane], "", starts, {"size": 0.8}, page))
    last_s = max((own[-1].end_s for own in every if own), default=inf)
    x, y = Axis("time", "s", low=0, high=last_s), Axis(names=[""] * rows)
    return Picture(0.9 + 0.14 * rows, [Panel("", marks, x, y, page={"zoom": ZOOM_S})])


def lines_of(
    shown: Sequence[int], columns: Mapping[str, str], ranks: Sequence[int], cells: list[list[str]],
    values: list[list[float | None]],
) -> Table:  # fmt: skip
    """Return the table of the requests that are drawn. ``ranks``: columns of higher rank go first on narrow pages."""
    names = [f"request {at + 1:,}" for at in shown]
    return {
        "columns": [("#", 0, True), *((head, int(rank), True) for rank, head in zip(ranks, columns, strict=True))],
        "cells": cells, "values": values, "keys": names, "names": names, "titles": names,
        "bound": [""] * len(names), "time_fs": [0] * len(names), "energy_J": [0.0] * len(names),
    }  # fmt: skip
