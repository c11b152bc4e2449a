"""The timeline as the page has it: a row for each engine, one for the critical path, what each command waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from accelsim.account.critical_path import LISTED, parts
from accelsim.engines.device import PORT, QUEUE
from accelsim.engines.registry import ENGINES
from accelsim.machine.run import PATH_LINKS, Run
from accelsim.report.looks import ENGINE_LOOKS
from accelsim.report.page.layers import Lines
from accelsim.report.style import GREY, Look
from accelsim.report.text import percent, seconds, si
from accelsim.report.trace import drawn_rows
from accelsim.time import FS_PER_S
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


def deltas(values: Ints) -> list[int]:
    """The first value, then the differences: small numbers, which pack well."""
    return [int(each) for each in np.diff(values, prepend=0)] if len(values) else []


MOST = 100_000
"""Slices that a page has at most; those of the critical path are counted on their own."""


class Texts:
    """Texts that occur many times: each is kept once, and referred to by its number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text."""
        return self.numbers.setdefault(text, len(self.numbers))

    def all(self) -> list[str]:
        """The texts in the order of their numbers."""
        return list(self.numbers)


def timeline(run: Run, lines: Lines) -> dict[str, Any]:
    """Times in fs, those of a row as differences. ``texts``: what labels and waits refer to."""
    texts = Texts()
    engines, gap, left_out = _engines(run, lines, texts)
    path, path_gap, path_left_out = _path(run, lines, texts)
    return {
        "end": run.time_fs,
        "clock_fs": FS_PER_S / float(run.chip.clock),
        "rows": [path, *engines],
        "texts": texts.all(),
        "note": " ".join(
            [
                *_note(left_out, gap, "Slices of one engine and layer"),
                *_note(path_left_out, path_gap, "Pieces of the critical path of one layer and cause"),
            ]
        ),
    }


def _note(left_out: int, gap: int, what: str) -> list[str]:
    """Return what was joined, and by which rule; nothing where nothing was."""
    if not left_out:
        return []
    return [f"{what} that lie at most {seconds(gap)} apart are drawn as one, which joins {si(left_out)} of them."]


def _engines(run: Run, lines: Lines, texts: Texts) -> tuple[list[dict[str, Any]], int, int]:
    drawn = drawn_rows(run)
    pieces = [(piece, end) for row in drawn for piece, end in row.pieces]
    row = np.repeat(np.arange(len(drawn)), [len(each.pieces) for each in drawn])
    start, end = (np.array(times, np.int64) for times in ([p.data for p, _ in pieces], [e for _, e in pieces]))
    layer = np.array([lines.line_of(piece.op) for piece, _ in pieces], np.int64)
    found, gap = thinned(spans(row, start, np.maximum(start, end), layer), MOST, run.time_fs)
    whole = {entry.engine: entry for entry in run.engines}
    rows = []
    for number, each in enumerate(drawn):
        mine = _of_row(found, number)
        firsts = [pieces[index][0] for index in mine.first.tolist()]
        kind, entry = run.program.engines.get(each.engine, ""), whole.get(each.engine)
        rows.append(
            {
                "name": each.name,
                "colour": ENGINE_LOOKS.get(kind, Look(GREY)).color,
                "moves": kind in ENGINES and ENGINES[kind].moves,
                "busy": percent(entry.busy / run.time_fs) if entry and run.time_fs else "",
                **_times(mine),
                "request": (mine.start - np.array([p.start for p in firsts], np.int64)).tolist(),
                "label": [texts.number(piece.label) for piece in firsts],
                "wait": [texts.number(waited_for(run, p.command)) for p in firsts],
            }
        )
    return rows, gap, found.joined - len(found.row)


def _path(run: Run, lines: Lines, texts: Texts) -> tuple[dict[str, Any], int, int]:
    """The critical path: never empty, each piece blamed on a layer and on what it waited for."""
    pieces = list(parts(run))
    ends = np.cumsum(np.array([piece.fs for piece in pieces], np.int64))
    layer = [lines.line_of(piece.step) for piece in pieces]
    label = [texts.number(piece.blame.text) for piece in pieces]
    kind = np.array([a * len(texts.numbers) + b for a, b in zip(layer, label, strict=True)], np.int64)
    starts = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    found, gap = thinned(spans(np.zeros(len(ends), np.int64), starts, ends, kind), MOST, run.time_fs)
    firsts = [pieces[index] for index in found.first.tolist()]
    colours = Texts()
    row = {
        "name": "critical path",
        **_times(found._replace(kind=np.array([layer[i] for i in found.first.tolist()], np.int64))),
        "label": [label[index] for index in found.first.tolist()],
        "tint": [colours.number(LISTED[piece.blame.key].colour) for piece in firsts],
    }
    return row | {"colours": colours.all(), "legend": _legend(firsts)}, gap, found.joined - len(found.row)


def _legend(pieces: Sequence[Any]) -> list[list[str]]:
    """(text, colour) of all that the path goes to."""
    keys = {piece.blame.key for piece in pieces}
    return [[reason.legend, reason.colour] for key, reason in LISTED.items() if key in keys]


def _of_row(found: Spans, row: int) -> Spans:
    low, high = np.searchsorted(found.row, [row, row + 1])
    return Spans(*(column[low:high] for column in found))


def _times(mine: Spans) -> dict[str, list[int]]:
    """Starts as differences, durations, lines of layers; of how many slices each is made, where any is of several."""
    joined = {"count": mine.many.tolist()} if (mine.many > 1).any() else {}
    return {"start": deltas(mine.start), "span": (mine.end - mine.start).tolist(), "layer": mine.kind.tolist()} | joined


AT_ONCE = "nothing: it begins with the run"


def waited_for(run: Run, command: int) -> str:
    """Return what a command waited for last, in words."""
    before, _, why = run.histories[command].cause
    if before < 0:
        return AT_ONCE
    if why in (QUEUE, PORT):
        return PATH_LINKS[why]
    return f"{PATH_LINKS.get(why, 'a token')}, from {run.slices[before].engine}"
