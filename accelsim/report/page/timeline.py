"""The timeline as the page has it: a row for each engine, one for the critical path, what each command waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from accelsim.account.critical_path import LISTED, parts
from accelsim.engines.device import PORT, QUEUE
from accelsim.engines.registry import ENGINES
from accelsim.machine.run import PATH_LINKS, Run
from accelsim.report.looks import ENGINE_LOOKS
from accelsim.report.page.layers import Lines
from accelsim.report.page.pictures import Drawn
from accelsim.report.picture import Axis, Mark, Panel, Picture, note
from accelsim.report.style import GREY, Look
from accelsim.report.text import percent, seconds, si
from accelsim.report.trace import drawn_rows
from accelsim.time import FS, FS_PER_S
from accelsim.types import Ints

FINEST = 2**24
"""Parts of the run below which gaps are closed first, where there are too many spans."""


class Spans(NamedTuple):
    """Spans of time, fs, sorted by row and start; those of a row do not overlap. ``kind``: only equal ones are joined;
    ``first``: index of the first of those that each stands for, ``many``: how many."""

    row: Ints
    start: Ints
    end: Ints
    kind: Ints
    first: Ints
    many: Ints

    @property
    def joined(self) -> int:
        """Return the number of spans before joining."""
        return int(self.many.sum())


def spans(row: Ints, start: Ints, end: Ints, kind: Ints) -> Spans:
    """Spans in the order of row and start; ``first`` is the index in the arrays given."""
    order = np.lexsort((start, row))
    ones = np.ones(len(order), np.int64)
    return Spans(row[order], start[order], end[order], kind[order], order, ones)


def thinned(found: Spans, most: int, whole_fs: int) -> tuple[Spans, int]:
    """At most ``most`` spans, and the gap in fs up to which neighbours of one row and kind were joined (0: none).

    The gap is doubled until they are few enough; where gaps as long as the run do not suffice, kinds are joined too,
    each span counting as the first of them.
    """
    gap, result = 0, found
    step = max(1, whole_fs // FINEST)
    while len(result.row) > most and gap <= whole_fs:
        gap = gap * 2 or step
        result = _joined(found, gap, True)
    gap = min(gap, whole_fs)
    mixed = step
    while len(result.row) > most and mixed <= 2 * whole_fs:
        result, gap, mixed = _joined(found, mixed, False), mixed, mixed * 2
    return result, gap


def _joined(found: Spans, gap: int, alike: bool) -> Spans:
    apart = (found.row[1:] != found.row[:-1]) | (found.start[1:] - found.end[:-1] > gap)
    if alike:
        apart |= found.kind[1:] != found.kind[:-1]
    begins = np.flatnonzero(np.concatenate(([True], apart)))
    ends = np.maximum.reduceat(found.end, begins)
    counts = np.add.reduceat(found.many, begins)
    return Spans(found.row[begins], found.start[begins], ends, found.kind[begins], found.first[begins], counts)


MOST = 100_000
"""Slices that a page has at most; those of the critical path are counted on their own."""


CAPTION = (
    "One row per engine; what overlaps runs at the same time. The top row is the critical path: what the run waited "
    "for, instant by instant. Dark and light alternate from layer to layer; pale: a command holds the engine, its "
    "data do not move yet. Of each slice the page says what came last of all that it waited for."
)
PATH, ROW_IN = "critical path", 0.375
LIGHT, PALE = "99", "38"
"""Ends of colours: how much is not paper."""
WHEN, JOINED = "{span:fs}, from {start:fs} to {end:fs}", "{count?} slices drawn as one"
SLICE: dict[str, object] = {
    "told": [
        "{label:text}",
        WHEN,
        "held the engine {lead:fs?} before its data moved",
        "waited for: {wait:text}",
        JOINED,
    ],
    "gap": "its next slice, {label:text}, waits for: {wait:text}",
    "brief": True,
}
PIECE: dict[str, object] = {
    "told": ["the run waited for {label:text}", WHEN, JOINED],
    "title": f"{PATH}: {{line:line}}",
    "text": "{line:line}",
    "brief": True,
}
"""Words of the page beside a slice, and beside a piece of the critical path."""


class Row(NamedTuple):
    """A row of a timeline: its spans, what the page knows of them, and the share of time that it is busy."""

    name: str
    spans: Spans
    page: dict[str, object]
    busy: str = ""


class Texts:
    """Texts that occur many times: each is kept once, and referred to by its number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text, which is added if it is new."""
        return self.numbers.setdefault(text, len(self.numbers))

    def all(self) -> list[str]:
        """The texts in the order of their numbers."""
        return list(self.numbers)


def timeline(run: Run, lines: Lines) -> Drawn:
    """Return the picture of what each engine did when, and above it of what the run waited for; times in fs."""
    texts = Texts()
    engines, gap, left_out = _engines(run, lines, texts)
    path, path_gap, path_left_out = _path(run, lines, texts)
    notes = [
        *_note(left_out, gap, "Slices of one engine and layer"),
        *_note(path_left_out, path_gap, "Pieces of the critical path of one layer and cause"),
    ]
    clock_fs = FS_PER_S / float(run.chip.clock)
    picture = rows_picture([path, *engines], run.time_fs, clock_fs)
    return Drawn("timeline", "Timeline", CAPTION, picture, " ".join(notes), texts.all())


def rows_picture(rows: Sequence[Row], time_fs: int, clock_fs: float) -> Picture:
    """Return a picture with a row of spans for each of ``rows``, which zooms to ``clock_fs``."""
    marks = [
        Mark("spans", each.spans.end, [number], "", each.spans.start, {"size": 0.76}, {"name": each.name, **each.page})
        for number, each in enumerate(rows)
    ]
    busy = [note(1, at, f"busy {each.busy}", (6, 0), xycoords="edge") for at, each in enumerate(rows) if each.busy]
    x, y = Axis("time", "s", low=0, high=max(time_fs, 1), factor=FS), Axis(names=[each.name for each in rows])
    panel = Panel("", [*marks, *busy], x, y, page={"zoom": clock_fs, "right": 84 if busy else 20})
    return Picture(ROW_IN * len(rows) + 0.9, [panel])


def _note(left_out: int, gap: int, what: str) -> list[str]:
    """Return what was joined, and by which rule; nothing where nothing was."""
    if not left_out:
        return []
    return [f"{what} that lie at most {seconds(gap)} apart are drawn as one, which joins {si(left_out)} of them."]


def _engines(run: Run, lines: Lines, texts: Texts) -> tuple[list[Row], int, int]:
    drawn = drawn_rows(run)
    pieces = [(piece, end) for row in drawn for piece, end in row.pieces]
    row = np.repeat(np.arange(len(drawn)), [len(each.pieces) for each in drawn])
    start, end = (np.array(times, np.int64) for times in ([p.data for p, _ in pieces], [e for _, e in pieces]))
    layer = np.array([lines.line_of(piece.op) for piece, _ in pieces], np.int64)
    found, gap = thinned(spans(row, start, np.maximum(start, end), layer), MOST, run.time_fs)
    whole = {entry.engine: entry for entry in run.engines}
    rows = []
    for number, each in enumerate(drawn):
        mine = of_row(found, number)
        firsts = [pieces[index][0] for index in mine.first.tolist()]
        kind, entry = run.program.engines.get(each.engine, ""), whole.get(each.engine)
        color = ENGINE_LOOKS.get(kind, Look(GREY)).color
        columns = {
            **_columns(mine),
            "lead": (mine.start - np.array([p.start for p in firsts], np.int64)).tolist(),
            "label": [texts.number(piece.label) for piece in firsts],
            "wait": [texts.number(waited_for(run, p.command)) for p in firsts],
        }
        inside = "{label:text}" if kind in ENGINES and ENGINES[kind].moves else "{line:line}"
        page = {"columns": columns, "colours": [color, color + LIGHT], "lead": color + PALE, "text": inside}
        busy = percent(entry.busy / run.time_fs) if entry and run.time_fs else ""
        rows.append(Row(each.name, mine, page | SLICE | {"title": f"{each.name}: {{line:line}}"}, busy))
    return rows, gap, found.joined - len(found.row)


def _path(run: Run, lines: Lines, texts: Texts) -> tuple[Row, int, int]:
    """The critical path: never empty, each piece blamed on a layer and on what it waited for."""
    pieces = list(parts(run))
    ends = np.cumsum(np.array([piece.fs for piece in pieces], np.int64))
    layer = [lines.line_of(piece.step) for piece in pieces]
    label = [texts.number(piece.blame.text) for piece in pieces]
    kind = np.array([a * len(texts.numbers) + b for a, b in zip(layer, label, strict=True)], np.int64)
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    found, gap = thinned(spans(np.zeros(len(ends), np.int64), starts, ends, kind), MOST, run.time_fs)
    firsts, looks = [pieces[index] for index in found.first.tolist()], Texts()
    mine = found._replace(kind=np.array([layer[i] for i in found.first.tolist()], np.int64))
    columns = _columns(mine) | {
        "label": [label[index] for index in found.first.tolist()],
        "tint": [looks.number(piece.blame.key) for piece in firsts],
    }
    reasons = [LISTED[key] for key in looks.all()]
    colours = {"colours": [reason.colour for reason in reasons], "keys": [reason.legend for reason in reasons]}
    row = Row(PATH, mine, {"columns": columns, **colours, **PIECE})
    return row, gap, found.joined - len(found.row)


def of_row(found: Spans, row: int) -> Spans:
    """Return the spans of one row."""
    low, high = np.searchsorted(found.row, [row, row + 1])
    return Spans(*(column[low:high] for column in found))


def _columns(mine: Spans) -> dict[str, list[int]]:
    """Lines of layers; of how many slices each is made, where any is of several; two tints in turn."""
    joined = np.where(mine.many > 1, mine.many, 0).tolist()
    return {"line": mine.kind.tolist(), "count": joined, "tint": (np.abs(mine.kind) % 2).tolist()}


AT_ONCE = "nothing: it begins with the run"


def waited_for(run: Run, command: int) -> str:
    """Return what a command waited for last, in words."""
    before, _, why = run.histories[command].cause
    if before < 0:
        return AT_ONCE
    if why in (QUEUE, PORT):
        return PATH_LINKS[why]
    return f"{PATH_LINKS.get(why, 'a token')}, from {run.slices[before].engine}"
