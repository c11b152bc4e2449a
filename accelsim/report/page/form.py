"""Form of the data of a page: what its HTML is made of, and what is read again from the folder of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class Section(TypedDict):
    """A section of tables: headers, rows, columns of numbers, sentences before it and notes after it."""

    title: str
    headers: list[str]
    rows: list[list[str]]
    numbers: list[int]
    before: list[str]
    behind: list[str]


class _Lines(TypedDict):
    columns: list[tuple[str, int, bool]]
    cells: list[list[str]]
    values: list[list[float | None]]
    keys: list[str]
    names: list[str]
    titles: list[str]
    bound: list[str]
    time_fs: list[int]
    energy_J: list[float]


class Table(_Lines, total=False):
    """The table of layers, or of devices: columns as (title, rank on narrow pages, flush right), cells, the numbers
    that they stand for (None: sorts as text). ``keys``: what matches lines of several runs. ``blocks``: (first line,
    lines of a block, blocks)."""

    blocks: list[tuple[int, int, int]]


class Words(TypedDict):
    """Lines of the table as pictures name them, and what is told of each."""

    names: list[str]
    told: list[list[str]]


class About(TypedDict):
    """Title of the table of lines, the file that has it whole, and what its columns mean."""

    title: str
    file: str
    terms: Sequence[tuple[str, str]]


class PictureData(TypedDict):
    """A picture. ``panels`` and the ``texts`` that they refer to are what ``assets/chart.js`` draws."""

    name: str
    title: str
    caption: str
    across: int
    panels: object
    texts: list[str]


class _Page(TypedDict):
    format: str
    version: int
    tool_version: str
    title: str
    sentences: list[str]
    first: list[Section]
    layers: Table
    lines: Words
    pictures: list[PictureData]
    last: list[Section]
    notes: list[str]
    plots: list[str]


class Page(_Page, total=False):
    """All that a page shows. ``plots``: names of the pictures beside it; ``none``: what is called the line of nothing;
    ``array``: an animation (``report.array_frames``); ``lines_last``: the table of lines stands below the pictures."""

    none: str
    lines_last: bool
    array: dict[str, object] | None
    table: About
    files: Sequence[tuple[str, str]]


class Line(TypedDict):
    """A line of a comparison; None where a run lacks it."""

    name: str
    title: str
    time_s: list[float | None]
    energy_J: list[float | None]
    bound: list[str]


class Comparison(TypedDict):
    """Sentences, tables and a picture of several runs side by side."""

    title: str
    sentences: list[str]
    tables: list[Section]
    runs: list[str]
    rows: list[Line]
    lines: Words
    pictures: list[PictureData]
