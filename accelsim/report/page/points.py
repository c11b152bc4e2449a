"""Page on which points are explored: a scatter to draw rectangles in, and the table of the points within them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

from accelsim import units
from accelsim.errors import UsageError
from accelsim.report.page.data import packed
from accelsim.report.page.document import data_block, document, picture_part, section_html
from accelsim.report.page.form import Section
from accelsim.report.page.pictures import Drawn
from accelsim.version import tool_version

if TYPE_CHECKING:
    from accelsim.report.answer import Answer

SCRIPTS = ("base.js", "table.js", "chart.js", "points.js", "main.js")
"""Scripts of the page, in this order."""
DIGITS = 6
"""Digits of a figure on the page; --csv has all of them."""
WORDS: Mapping[bool | None, str] = {True: "yes", False: "", None: ""}
"""Texts of what is no text or figure."""
PART = (
    '<section class="part" data-part="points">\n<h2>Points</h2>\n<p class="caption">Drag over the picture to select '
    "points: the table follows. A rectangle over other axes selects among these. A click on a point or a row chooses "
    'it; a click on a column sorts by it.</p>\n<div class="mount"></div>\n</section>'
)
"""Place of the scatter and its table."""


class Column(NamedTuple):
    """A column of the points: key of a row, heading, unit of its figures. ``best``: -1 where small figures are good, 1
    where large ones are, 0 for what is no objective."""

    key: str
    title: str
    unit: str = ""
    best: int = 0


class Front(NamedTuple):
    """Front of two objectives: numbers of its points in their order, and of its knee."""

    front: Sequence[int]
    knee: int | None


@dataclass(frozen=True)
class Points:
    """Points that a page explores, beside the rows of an answer.

    ``columns``: the first one numbers the points; ``axes``: keys of columns whose values name a point; ``drawn``: keys
    of the columns across and up that are drawn first; ``tint``: key of the column that chooses the colour; ``fronts``:
    by the keys of two objectives; ``limits``: by key; ``commands``: command line of each point; ``pictures``: name of a
    picture of the answer -> its title and caption; ``sections``: tables at the end.
    """

    title: str
    columns: Sequence[Column]
    axes: Sequence[str]
    drawn: tuple[str, str]
    tint: str
    colours: Sequence[str]
    commands: Sequence[str]
    fronts: Mapping[tuple[str, str], Front] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    pictures: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sections: Sequence[Section] = ()


def points_page(answer: Answer) -> str:
    """Return the page of an answer: its sentences, its points, pictures and tables beside them.

    Raises UsageError where the answer has no points.
    """
    if answer.points is None:
        raise UsageError("no points to explore", "--page", "a result with points")
    found = answer.points()
    drawn = [
        Drawn(name, title, caption, picture).data()
        for name, (title, caption) in found.pictures.items()
        if (picture := answer.pictures[name]()) is not None
    ]
    content = {"lines": {"names": [], "told": []}, "points": _points(found, answer.rows), "pictures": drawn}
    words = [f"<p class=lead>{escape(text)}</p>" for text in answer.shown if isinstance(text, str) and text]
    parts = [f"<h1>{escape(found.title)}</h1>", *words, PART, *map(picture_part, drawn)]
    body = "\n".join([*parts, *map(section_html, found.sections)])
    article = f'<article class="run" data-run="0" aria-label="{escape(found.title)}">\n{body}\n</article>'
    return document(found.title, article, [data_block("run-data-0", packed(content))], tool_version(), SCRIPTS)


def _points(found: Points, rows: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Return the points as ``assets/points.js`` reads them."""
    return {
        "columns": [each._asdict() | _values([row.get(each.key) for row in rows]) for each in found.columns],
        "axes": found.axes,
        "x": found.drawn[0],
        "y": found.drawn[1],
        "tint": found.tint,
        "colours": found.colours,
        "fronts": {" ".join(keys): front._asdict() for keys, front in found.fronts.items()},
        "limits": found.limits,
        "commands": found.commands,
    }


def _values(values: Sequence[object]) -> dict[str, object]:
    """Return figures to ``DIGITS`` digits; or texts with the code of each point, and the numbers that the texts are."""
    figures = [float(each) for each in values if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(figures) + values.count(None) == len(values):
        short = iter([float(f"{each:.{DIGITS}g}") if isfinite(each) else None for each in figures])
        return {"values": [None if each is None else next(short) for each in values]}
    told = [WORDS.get(each, str(each)) if isinstance(each, bool | None) else str(each) for each in values]
    texts = list(dict.fromkeys(told))
    codes = {text: code for code, text in enumerate(texts)}
    return {"texts": texts, "codes": [codes[text] for text in told], **_numbers(texts)}


def _numbers(texts: Sequence[str]) -> dict[str, object]:
    """Return the numbers that all texts are, with their unit; nothing where one of them is none."""
    for unit in ("", *units.DIMENSIONS):
        try:
            places = [units.parse(text, unit) if unit else float(text) for text in texts]
        except ValueError:
            continue
        if all(map(isfinite, places)):
            return {"places": places, "unit": unit}
    return {}
