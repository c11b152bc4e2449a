"""The page of a training step as data, in the form of ``accelsim.report.page``: a line is a kind of device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from accelsim.cluster.step.result import Device, StepResult
from accelsim.report.cluster.looks import HELD, KINDS, OTHER, device_names
from accelsim.report.page.buffers import MAP_IN, memory_map
from accelsim.report.page.data import FORMAT, VERSION, section
from accelsim.report.page.form import Page, Section, Table
from accelsim.report.page.pictures import Drawn
from accelsim.report.page.timeline import MOST, WHEN, Row, Texts, of_row, rows_picture, spans, thinned
from accelsim.report.picture import Axis, Mark, Panel, Picture, stacked
from accelsim.report.step import summary_rows
from accelsim.report.text import percent, seconds, si
from accelsim.time import FS
from accelsim.units import show
from accelsim.version import tool_version

Figure: TypeAlias = "tuple[str, str, Picture]"
"""Title of a picture, how to read it, and the picture."""
SLICE = ("{label:text}", WHEN)
"""Words of the page beside a slice."""
FINEST_FS = 10**6
"""The timeline can be stretched until so much of it is as wide as the page."""
FILES = (
    ("step.json", "the figures of the step in one dictionary"),
    ("devices.csv", "a row for each kind of device, all digits"),
    (
        "timeline.json.gz",
        "what every device did and held when, a process each: open ui.perfetto.dev in a browser and choose this file",
    ),
)
"""File beside the page -> what is in it."""
TERMS = (
    ("stage", "the part of the pipeline that the device has; devices that do the same are one line"),
    ("compute", "time of its forward and backward passes; also what it computes again (recompute)"),
    ("communication", "collectives of its tensor-parallel group, and of its replicas where no pass hides them"),
    ("waits", "time in which it does nothing: the bubble, transfers between stages, slower devices"),
    ("memory", "the most that it holds at one time"),
    ("of capacity", "the same as a share of what its off-chip memory has"),
)
"""Column of the table of devices -> what it means."""
BARS = "One bar for each kind of device; all are as long as the step."
ROWS = (
    "One row for each kind of device, first stage on top. The label says the pass (F forward, B backward, W "
    "gradients of weights) and the micro-batch; grey: the device waits."
)
MAPS = (
    "Time to the right, bytes upwards. What stays lies at the bottom; the stash, activations kept for the backward "
    "passes, comes and goes above it."
)


def page_data(
    result: StepResult, sentences: Sequence[str], pictures: Mapping[str, Figure], more: Sequence[Section] = ()
) -> Page:
    """Return all that the page shows, for JSON; ``pictures``: those of the step, the first beside the sentences;
    ``more``: tables below the others."""
    names = device_names(result)
    first, *others = [Drawn(name, *figure) for name, figure in pictures.items()]
    shown = [first, _bars(result, names), _timeline(result, names), _memory(result, names), *others]
    table, told = _lines(result, names)
    return {
        "format": FORMAT,
        "version": VERSION,
        "tool_version": tool_version(),
        "title": f"A training step of {result.model} on {result.cluster}, {result.plan}",
        "none": "no device",
        "sentences": list(sentences),
        "first": [section("Summary", ("", ""), summary_rows(result)), _energy(result)],
        "layers": table,
        "lines": {"names": names, "told": told},
        "table": {"title": "Devices", "file": "devices.csv", "terms": TERMS},
        "pictures": [each.data() for each in shown],
        "files": FILES,
        "last": [*([_links(result)] if result.by_link_B else []), _calibrations(result), *more],
        "notes": [],
        "plots": list(pictures),
    }


def _energy(result: StepResult) -> Section:
    rows = [
        (name, si(joules, "J"), percent(joules / result.total_J if result.total_J else 0.0))
        for name, joules in result.energy_J.items()
        if joules
    ]
    return section("Energy", ("what draws it", "energy", "share"), rows, (1, 2))


def _links(result: StepResult) -> Section:
    rows = [(name, show(moved, "B", 4)) for name, moved in result.by_link_B.items()]
    return section("Bytes over all wires of a link", ("link", "bytes in a step"), rows, (1,))


def _calibrations(result: StepResult) -> Section:
    rows = list(result.calibrated.items())
    return section("What the constants of the chips come of", ("chip", "calibrated on"), rows)


def _lines(result: StepResult, names: list[str]) -> tuple[Table, list[list[str]]]:
    """The table of devices, and what bars and tooltips say of each."""
    spent = [device.spent_fs for device in result.devices]
    cells, values, told = list[list[str]](), list[list[float | None]](), list[list[str]]()
    for device, name, times in zip(result.devices, names, spent, strict=True):
        share = device.memory.peak_B / device.capacity_B
        waits = times.get("wait", 0)
        busy = times.get("compute", 0) + times.get("recompute", 0)
        talk = times.get("communication", 0)
        held = show(device.memory.peak_B, "B", 3, binary=True)
        cells.append([name, device.chip, seconds(busy), seconds(talk), seconds(waits), held, percent(share)])
        values.append([None, None, busy, talk, waits, device.memory.peak_B, share])
        told.append([device.chip, f"computes {percent(busy / result.time_fs)} of the step", f"holds {held}"])
    titles = {"stage": 0, "chip": 2, "compute": 0, "communication": 1, "waits": 1, "memory": 0, "of capacity": 0}
    table: Table = {
        "columns": [(title, rank, number > 1) for number, (title, rank) in enumerate(titles.items())],
        "cells": cells,
        "values": values,
        "keys": names,
        "names": names,
        "titles": names,
        "bound": [max(times, key=lambda kind: times[kind]) for times in spent],
        "time_fs": [result.time_fs] * len(names),
        "energy_J": [0.0] * len(names),
    }
    return table, told


def _bars(result: StepResult, names: list[str]) -> Drawn:
    """Return a bar for each device, of what its time goes to."""
    series = {kind: [device.spent_fs.get(kind, 0) * FS for device in result.devices] for kind in KINDS}
    page = {"columns": {"line": range(len(names))}}
    marks = stacked(range(len(names)), series, KINDS, {}, flat=True, page=page)
    parts = {"first": 0, "count": len(names), "flat": True, "unit": "s", "heading": "time goes to"}
    panel = Panel("", marks, Axis("time", "s", low=0), Axis(names=names), page={"parts": parts})
    return Drawn("bars", "Where the time of each device goes", BARS, Picture(1 + 0.25 * len(names), [panel]))


def _timeline(result: StepResult, names: list[str]) -> Drawn:
    texts, order = Texts(), list(KINDS)
    pieces = [(line, piece) for line, device in enumerate(result.devices) for piece in device.slices]
    row = np.array([line for line, _ in pieces], np.int64)
    start = np.array([piece.start_fs for _, piece in pieces], np.int64)
    end = np.array([piece.end_fs for _, piece in pieces], np.int64)
    kind = np.array([order.index(piece.kind) for _, piece in pieces], np.int64)
    found, gap = thinned(spans(row, start, end, kind), MOST, result.time_fs)
    rows = []
    looks = {"colours": [look.color for look in KINDS.values()], "keys": order}
    for line, name in enumerate(names):
        mine = of_row(found, line)
        pieces_of = [pieces[index][1] for index in mine.first.tolist()]
        times = result.devices[line].spent_fs
        busy = times.get("compute", 0) + times.get("recompute", 0)
        label = [texts.number(f"{piece.kind} {piece.label}".strip()) for piece in pieces_of]
        columns = {"line": [line] * len(label), "label": label, "tint": mine.kind.tolist()}
        page = {"columns": columns, **looks, "told": SLICE, "text": "{label:text}", "brief": True}
        rows.append(Row(name, mine, page, percent(busy / result.time_fs)))
    left_out = found.joined - len(found.row)
    note = f"Slices of one kind that lie at most {seconds(gap)} apart are drawn as one." if left_out else ""
    return Drawn("timeline", "Timeline", ROWS, rows_picture(rows, result.time_fs, FINEST_FS), note, texts.all())


def _memory(result: StepResult, names: list[str]) -> Drawn:
    """Return a map for each kind of device: bytes that stay, one above the other, and the stash above them."""
    panels = [
        _map(device, name, line, result.time_fs)
        for line, (device, name) in enumerate(zip(result.devices, names, strict=True))
    ]
    return Drawn("buffers", "Memory over time", MAPS, Picture(MAP_IN * len(panels), panels))


def _map(device: Device, name: str, line: int, end_fs: int) -> Panel:
    kinds = [*device.memory.static_B, "stash"]
    boxes, base = [], 0
    for number, size in enumerate(device.memory.static_B.values()):
        if size:
            boxes.append((0, end_fs, base, size, number))
        base += size
    times = [*map(int, device.memory.times_fs), end_fs]
    for begin, end, held in zip(times, times[1:], device.memory.stash_B, strict=False):
        if held and end > begin:
            boxes.append((begin, end, base, held, len(kinds) - 1))
    begins, ends, offsets, sizes, tints = (list(column) for column in zip(*sorted(boxes), strict=True))
    columns = {"line": [line] * len(begins), "size": sizes, "tint": tints, "kind": [kinds[tint] for tint in tints]}
    colours = [HELD.get(kind, OTHER).color for kind in kinds]
    page = {"columns": columns, "colours": colours, "name": name, "title": "{kind}: {size:B}", "text": "{kind}"}
    mark = Mark("boxes", np.array(ends), offsets, "", np.array(begins), {"size": sizes}, page)
    peak, room = device.memory.peak_B, device.capacity_B
    most, whole = show(peak, "B", 3, binary=True), show(room, "B", 3, binary=True)
    title = f"{name}: at most {most} of {whole} ({percent(peak / room)})"
    return memory_map(title, [mark], end_fs, peak, FINEST_FS, "bytes")
