"""One self-contained HTML file made of the data of pages: words and tables as HTML, pictures drawn by its script.

The file asks nothing of anybody: its policy (CSP) lets it load nothing, and run no script but its own, by their hashes.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import NamedTuple
from urllib.parse import quote

from accelsim.report.page.form import About, Comparison, Page, PictureData, Section
from accelsim.report.page.layers import HOW_TO_READ
from accelsim.report.page.tables import Cell, layer_part, side_by_side, table_html

SCRIPTS = ("base.js", "table.js", "chart.js", "special.js", "array.js", "main.js")
"""Scripts of the page, in this order; all in ``accelsim/report/assets``."""
LIBRARY, LIBRARY_TITLE = "echarts.min.js", "Apache ECharts 6.1.0"
"""Library that draws the charts; licence and notice lie beside it."""
FILES = (
    ("summary.json", "the figures of the run in one dictionary"),
    ("layers.csv", "a row a layer, all digits"),
    ("ledger.csv", "every action with its count and energy"),
    ("timeline.json.gz", "what every engine did when: open ui.perfetto.dev in a browser and choose this file there"),
    ("page.json.gz", "what this page shows, as data: 'accelsim report DIR' makes the page of it"),
)
"""File beside the page -> what is in it."""


LAYERS: About = {"title": "Layers", "file": "layers.csv", "terms": HOW_TO_READ}
"""Title, file and columns of the table of lines, where the data of a page do not say."""


class Entry(NamedTuple):
    """A run on a page: its data, these as they were packed, the path of its folder from the page ('' for the same)
    and its name where there are several."""

    data: Page
    packed: bytes
    base: str = ""
    label: str = ""


def html(entries: Sequence[Entry], comparison: Comparison | None = None) -> str:
    """The page of a run, or of several with what differs between them. Valid HTML5, prints, fits a phone."""
    title = entries[0].data["title"] if comparison is None else comparison["title"]
    several = comparison is not None
    articles = [_article(number, entry, several) for number, entry in enumerate(entries)]
    if comparison is not None:
        articles = [_comparison(entries, comparison), *articles]
    blocks = [data_block(f"run-data-{number}", entry.packed) for number, entry in enumerate(entries)]
    if comparison is not None:
        blocks.append(data_block("comparison-data", _squeezed(json.dumps(comparison, allow_nan=False).encode())))
    return document(title, "\n".join(articles), blocks, entries[0].data["tool_version"])


def document(title: str, body: str, blocks: Sequence[str], version: str, names: Sequence[str] = SCRIPTS) -> str:
    """Return a self-contained file of HTML and blocks of data, which the scripts with these ``names`` draw."""
    style, scripts = _asset("page.css"), [_asset(name) for name in names]
    hashes = " ".join(f"'{_digest(text)}'" for text in (*scripts, _asset(LIBRARY)))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    run = "\n".join(f"<script>{text}</script>" for text in scripts)
    library = data_block("library", _library())
    footer = (
        f"<footer>accelsim {escape(version)}. Charts: {LIBRARY_TITLE} (The Apache Software Foundation, Apache License "
        "2.0, with zrender, BSD 3-Clause, and tslib, 0BSD), bundled in this file.</footer>"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        "<noscript><p class=lead>The pictures of this page are drawn by its script, which is switched off here. Words "
        "and tables are complete without it.</p></noscript>\n"
        f"{body}\n{footer}\n{library}\n" + "\n".join(blocks) + f"\n{run}\n</body>\n</html>\n"
    )


@cache
def _asset(name: str) -> str:
    return files("accelsim.report.assets").joinpath(name).read_text(encoding="utf-8")


@cache
def _library() -> bytes:
    return _squeezed(_asset(LIBRARY).encode())


def _squeezed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def data_block(name: str, packed: bytes) -> str:
    """Gzipped data that the script unpacks; browsers do not run a script of that type."""
    return f'<script type="application/gzip" id="{name}">{base64.b64encode(packed).decode()}</script>'


def _article(number: int, entry: Entry, several: bool) -> str:
    """All sections of a run, provenance at the end; of several, those after the first are hidden until they are
    chosen."""
    data = entry.data
    title = f"{entry.label}: {data['title']}" if several else data["title"]
    first, *pictures = data["pictures"]
    sentences = "\n".join(f"<p class=lead>{escape(sentence)}</p>" for sentence in data["sentences"])
    array = [ARRAY] if data.get("array") else []
    drawn, lines = [*map(picture_part, [*pictures, *array])], [layer_part(data["layers"], data.get("table", LAYERS))]
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<div class="halves"><div class="half">\n{sentences}\n</div>\n<div class="half">',
        f"{picture_part(first)}</div></div>",
        *(section_html(each) for each in data["first"]),
        *(drawn + lines if data.get("lines_last") else lines + drawn),
        *([_titled("Notes of the compiler", _list(data["notes"]))] if data["notes"] else []),
        _files(entry),
        *(section_html(each) for each in data["last"]),
    ]
    body = "\n".join(parts)
    return f'<article class="run" data-run="{number}" aria-label="{escape(title)}">\n{body}\n</article>'


def _comparison(entries: Sequence[Entry], comparison: Comparison) -> str:
    """Return what compares the runs, and the buttons that choose one."""
    buttons = "".join(
        f'<button type="button" data-show="{number}">{escape(entry.label)}</button>'
        for number, entry in enumerate(entries)
    )
    return (
        f'<nav class="runs" aria-label="Runs"><button type="button" data-show="comparison">side by side</button>'
        f'{buttons}</nav>\n<article class="comparison" aria-label="Runs side by side">\n'
        f"<h1>{escape(comparison['title'])}</h1>\n"
        + "\n".join(f"<p class=lead>{escape(text)}</p>" for text in comparison["sentences"])
        + "\n"
        + "\n".join(section_html(each) for each in comparison["tables"])
        + f'\n{picture_part(comparison["pictures"][0])}\n<section class="part" data-part="table">'
        f'\n<div class="mount"></div>\n'
        f"{side_by_side(comparison)}\n<p class=hint>A click on a column sorts by it.</p></section>\n</article>"
    )


def _titled(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def section_html(each: Section) -> str:
    """A section of tables as ``page.data`` makes it."""
    words = "".join(f"<p>{escape(text)}</p>\n" for text in each["before"])
    heads, *rows = (
        [Cell(text, right=index in each["numbers"]) for index, text in enumerate(row)]
        for row in (each["headers"], *each["rows"])
    )
    notes = "".join(f"<p class=hint>{escape(text)}</p>" for text in each["behind"])
    return _titled(each["title"], words + (table_html(heads, rows) if rows else "") + notes)


def picture_part(each: PictureData) -> str:
    """A picture that the script draws: its title, how to read it, and where it goes."""
    title = f"<h2>{escape(each['title'])}</h2>\n" if each["title"] else ""
    caption = f'<p class="caption">{escape(each["caption"])}</p>\n' if each["caption"] else ""
    part = f'<section class="part" data-part="{escape(each["name"])}">'
    return f'{part}\n{title}{caption}<div class="mount"></div>\n</section>'


def _list(entries: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(entry)}</li>" for entry in entries) + "\n</ul>"


def _files(entry: Entry) -> str:
    base = f"{quote(entry.base)}/" if entry.base else ""
    listed = entry.data.get("files", FILES)
    links = [f'<li><a href="{base}{quote(name)}">{escape(name)}</a>: {escape(text)}</li>' for name, text in listed]
    plots = ", ".join(f'<a href="{base}plots/{quote(name)}.svg">{escape(name)}</a>' for name in entry.data["plots"])
    told = f"<li>plots for papers as SVG: {plots}</li>" if plots else ""
    return _titled("Files of this report", "<ul>\n" + "\n".join(links) + told + "\n</ul>")


ARRAY: PictureData = {
    "name": "array",
    "title": "The array at work",
    "caption": "The first tile of each shape of product, as the register-level model moves it through the array; play "
    "it, or step from edge to edge.",
    "across": 1,
    "panels": [],
    "texts": [],
}
"""The animation, as other pictures state themselves."""
