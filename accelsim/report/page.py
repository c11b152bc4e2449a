"""One self-contained HTML page: words, tables, plots, ledger totals, provenance. Its script only sorts tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from pydantic import BaseModel

from accelsim.account.energy import energy_table, prices_of
from accelsim.account.latency import Layer, lines
from accelsim.machine.run import Run
from accelsim.program.roles import part_of
from accelsim.report.dram_table import COLUMNS, NUMBERS, dram_rows, dram_sentences
from accelsim.report.plot import PLOTS
from accelsim.report.table import LAYER_COLUMNS, Column, energy_rows, layer_cells, layer_names, summary_rows
from accelsim.report.text import percent, seconds, si, signed
from accelsim.report.words import option_texts, sentences
from accelsim.request import how_to_repeat

HOW_TO_READ = (
    ("time", "what the layer adds to the latency: its time on the critical path; adds up to the latency"),
    ("of run", "the same as a share of the latency; adds up to 100%"),
    ("bound by", "what most of that time goes to; 'hidden' for a layer that adds none"),
    (
        "of peak",
        "multiply-accumulates over what the engine of products could have done in the layer's own time: what it adds, "
        "or the time that this engine or a memory works for it where that is longer because other layers hide it",
    ),
    ("DRAM", "bytes to and from all off-chip memories"),
    (
        "energy",
        "count of every action times its energy from the spec, plus static power for the time that it adds",
    ),
)
"""Column of the layer table -> what it means."""


def html(run: Run, layers: Sequence[Layer], summary: dict[str, Any], pictures: dict[str, str]) -> str:
    """The page; ``pictures``: name of the plot -> its SVG file as text. Valid HTML5, prints, fits a phone."""
    title = f"{summary['model']} on {summary['chip_title']}"
    body = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p class=lead>{escape(sentence)}</p>" for sentence in sentences(run, layers, summary)),
        _section("Summary", _table(("", ""), summary_rows(summary), numbers=())),
        _section("Energy", _table(("category", "energy", "share"), energy_rows(summary), numbers=(1, 2))),
        *([_section("What would help", _what_ifs(summary))] if summary.get("what_ifs") is not None else []),
        *([_section("DRAM", _dram(run))] if run.dram else []),
        *(_figure(name, pictures[name]) for name in PLOTS if name in pictures),
        _section("Layers", _layers(layers) + _how_to_read()),
        _section("How it was run", _asked(summary)),
        _section("Files of this report", _files(pictures)),
        _section("Engines", _engines(run)),
        _section("Ledger", _ledger(run)),
        _section("Where the figures of the chip come from", _provenance(run)),
        *([_section("Notes of the compiler", _list(summary["notes"]))] if summary["notes"] else []),
        f"<footer>accelsim {escape(str(summary['tool_version']))}</footer>",
    ]
    return _document(title, "\n".join(body))


def _document(title: str, body: str) -> str:
    style, script = (
        files("accelsim.report").joinpath(f"page.{kind}").read_text(encoding="utf-8")
        for kind in ("css", "js")
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n"
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


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


def _what_ifs(summary: dict[str, Any]) -> str:
    """Every change that was tried, with what it gave and how to repeat it."""
    found = summary["what_ifs"]
    rows = [
        (what["change"], si(what["latency_s"], "s"), signed(-what["saved"]), " ".join(option_texts(what)))
        for what in found
    ]
    note = "<p>Each change was compiled and simulated on its own; the options repeat it.</p>"
    return _table(("change", "latency", "difference", "options"), rows, numbers=(1, 2)) + note


def _dram(run: Run) -> str:
    words = "".join(f"<p>{escape(sentence)}</p>\n" for sentence in dram_sentences(run))
    return words + _table([column.title for column in COLUMNS], dram_rows(run), NUMBERS)


def _figure(name: str, svg: str) -> str:
    entry = PLOTS[name]
    return (
        f"<figure>\n{inline_svg(svg, name, entry.title)}\n"
        f"<figcaption><strong>{escape(entry.title)}.</strong> {escape(entry.caption)}</figcaption>\n</figure>"
    )


def inline_svg(svg: str, name: str, title: str) -> str:
    """The <svg> element of a file, for a page: own ids, scales with the page, has a name to read out."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'(xlink:href|href)="#', rf'\1="#{name}-', element)
    element = re.sub(r"url\(#", f"url(#{name}-", element)
    opening, rest = element.split(">", 1)
    opening = re.sub(r'\s(width|height|version)="[^"]*"', "", opening)
    return f'{opening} role="img" aria-label="{escape(title)}">{rest.strip()}'


def _layers(layers: Sequence[Layer]) -> str:
    """The table of layers: sorts by a click on a column, drops columns where the page is narrow."""
    total_fs, layers = sum(layer.added_fs for layer in layers), lines(layers)
    shown = [index for index, column in enumerate(LAYER_COLUMNS) if not column.rank or _used(layers, index)]
    head = "".join(_cell("th", LAYER_COLUMNS[i], LAYER_COLUMNS[i].title) for i in shown)
    rows = []
    for layer, name in zip(layers, layer_names(layers), strict=True):
        cells, values = layer_cells(layer, name, total_fs), _sort_values(layer)
        rows.append("".join(_cell("td", LAYER_COLUMNS[i], cells[i], values.get(i)) for i in shown))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return (
        '<div class="wide scroll"><table class=sortable>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n"
        "<p class=hint>A click on a column sorts by it. layers.csv has all digits and more columns.</p>"
    )


def _used(layers: Sequence[Layer], index: int) -> bool:
    names = layer_names(layers)
    return any(layer_cells(layer, name, 1)[index] for layer, name in zip(layers, names, strict=True))


def _cell(tag: str, column: Column, text: str, value: float | None = None) -> str:
    """A cell with the rank of its column, for narrow pages, and the number that it sorts by."""
    marks = " ".join(
        mark for mark in ("n" if column.right else "", f"r{column.rank}" if column.rank else "") if mark
    )
    kept = f' class="{marks}"' if marks else ""
    sort = "" if value is None else f' data-v="{value:.6g}"'
    return f"<{tag}{kept}{sort}>{escape(text)}</{tag}>"


def _sort_values(layer: Layer) -> dict[int, float]:
    """Index of a column -> the number that its cell stands for; other columns sort as text."""
    values = {
        "#": layer.number, "MACs": layer.macs, "cycles": layer.cycles, "time": layer.added_fs,
        "of run": layer.added_fs, "of peak": layer.utilisation or 0.0, "DRAM": layer.dram_B, "energy": layer.energy_J,
    }  # fmt: skip
    return {
        i: float(values[column.title]) for i, column in enumerate(LAYER_COLUMNS) if column.title in values
    }


def _asked(summary: dict[str, Any]) -> str:
    """The command that repeats the run, every setting that is not the default, hashes and versions."""
    asked = summary.get("run") or {}
    if not asked:
        return "<p>The run was put together in Python step by step; what was asked was not recorded.</p>"
    rows = [("command", how_to_repeat(asked))]
    rows += [(name, json.dumps(value, ensure_ascii=False)) for name, value in asked["asked"].items()]
    rows += [(f"SHA-256 of {name}", digest) for name, digest in asked["files"].items()]
    rows += [("SHA-256 of the chip", asked["chip_sha256"]), ("SHA-256 of the model", asked["model_sha256"])]
    rows.append(("versions", ", ".join(f"{name} {text}" for name, text in asked["versions"].items())))
    note = "<p><code>accelsim rerun DIR</code> repeats the run of a report and compares every figure.</p>"
    return _table(("", ""), rows, numbers=()) + note * (not asked["in_memory"])


FILES = (
    ("summary.json", "the figures of the run in one dictionary"),
    ("layers.csv", "a row a layer, all digits"),
    ("ledger.csv", "every action with its count and energy"),
    (
        "timeline.json.gz",
        "what every engine did when: open ui.perfetto.dev in a browser and choose this file there",
    ),
)
"""File beside the page -> what is in it."""


def _files(pictures: dict[str, str]) -> str:
    links = [f'<li><a href="{name}">{name}</a>: {escape(text)}</li>' for name, text in FILES]
    plots = ", ".join(f'<a href="plots/{name}.png">{name}</a>' for name in pictures)
    return "<ul>\n" + "\n".join([*links, f"<li>plots as PNG, each also as SVG: {plots}</li>"]) + "\n</ul>"


def _how_to_read() -> str:
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>\n" for term, text in HOW_TO_READ)
    return f"<h3>How to read the table</h3>\n<dl>\n{terms}</dl>"


def _engines(run: Run) -> str:
    rows = []
    for entry in run.engines:
        why = ", ".join(f"{reason} {seconds(fs)}" for reason, fs in entry.stalled.items() if fs)
        share = percent(entry.busy / run.time_fs if run.time_fs else 0.0)
        rows.append((entry.engine, seconds(entry.busy), share, why or "–", seconds(entry.idle)))
    return _table(("engine", "busy", "of run", "stalled", "idle"), rows, numbers=(1, 2, 4))


def _ledger(run: Run) -> str:
    """Totals by component and action; the full ledger is in ledger.csv."""
    prices = prices_of(run)
    totals: dict[tuple[str, str], tuple[int, float]] = {}
    for row in energy_table(run):
        count, energy = totals.get((row.component, row.action), (0, 0.0))
        totals[row.component, row.action] = (count + row.count, energy + row.energy_J)
    rows = []
    for (component, action), (count, energy) in totals.items():
        price = prices.get((part_of(run.chip, component), action))
        rows.append(
            (
                component,
                action,
                f"{count:,}",
                si(price, "J") if price is not None else "power × time",
                si(energy, "J"),
            )
        )
    return _table(("component", "action", "count", "each", "energy"), rows, numbers=(2, 3, 4))


def provenance(model: BaseModel, path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(path in the spec, source, as of, note) of every block that states one, from the outside in."""
    found = [str(getattr(model, name, None) or "") for name in ("source", "as_of", "note")]
    if any(found):
        yield path or "chip", found[0], found[1], found[2]
    for name in type(model).model_fields:
        value = getattr(model, name)
        entries = value.items() if isinstance(value, dict) else [("", value)]
        for key, entry in entries:
            if isinstance(entry, BaseModel):
                yield from provenance(entry, ".".join(part for part in (path, name, str(key)) if part))


def _provenance(run: Run) -> str:
    rows = list(provenance(run.chip))
    return (
        _table(("block", "source", "as of", "note"), rows, numbers=())
        if rows
        else "<p>The spec states none.</p>"
    )
