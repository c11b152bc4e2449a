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
from accelsim.report.page.parts import CHARTS, Chart
from accelsim.report.text import MISSING, si

SCRIPTS = (
    "base.js", "table.js", "chart.js", "bars.js", "roofline.js", "spans.js", "timeline.js", "buffers.js", "joules.js",
    "array.js", "compare.js", "main.js",
)  # fmt: skip
"""What runs on the page, in this order; all in ``accelsim/report/assets``."""
LIBRARY, LIBRARY_TITLE = "echarts.min.js", "Apache ECharts 6.1.0"
"""What draws the charts; licence and notice lie beside it."""
FILES = (
    ("summary.json", "the figures of the run in one dictionary"),
    ("layers.csv", "a row a layer, all digits"),
    ("ledger.csv", "every action with its count and energy"),
    (
        "timeline.json.gz",
        "what every engine did when: open ui.perfetto.dev in a browser and choose this file there",
    ),
    ("page.json.gz", "what this page shows, as data: 'accelsim report DIR' makes the page of it"),
)
"""File beside the page -> what is in it."""


LAYERS = {"title": "Layers", "file": "layers.csv", "terms": HOW_TO_READ}
"""What the lines of a page are, where its data do not say: the title of their table, the file of it, its columns."""


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
    """All sections of a run; of several, those behind the first are hidden until they are chosen."""
    data = entry.data
    title = f"{entry.label}: {data['title']}" if several else data["title"]
    parts = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p class=lead>{escape(sentence)}</p>" for sentence in data["sentences"]),
        *(_section(each) for each in data["first"]),
        _layers(data["layers"], data.get("table", LAYERS)),
        *(_chart(each, data) for each in CHARTS if data.get(each.key) is not None),
        *(_picture(each) for each in data.get("pictures", ())),
        *(_section(each) for each in data["last"]),
        _files(entry),
        *([_titled("Notes of the compiler", _list(data["notes"]))] if data["notes"] else []),
    ]
    body = "\n".join(parts)
    return f'<article class="run" data-run="{number}" aria-label="{escape(title)}">\n{body}\n</article>'


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
        + "\n" + "\n".join(_section(each) for each in comparison["tables"])
        + '\n<section class="part" data-part="compare"><h2>Layers side by side</h2><p class="caption">'
        f"{escape(comparison['caption'])}</p>\n<div class=\"mount\"></div>\n{_side_by_side(comparison)}\n"
        "<p class=hint>A click on a column sorts by it.</p></section>\n</article>"
    )  # fmt: skip


def _side_by_side(comparison: dict[str, Any]) -> str:
    """The table of layers of all runs: times, energies, their differences to the first run, what each is bound by."""
    runs = comparison["runs"]
    sets = (("time", "time_s", "s"), ("energy", "energy_J", "J"))
    heads = [
        "layer",
        *(head for what, _, _ in sets for head in _columns(what, runs)),
        *(f"bound by, {run}" for run in runs),
    ]
    rows = []
    for number, line in enumerate(comparison["lines"]):
        cells = [_cell("td", ("", 0, False), line["name"], None)]
        for _, key, unit in sets:
            cells += _differing(line[key], unit)
        cells += [_cell("td", ("", 0, False), text or MISSING, None) for text in line["bound"]]
        rows.append(f'<tr data-layer="{number}">{"".join(cells)}</tr>')
    numbers = len(heads) - len(runs)
    head = "".join(_cell("th", ("", 0, 0 < at < numbers), text, None) for at, text in enumerate(heads))
    body = "\n".join(rows)
    return (
        '<div class="scroll"><table class="layers">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _columns(what: str, runs: Sequence[str]) -> list[str]:
    return [f"{what}, {runs[0]}", *(head for run in runs[1:] for head in (f"{what}, {run}", "difference"))]


def _differing(values: Sequence[float | None], unit: str) -> list[str]:
    """Cells of the first value, and of each other with its difference to that."""
    first, *others = values
    found = [_cell("td", ("", 0, True), si(first, unit), first or 0.0)]
    for value in others:
        step = (value or 0.0) - (first or 0.0)
        sign = "+" if step > 0 else "−" if step < 0 else ""
        found.append(_cell("td", ("", 0, True), si(value, unit), value or 0.0))
        found.append(_cell("td", ("", 0, True), f"{sign}{si(abs(step), unit)}", step))
    return found


def _titled(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def _section(each: dict[str, Any]) -> str:
    """A section of tables as ``page.tables`` makes it."""
    words = "".join(f"<p>{escape(text)}</p>\n" for text in each["before"])
    table = _table(each["headers"], each["rows"], each["numbers"]) if each["rows"] else ""
    notes = "".join(f"<p class=hint>{escape(text)}</p>" for text in each["behind"])
    return _titled(each["title"], words + table + notes)


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


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> str:
    """A table that scrolls by itself where the page is narrow; ``numbers``: columns set flush right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        marked = (
            f"<{tag} class=n>{escape(cell)}</{tag}>" if index in numbers else f"<{tag}>{escape(cell)}</{tag}>"
            for index, cell in enumerate(cells)
        )
        return f"<tr>{''.join(marked)}</tr>"

    head = f"<thead>{line('th', headers)}</thead>\n" if any(headers) else ""
    body = "\n".join(line("td", row) for row in rows)
    return f"<div class=scroll><table>\n{head}<tbody>\n{body}\n</tbody></table></div>"


def _list(entries: Iterable[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{escape(entry)}</li>" for entry in entries) + "\n</ul>"


def _layers(layers: dict[str, Any], about: dict[str, Any]) -> str:
    """The table of layers, or of whatever else the lines of a page are: sorts by a click on a column, drops columns
    where the page is narrow."""
    columns = layers["columns"]
    head = "".join(_cell("th", column, column[0], None) for column in columns)
    rows = []
    for line, (cells, values) in enumerate(zip(layers["cells"], layers["values"], strict=True)):
        row = "".join(map(_cell, ["td"] * len(columns), columns, cells, values))
        rows.append(f'<tr data-layer="{line}">{row}</tr>')
    body = "\n".join(rows)
    return (
        f'<section class="part" data-part="table">\n<h2>{escape(about["title"])}</h2>\n<div class="mount"></div>\n'
        '<div class="wide scroll"><table class="layers">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n"
        f"<p class=hint>A click on a column sorts by it. {escape(about['file'])} has all digits and more columns.</p>\n"
        f"{_how_to_read(about['terms'])}\n</section>"
    )


def _cell(tag: str, column: Sequence[Any], text: str, value: float | None) -> str:
    """A cell with the rank of its column, for narrow pages, and the number that it sorts by."""
    _, rank, right = column
    marks = " ".join(mark for mark in ("n" if right else "", f"r{rank}" if rank else "") if mark)
    kept = f' class="{marks}"' if marks else ""
    sort = "" if value is None else f' data-v="{value:.6g}"'
    return f"<{tag}{kept}{sort}>{escape(text)}</{tag}>"


def _how_to_read(pairs: Iterable[Sequence[str]]) -> str:
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>\n" for term, text in pairs)
    return f"<details><summary>How to read the table</summary>\n<dl>\n{terms}</dl></details>"


def _files(entry: Entry) -> str:
    base = f"{quote(entry.base)}/" if entry.base else ""
    listed = entry.data.get("files", FILES)
    links = [
        f'<li><a href="{base}{quote(name)}">{escape(name)}</a>: {escape(text)}</li>' for name, text in listed
    ]
    plots = ", ".join(
        f'<a href="{base}plots/{quote(name)}.svg">{escape(name)}</a>' for name in entry.data["plots"]
    )
    told = f"<li>plots for papers as SVG: {plots}</li>" if plots else ""
    return _titled("Files of this report", "<ul>\n" + "\n".join(links) + told + "\n</ul>")
