"""Answers of commands: figures for JSON and CSV, what a terminal shows of them, and pictures; one way to write each.

A table is declared once, as fields: the key of a figure in JSON and CSV (SI units, the unit at its end), its heading in
the terminal, and how it is spelled there.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from io import BytesIO
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from click import HelpFormatter, wrap_text

from accelsim import files
from accelsim.errors import AccelsimError, UsageError
from accelsim.report.table import Column, text_table
from accelsim.report.table import table as ranked
from accelsim.report.text import Facts, si
from accelsim.units import show as spelled

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table as RichTable

    from accelsim.report.page.points import Points
    from accelsim.report.picture import Picture

WIDTH = 160
"""Characters of a line for which tables are laid out in HTML."""
Draw = Callable[[], "Picture | None"]
"""Declares a picture; None where there is nothing to draw."""
Record = Mapping[str, Any]


def in_unit(unit: str = "", digits: int = 3) -> Callable[[float | None], str]:
    """Return how a number is spelled in engineering units of ``unit``; a dash for None."""
    return lambda value: si(value, unit, digits)


binary: Callable[[float], str] = partial(spelled, unit="B", digits=4, binary=True)
"""Bytes as they are said of memories: '64 MiB'."""


class Field(NamedTuple):
    """A column of a table: ``key`` of a record; ``title`` is its heading, "" where only JSON and CSV have it.

    ``form``: a cell of the terminal, from the figure, or from the whole record where ``whole``. ``meaning``: what the
    heading says. ``look``: how the column gives way where space is short; without any, later columns go first.
    ``read``: the figure of a thing that ``records`` makes a record of; by default its attribute ``key``.
    """

    key: str
    title: str = ""
    form: Callable[[Any], object] = lambda value: value
    whole: bool = False
    meaning: str = ""
    look: Column | None = None
    read: Callable[[Any], object] | None = None

    def cell(self, record: Any) -> Any:
        """Return the cell of a record, or where ``whole`` of any thing."""
        return self.form(record if self.whole else record[self.key])


def column(title: str, form: Callable[[Any], object], rank: int | None = None, **look: Any) -> Field:
    """Return a column of things that are no records: ``form`` gives the cell of one; the others as for ``Column``."""
    return Field("", title, form, True, look=None if rank is None else Column(title, rank, **look))


def records(fields: Sequence[Field], things: Iterable[object]) -> list[Facts]:
    """Return a record of each thing: what each field reads of it, in their order."""
    reads = {each.key: each.read or attrgetter(each.key) for each in fields if each.key}
    return [{key: read(thing) for key, read in reads.items()} for thing in things]


@dataclass(frozen=True)
class Table:
    """Records under fields, or things where all fields take them whole.

    ``footer``: the cells of a last row; ``legend``: a line below the table, before the meanings of the columns that it
    shows; ``least``: characters that it takes also of a narrower terminal.
    """

    fields: Sequence[Field]
    records: Sequence[object]
    footer: Sequence[str] | None = None
    legend: str = ""
    least: int = 0

    def shown(self, terminal: int) -> RichTable:
        """Lay the table out for a terminal of so many characters per line."""
        width = max(terminal, self.least)
        heard = [each for each in self.fields if each.title or each.look]
        cells = [[each.cell(record) for each in heard] for record in self.records]
        if any(each.look for each in heard):
            looks = [each.look or Column(each.title) for each in heard]
            return ranked(looks, cells, width, footer=self.footer)
        return text_table([each.title for each in heard], cells, width)

    def legend_lines(self, drawn: RichTable) -> list[str]:
        """Return the legend of the table as drawn, without columns that had no room."""
        heads = {str(column.header).replace("\n", " ") for column in drawn.columns}
        meanings = [f"{each.title}: {each.meaning}" for each in self.fields if each.meaning and each.title in heads]
        return [f"\n{self.legend}", *meanings] if self.legend else []


class Lines(str):
    """Text that keeps its lines."""

    __slots__ = ()


def block(title: str, rows: Iterable[tuple[str, object]]) -> Table:
    """Return a table of two columns: names, under ``title``, and values."""
    return Table((Field("what", title), Field("value", " ")), [{"what": what, "value": value} for what, value in rows])


@dataclass(frozen=True)
class Definitions:
    """Names with texts about them, wrapped; nothing is cut off."""

    rows: Sequence[tuple[str, str]]

    def text(self, width: int) -> str:
        """Lay the texts out for a terminal of so many characters per line."""
        formatter = HelpFormatter(width=width)
        formatter.write_dl([(name, " ".join(text.split())) for name, text in self.rows])
        return formatter.getvalue().rstrip("\n")


Shape = Callable[[int], "str | RichTable"]
"""Returns text or a table for a terminal of so many characters."""
Part: TypeAlias = "str | Table | Definitions | Shape"
"""Part of the text in a terminal: a paragraph, which is wrapped; lines; a table; names and what they are; a shape; an
empty text is an empty line."""
MOST_WIDE = 110
"""Characters of a line of text at most."""


def notes(found: Iterable[str]) -> list[Part]:
    """Return what a user should know beside the figures, each note once; nothing where there is none."""
    kept = dict.fromkeys(found)
    return ["", Lines("Notes:"), *map(bullet, kept)] if kept else []


def bullet(line: str) -> Shape:
    """Return a line that begins with a dash, wrapped."""
    return lambda width: wrap_text(line, min(width, MOST_WIDE), "- ", "  ")


@dataclass(frozen=True)
class Answer:
    """The result of a command.

    ``facts``: what --json prints. ``rows``: what --csv writes, nested records as 'a.b'. ``pictures``: name -> how it is
    drawn, the first for --plot. ``saved``: names of the files of JSON (and of CSV) in the directory of --out, beside
    the pictures. ``other_files``: what else is written, by path; of a directory the files in it, None for one of an
    earlier time, which is removed. ``fails``: the command ends with this error, or with exit code 1 since a check does
    not hold. ``aside``: what stderr shows, paragraphs or lines. ``points``: declares what --page explores of the rows.
    """

    facts: object
    shown: Sequence[Part] = ()
    rows: Sequence[Record] = ()
    pictures: Mapping[str, Draw] = field(default_factory=dict)
    saved: Sequence[str] = ()
    other_files: Mapping[Path, files.Make | Mapping[str, files.Make | None]] = field(default_factory=dict)
    fails: AccelsimError | bool = False
    aside: Sequence[str] = ()
    points: Callable[[], Points] | None = None

    def json(self) -> str:
        """Return the facts as JSON; equal facts give equal texts."""
        return json.dumps(finite(self.facts), indent=2, ensure_ascii=False, allow_nan=False)

    def table(self) -> list[Facts]:
        """Return the rows of the CSV file: flat, each list as its items with blanks between them."""
        return [{key: cell(value) for key, value in flat(finite(row)).items()} for row in self.rows]

    def write(self, folder: Path) -> list[Path]:
        """Write the files of --out into a folder, all or none of them."""
        return files.write_folder(folder, self.files())

    def files(self) -> dict[str, files.Make]:
        """Return what makes each file of --out."""
        made: dict[str, files.Make] = {}
        for name in self.saved:
            made[name] = files.text(self.json() + "\n") if name.endswith(".json") else files.records(self.table())
        for name, draw in self.pictures.items():
            if (drawn := draw()) is not None:
                made |= {name + suffix: drawn.file(suffix) for suffix in (".png", ".svg")}
        return made

    def picture(self, name: str = "") -> Picture:
        """Return the picture ``name``; by default the first that there is something to draw for, that of --plot.

        Raises UsageError where there is none.
        """
        for key, draw in self.pictures.items():
            if name in ("", key) and (drawn := draw()) is not None:
                return drawn
        expected = f"one of {', '.join(self.pictures)}" if name and self.pictures else "figures that can be drawn"
        raise UsageError(f"no picture {name!r}" if name else "no picture to draw", expected=expected)

    def to_dict(self) -> Any:
        """Return the facts, as --json prints them; keys end in their SI unit."""
        return finite(self.facts)

    def frame(self) -> Any:
        """Return the rows as a pandas DataFrame; its columns are those of --csv. Raises UsageError without pandas."""
        return frame(self.table())

    def plot(self, name: str = "") -> Figure:
        """Draw a picture (see ``picture``) with matplotlib."""
        return self.picture(name).figure()

    def _repr_html_(self) -> str:
        """Show tables, sentences and the first picture in a notebook."""
        parts = [_part_html(part) for part in self.shown if part]
        if drawn := next((drawn for draw in self.pictures.values() if (drawn := draw()) is not None), None):
            file = BytesIO()
            drawn.file(".png")(file)
            parts.append(f'<img src="data:image/png;base64,{b64encode(file.getvalue()).decode()}">')
        return "\n".join(parts)


def frame(records: Sequence[Record]) -> Any:
    """Return records as a pandas DataFrame. Raises UsageError where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise UsageError("pandas is not installed", expected="'pip install pandas'") from None
    return pandas.DataFrame.from_records(list(records))


def _part_html(part: Part) -> str:
    if isinstance(part, Table):
        return _drawn_html(part.shown(WIDTH))
    if isinstance(part, Definitions):
        rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in part.rows)
        return f"<dl>{rows}</dl>"
    text = part(WIDTH) if callable(part) else part
    if not isinstance(text, str):
        return _drawn_html(text)
    tag = "pre" if isinstance(part, Lines) else "p"
    return f"<{tag}>{escape(text)}</{tag}>"


def _drawn_html(drawn: RichTable) -> str:
    from accelsim.report.page.tables import Cell, table_html

    heads = [Cell(str(column.header), right=column.justify == "right") for column in drawn.columns]
    rows = zip(*(column.cells for column in drawn.columns), strict=True)
    return table_html(
        heads, [[head._replace(text=str(text)) for head, text in zip(heads, row, strict=True)] for row in rows]
    )


def finite(value: object) -> Any:
    """Replace NaN and infinities, which JSON lacks, by None."""
    if isinstance(value, Mapping):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def flat(record: Record, inside: str = "") -> Facts:
    """Flatten a nested record to a row of a CSV file: {'a': {'b': 1}} becomes {'a.b': 1}."""
    row: Facts = {}
    for key, value in record.items():
        row |= flat(value, f"{inside}{key}.") if isinstance(value, Mapping) else {f"{inside}{key}": value}
    return row


def cell(value: object) -> object:
    """Return a value as a cell of a CSV: of a list its items with blanks between them."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value
