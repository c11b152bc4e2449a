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
from typing import Any, NamedTuple
from urllib.parse import quote

from accelsim.report.page.layers import HOW_TO_READ
from accelsim.report.page.tables import Cell, layer_part, side_by_side, table_html
from accelsim.report.text import percent

SCRIPTS = (
    "base.js", "table.js", "chart.js", "bars.js", "roofline.js", "spans.js", "timeline.js", "buffers.js", "joules.js",
    "array.js", "compare.js", "main.js",
)  # fmt: skip
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


LAYERS = {"title": "Layers", "file": "layers.csv", "terms": HOW_TO_READ}
"""Title, file and columns of the table of lines, where the data of a page do not say."""


PATCH = '<span class="entry"><span class="patch" style="--colour:{}"></span>{}</span>'
LEAST = 0.0005
"""Share from which on a part of a bar is in its legend."""


class Entry(NamedTuple):
    """A run on a page: its data, these as they were packed, the path of its folder from the page ('' for the same)
    and its name where there are several."""

    data: dict[str, Any]
    packed: bytes
    base: str = ""
    label: str = ""


def html(entries: Sequence[Entry], comparison: dict[str, Any] | None = None) -> str:
    """The page of a run, or of several with what differs between them. Valid HTML5, prints, fits a phone."""
    title = entries[0].data["title"] if comparison is None else comparison["title"]
    several = comparison is not None
    articles = [_article(number, entry, several) for number, entry in enumerate(entries)]
    if comparison is not None:
        articles = [_comparison(entries, comparison), *articles]
    blocks = [_block(f"run-data-{number}", entry.packed) for number, entry in enumerate(entries)]
    if comparison is not None:
        blocks.append(_block("comparison-data", _squeezed(json.dumps(comparison, allow_nan=False).encode())))
    version = escape(str(entries[0].data["tool_version"]))
    footer = (
        f"<footer>accelsim {version}. Charts: {LIBRARY_TITLE} (The Apache Software Foundation, Apache License 2.0, "
        "with zrender, BSD 3-Clause, and tslib, 0BSD), bundled in this file.</footer>"
    )
    return _document(title, "\n".join([*articles, footer]), blocks)


def _document(title: str, body: str, blocks: Sequence[str]) -> str:
    style, scripts = _asset("page.css"), [_asset(name) for name in SCRIPTS]
    hashes = " ".join(f"'{_digest(text)}'" for text in (*scripts, _asset(LIBRARY)))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    run = "\n".join(f"<script>{text}</script>" for text in scripts)
    library = _block("library", _library())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        "<noscript><p class=lead>The pictures of this page are drawn by its script, which is switched off here. Words "
        "and tables are complete without it.</p></noscript>\n"
        f"{body}\n{library}\n" + "\n".join(blocks) + f"\n{run}\n</body>\n</html>\n"
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


def _block(name: str, packed: bytes) -> str:
    """Gzipped data that the script unpacks; browsers do not run a script of that type."""
    return f'<script type="application/gzip" id="{name}">{base64.b64encode(packed).decode()}</script>'


def _article(number: int, entry: Entry, several: bool) -> str:
    """All sections of a run, provenance at the end; of several, those after the first are hidden until they are
    chosen."""
    data = entry.data
    title = f"{entry.label}: {data['title']}" if several else data["title"]
    first, *pictures = data.get("pictures") or [None]
    sentences = "\n".join(f"<p class=lead>{escape(sentence)}</p>" for sentence in data["sentences"])
    picture = _picture(first) if first else _whole(data["layers"])
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<div class="halves"><div class="half">\n{sentences}\n</div>\n<div class="half">{picture}</div></div>',
        *(_section(each) for each in data["first"]),
        layer_part(data["layers"], data.get("table", LAYERS)),
        *(_chart(each, data) for each in CHARTS if data.get(each.key) is not None),
        *map(_picture, pictures),
        *([_titled("Notes of the compiler", _list(data["notes"]))] if data["notes"] else []),
        _files(entry),
        *(_section(each) for each in data["last"]),
    ]
    body = "\n".join(parts)
    return f'<article class="run" data-run="{number}" aria-label="{escape(title)}">\n{body}\n</article>'


def _whole(layers: dict[str, Any]) -> str:
    """The picture that answers first: bars of 100 %, what the time and what the energy of the run went to."""
    bars = []
    for title, key, values in (("time", "reasons", "time_fs"), ("energy", "categories", "energy_J")):
        total = sum(layers[values]) or 1.0
        shares = [(escape(name), escape(colour), sum(parts) / total) for name, colour, parts in layers[key]]
        seen = [each for each in shares if each[2] >= LEAST]
        if len(seen) == 1:
            bars.append(f"<p>All of the {title} goes to {seen[0][0]}.</p>")
        elif seen:
            pieces = "".join(f'<i style="flex:{share:.5f};background:{colour}"></i>' for _, colour, share in shares)
            legend = "".join(PATCH.format(colour, f"{name} {percent(share)}") for name, colour, share in seen)
            bars.append(
                f'<h3>Where the {title} went</h3>\n<div class="whole">{pieces}</div>\n<p class="key">{legend}</p>'
            )
    return "\n".join(bars)


def _comparison(entries: Sequence[Entry], comparison: dict[str, Any]) -> str:
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
        + "\n".join(_section(each) for each in comparison["tables"])
        + '\n<section class="part" data-part="compare"><h2>Layers side by side</h2><p class="caption">'
        f'{escape(comparison["caption"])}</p>\n<div class="mount"></div>\n{side_by_side(comparison)}\n'
        "<p class=hint>A click on a column sorts by it.</p></section>\n</article>"
    )


def _titled(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def _section(each: dict[str, Any]) -> str:
    """A section of tables as ``page.data`` makes it."""
    words = "".join(f"<p>{escape(text)}</p>\n" for text in each["before"])
    heads, *rows = (
        [Cell(text, right=index in each["numbers"]) for index, text in enumerate(row)]
        for row in (each["headers"], *each["rows"])
    )
    notes = "".join(f"<p class=hint>{escape(text)}</p>" for text in each["behind"])
    return _titled(each["title"], words + (table_html(heads, rows) if rows else "") + notes)


def _chart(chart: Chart, data: dict[str, Any]) -> str:
    part = data[chart.key]
    note = part.get("note", "") if isinstance(part, dict) else ""
    title, caption = data.get("charts", {}).get(chart.name, (chart.title, chart.caption))
    words = f'<p class="caption">{escape(caption)}{" " + escape(note) if note else ""}</p>'
    return (
        f'<section class="part" data-part="{chart.name}">\n<h2>{escape(title)}</h2>\n{words}\n'
        '<div class="mount"></div>\n</section>'
    )


def _picture(each: dict[str, str]) -> str:
    """A picture that is in the page as it is: its title, caption, and an SVG."""
    source = base64.b64encode(each["svg"].encode()).decode()
    title, caption = escape(each["title"]), escape(each["caption"])
    image = f'<img class="drawn" alt="{title}" src="data:image/svg+xml;base64,{source}">'
    return f'<section>\n<h2>{title}</h2>\n<p class="caption">{caption}</p>\n{image}\n</section>'


def _list(entries: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(entry)}</li>" for entry in entries) + "\n</ul>"


def _files(entry: Entry) -> str:
    base = f"{quote(entry.base)}/" if entry.base else ""
    listed = entry.data.get("files", FILES)
    links = [f'<li><a href="{base}{quote(name)}">{escape(name)}</a>: {escape(text)}</li>' for name, text in listed]
    plots = ", ".join(f'<a href="{base}plots/{quote(name)}.svg">{escape(name)}</a>' for name in entry.data["plots"])
    told = f"<li>plots for papers as SVG: {plots}</li>" if plots else ""
    return _titled("Files of this report", "<ul>\n" + "\n".join(links) + told + "\n</ul>")


class Chart(NamedTuple):
    """A picture: its ``name`` among the parts of the script, the ``key`` of the data that it shows (None there: the
    run has none), a title, and how to read it."""

    name: str
    key: str
    title: str
    caption: str


CHARTS = (
    Chart("bars", "layers", "Time and energy by layer",
          "One bar a layer, in the order of the run. The first picture is what the layer adds to the latency, by what "
          "the run waited for; the second its energy, by what costs it. The bars of each add up to the run."),
    Chart("rooflines", "rooflines", "Rooflines",
          "A mark is a layer with its number in the table, its area the layer's share of the time. No layer can lie "
          "above the line: left of the knee the memory is the limit, right of it the arithmetic."),
    Chart("timeline", "timeline", "Timeline",
          "One row per engine; what overlaps runs at the same time. The top row is the critical path: what the run "
          "waited for, instant by instant. Dark and light alternate from layer to layer; pale: a command holds the "
          "engine, its data do not move yet. Of each slice the page says what came last of all that it waited for."),
    Chart("buffers", "buffers", "What lay in each buffer",
          "Time to the right, addresses upwards. A rectangle is a tensor, or the part of one that has a place there, "
          "from the first byte written to the last one used. The pointer names all that lies there at its time."),
    Chart("array", "array", "The array at work",
          "The first tile of each shape of product, as the register-level model moves it through the array; play it, "
          "or step from edge to edge."),
    Chart("joules", "joules", "Where every joule comes from",
          "Each row has the energy of the whole run, parted further from row to row: by component, by what the "
          "component did, by layer, by tensor; what no tensor causes has nothing in the last row. Hatched: the figure "
          "behind it is not verified. Choose a part to see it over the whole width."),
)  # fmt: skip
"""Every picture, in the order of the page."""
