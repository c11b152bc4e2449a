"""Data of the page of a run, kept beside its other files, so that pages can be made again."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from accelsim.account.energy import energy_table, prices_of
from accelsim.account.latency import Layer
from accelsim.explore.array_frames import array_frames
from accelsim.machine.run import Run
from accelsim.program.roles import part_of
from accelsim.report.dram_table import COLUMNS, NUMBERS, dram_rows, dram_sentences
from accelsim.report.page.buffers import buffers
from accelsim.report.page.form import Page, Section
from accelsim.report.page.joules import joules
from accelsim.report.page.layers import layer_lines, lines_of
from accelsim.report.page.pictures import LEAST, Drawn
from accelsim.report.page.timeline import timeline
from accelsim.report.picture import Mark, Panel, Picture
from accelsim.report.plot import PLOTS, declared
from accelsim.report.table import energy_rows, summary_rows
from accelsim.report.text import percent, seconds, si, signed
from accelsim.report.words import option_texts, sentences
from accelsim.request import how_to_repeat
from accelsim.spec.base import Model, defaults

Summary = dict[str, Any]


def section(
    title: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: Sequence[int] = (),
    before: Iterable[str] = (),
    behind: Iterable[str] = (),
) -> Section:
    """A section as a page keeps it."""
    return {
        "title": title,
        "headers": list(headers),
        "rows": [list(row) for row in rows],
        "numbers": list(numbers),
        "before": list(before),
        "behind": list(behind),
    }


def first(run: Run, summary: Summary) -> list[Section]:
    """Return what stands before the layers."""
    found = [
        section("Summary", ("", ""), summary_rows(summary)),
        section("Energy", ("category", "energy", "share"), energy_rows(summary), (1, 2)),
    ]
    if summary.get("what_ifs") is not None:
        found.append(_what_ifs(summary))
    if run.dram:
        headers = [column.title for column in COLUMNS]
        found.append(section("DRAM", headers, dram_rows(run), NUMBERS, dram_sentences(run)))
    return found


def _what_ifs(summary: Summary) -> Section:
    """Every change that was tried, with what it gave and how to repeat it."""
    rows = [
        (what["change"], si(what["latency_s"], "s"), signed(-what["saved"]), " ".join(option_texts(what)))
        for what in summary["what_ifs"]
    ]
    note = "Each change was compiled and simulated on its own; the options repeat it."
    return section("What would help", ("change", "latency", "difference", "options"), rows, (1, 2), behind=[note])


def _asked(run: Run, summary: Summary) -> Section:
    """The command that repeats the run, every setting that is not the default, hashes and versions."""
    asked, title = summary.get("run") or {}, "How it was run"
    if not asked:
        note = "The run was put together in Python step by step; what was asked was not recorded."
        return section(title, (), (), before=[note])
    rows = [("command", how_to_repeat(asked))]
    rows += [(name, json.dumps(value, ensure_ascii=False)) for name, value in asked["asked"].items()]
    rows += [(f"SHA-256 of {name}", digest) for name, digest in asked["files"].items()]
    rows += [("SHA-256 of the chip", asked["chip_sha256"]), ("SHA-256 of the model", asked["model_sha256"])]
    rows.append(("versions", ", ".join(f"{name} {text}" for name, text in asked["versions"].items())))
    note = "'accelsim rerun DIR' repeats the run of a report and compares every figure."
    return section(title, ("", ""), rows, behind=[note] * (not asked["in_memory"]))


def _engines(run: Run, summary: Summary) -> Section:
    rows = []
    for entry in run.engines:
        why = ", ".join(f"{reason} {seconds(fs)}" for reason, fs in entry.stalled.items() if fs)
        share = percent(entry.busy / run.time_fs if run.time_fs else 0.0)
        rows.append((entry.engine, seconds(entry.busy), share, why or "–", seconds(entry.idle)))
    return section("Engines", ("engine", "busy", "of run", "stalled", "idle"), rows, (1, 2, 4))


def _ledger(run: Run, summary: Summary) -> Section:
    """Totals by component and action; the full ledger is in ledger.csv."""
    prices = prices_of(run)
    totals: dict[tuple[str, str], tuple[int, float]] = {}
    for row in energy_table(run):
        count, energy = totals.get((row.component, row.action), (0, 0.0))
        totals[row.component, row.action] = (count + row.count, energy + row.energy_J)
    rows = []
    for (component, action), (count, energy) in totals.items():
        price = prices.get((part_of(run.chip, component), action))
        each = si(price, "J") if price is not None else "power × time"
        rows.append((component, action, f"{count:,}", each, si(energy, "J")))
    return section("Ledger", ("component", "action", "count", "each", "energy"), rows, (2, 3, 4))


def provenance(model: Model, path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(path in the spec, source, as of, note) of every block that states one, from the outside in."""
    found = [str(getattr(model, name, None) or "") for name in ("source", "as_of", "note")]
    if any(found):
        yield path or "chip", found[0], found[1], found[2]
    for name in defaults(type(model)):
        value = getattr(model, name)
        entries = value.items() if isinstance(value, dict) else [("", value)]
        for key, entry in entries:
            if isinstance(entry, Model):
                yield from provenance(entry, ".".join(part for part in (path, name, str(key)) if part))


def _provenance(run: Run, summary: Summary) -> Section:
    title, rows = "Where the figures of the chip come from", list(provenance(run.chip))
    if not rows:
        return section(title, (), (), before=["The spec states none."])
    return section(title, ("block", "source", "as of", "note"), rows)


LAST: tuple[Callable[[Run, Summary], Section], ...] = (_engines, _ledger, _asked, _provenance)
"""Sections after the pictures, in this order; provenance is last."""

FORMAT, VERSION = "accelsim page", 2
"""Format and version of the data. A change of what a key means is a new version."""
REPLACED = ("whole", "timeline", "occupancy")
"""Plots that the page has in a form of its own."""
WHOLE = "whole"
"""Picture beside the sentences."""


def page_data(
    run: Run, layers: Sequence[Layer], summary: dict[str, Any], plots: Mapping[str, Picture] | None = None
) -> Page:
    """Return all that the page shows, for JSON; ``plots``: those of the registry, where they are at hand."""
    lines, drawn = lines_of(run, layers), declared(run) if plots is None else plots
    table, told = layer_lines(run, lines)
    pictures: list[Drawn | None] = [
        _whole(drawn[WHOLE]),
        *(Drawn(name, *PLOTS[name][1:3], picture) for name, picture in drawn.items() if name not in REPLACED),
        timeline(run, lines),
        buffers(run, lines),
        joules(run, lines),
    ]
    return {
        "format": FORMAT,
        "version": VERSION,
        "tool_version": summary["tool_version"],
        "title": f"{summary['model']} on {summary['chip_title']}",
        "sentences": list(sentences(run, layers, summary)),
        "first": first(run, summary),
        "layers": table,
        "lines": {"names": table["names"], "told": told},
        "pictures": [each.data() for each in pictures if each],
        "array": array_frames(run),
        "last": [make(run, summary) for make in LAST],
        "notes": list(summary["notes"]),
        "plots": list(drawn),
    }


def _whole(picture: Picture) -> Drawn:
    """Return the picture that answers first; a panel with one part is a sentence instead."""
    several = [panel for panel in picture.panels if len(_parts(panel)) > 1]
    alone = [
        f"{panel.title}, all of it to {_parts(panel)[0].label}." for panel in picture.panels if len(_parts(panel)) == 1
    ]
    heights = [ratio for ratio, panel in zip(picture.ratios or (), picture.panels, strict=True) if panel in several]
    shown = replace(picture, panels=several, ratios=heights)
    return Drawn(WHOLE, "", " ".join(alone), shown)


def _parts(panel: Panel) -> list[Mark]:
    return [mark for mark in panel.marks if mark.kind == "flat bars" and max(mark.x) >= LEAST]


def packed(data: Mapping[str, object]) -> bytes:
    """The data as the file holds them: JSON, gzip without name and time; the same data give the same bytes."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    file = io.BytesIO()
    with gzip.GzipFile("", "wb", mtime=0, fileobj=file) as stream:
        stream.write(text.encode())
    return file.getvalue()
