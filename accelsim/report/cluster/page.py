"""The page of a training step as data, in the form of ``accelsim.report.page``: a line is a kind of device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from accelsim.cluster.step.result import PARTS as MEANING
from accelsim.cluster.step.result import Device, StepResult
from accelsim.errors import count_of
from accelsim.report.cluster.looks import HELD, KINDS, OTHER, device_names
from accelsim.report.page.data import FORMAT, VERSION, Section, section
from accelsim.report.page.timeline import MOST, Texts, deltas, spans, thinned
from accelsim.report.step import energy_rows
from accelsim.report.text import ends_text, interval_text, percent, seconds, si
from accelsim.units import show
from accelsim.version import tool_version

FINEST_FS = 10**6
"""The timeline can be stretched until so much of it is a clock edge of other pages wide."""
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
CHARTS = {
    "bars": ("Where the time of each device goes", "One bar for each kind of device; all are as long as the step."),
    "timeline": (
        "Timeline",
        "One row for each kind of device, first stage on top. The label says the pass (F forward, B backward, W "
        "gradients of weights) and the micro-batch; grey: the device waits.",
    ),
    "buffers": (
        "Memory over time",
        "Time to the right, bytes upwards. What stays lies at the bottom; the stash, activations kept for the "
        "backward passes, comes and goes above it.",
    ),
}
"""Part of the page -> its title, and how to read it."""


def page_data(
    result: StepResult, sentences: Sequence[str], pictures: Sequence[dict[str, str]], more: Sequence[Section] = ()
) -> dict[str, Any]:
    """All that the page shows; ``pictures``: title, caption and SVG of each; ``more``: tables below the others.
    JSON can hold it."""
    names = device_names(result)
    return {
        "format": FORMAT,
        "version": VERSION,
        "tool_version": tool_version(),
        "title": f"A training step of {result.model} on {result.cluster}, {result.plan}",
        "none": "no device",
        "sentences": list(sentences),
        "first": [_summary(result), _parts(result), _energy(result)],
        "layers": _lines(result, names),
        "table": {"title": "Devices", "file": "devices.csv", "terms": TERMS},
        "charts": CHARTS,
        "timeline": _timeline(result, names),
        "buffers": _memory(result, names),
        "pictures": list(pictures),
        "files": FILES,
        "last": [*([_links(result)] if result.by_link_B else []), _calibrations(result), *more],
        "notes": [],
        "plots": [],
    }


def _summary(result: StepResult) -> Section:
    tokens = si(result.tokens_per_s) + ends_text(result.tokens_ends_per_s, "")
    rows = [
        ("cluster", f"{result.cluster}: {count_of(result.plan.devices, 'device')}"),
        ("plan", str(result.plan)),
        (
            "each replica",
            f"{result.plan.microbatches:,} x {result.microbatch} {result.unit}, schedule {result.plan.schedule}",
        ),
        ("batch", f"{result.batch:,} {result.unit}"),
        ("time of a step", si(result.time_s, "s") + interval_text(result.interval)),
        (f"{result.unit} per second", si(result.samples_per_s) + ends_text(result.samples_ends_per_s, "")),
        *([("tokens per second", tokens)] if result.sample_tokens else []),
        ("MFU: model FLOPs of peak", percent(result.mfu)),
        ("HFU: with recomputation", percent(result.hfu)),
        *energy_rows(result),
    ]
    return section("Summary", ("", ""), rows)


def _parts(result: StepResult) -> Section:
    rows = [
        (name, seconds(fs), percent(fs / result.time_fs), MEANING[name]) for name, fs in result.parts_fs.items() if fs
    ]
    return section("Where the step goes", ("part", "time", "share", "what it is"), rows, (1, 2))


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


def _lines(result: StepResult, names: list[str]) -> dict[str, Any]:
    """The table of devices, and what bars and tooltips say of each."""
    spent = [device.spent_fs for device in result.devices]
    cells, values, told = [], [], []
    for device, name, times in zip(result.devices, names, spent, strict=True):
        share = device.memory.peak_B / device.capacity_B
        waits = times.get("wait", 0)
        busy = times.get("compute", 0) + times.get("recompute", 0)
        talk = times.get("communication", 0)
        held = show(device.memory.peak_B, "B", 3, binary=True)
        cells.append([name, device.chip, seconds(busy), seconds(talk), seconds(waits), held, percent(share)])
        values.append([None, None, busy, talk, waits, device.memory.peak_B, share])
        told.append([device.chip, f"computes {percent(busy / result.time_fs)} of the step", f"holds {held}"])
    return {
        "columns": [["stage", 0, False], ["chip", 2, False], ["compute", 0, True], ["communication", 1, True],
                    ["waits", 1, True], ["memory", 0, True], ["of capacity", 0, True]],
        "cells": cells, "values": values, "keys": names, "names": names, "titles": names, "told": told,
        "bound": [max(times, key=lambda kind: times[kind]) for times in spent],
        "time_fs": [result.time_fs] * len(names), "energy_J": [0.0] * len(names),
        "reasons": [
            [kind, look.color, [times.get(kind, 0) for times in spent]]
            for kind, look in KINDS.items() if any(times.get(kind) for times in spent)
        ],
        "categories": [],
    }  # fmt: skip


def _timeline(result: StepResult, names: list[str]) -> dict[str, Any]:
    texts, order = Texts(), list(KINDS)
    pieces = [(line, piece) for line, device in enumerate(result.devices) for piece in device.slices]
    row = np.array([line for line, _ in pieces], np.int64)
    start = np.array([piece.start_fs for _, piece in pieces], np.int64)
    end = np.array([piece.end_fs for _, piece in pieces], np.int64)
    kind = np.array([order.index(piece.kind) for _, piece in pieces], np.int64)
    found, gap = thinned(spans(row, start, end, kind), MOST, result.time_fs)
    rows = []
    for line, name in enumerate(names):
        low, high = np.searchsorted(found.row, [line, line + 1])
        mine = [pieces[index][1] for index in found.first[low:high].tolist()]
        times = result.devices[line].spent_fs
        busy = times.get("compute", 0) + times.get("recompute", 0)
        rows.append({
            "name": name, "told": True, "moves": True, "busy": percent(busy / result.time_fs),
            "start": deltas(found.start[low:high]), "span": (found.end[low:high] - found.start[low:high]).tolist(),
            "layer": [line] * len(mine),
            "label": [texts.number(f"{piece.kind} {piece.label}".strip()) for piece in mine],
            "tint": found.kind[low:high].tolist(), "colours": [look.color for look in KINDS.values()],
            "legend": [[name, look.color] for name, look in KINDS.items()] if not line else [],
        })  # fmt: skip
    left_out = found.joined - len(found.row)
    note = f"Slices of one kind that lie at most {seconds(gap)} apart are drawn as one." if left_out else ""
    return {"end": result.time_fs, "clock_fs": FINEST_FS, "rows": rows, "texts": texts.all(), "note": note}


def _memory(result: StepResult, names: list[str]) -> dict[str, Any]:
    """A map for each kind of device: bytes that stay, one above the other, and the stash above them."""
    memories = [
        _map(device, name, line, result.time_fs)
        for line, (device, name) in enumerate(zip(result.devices, names, strict=True))
    ]
    return {"end": result.time_fs, "memories": memories, "note": ""}


def _map(device: Device, name: str, line: int, end_fs: int) -> dict[str, Any]:
    kinds = [*device.memory.static_B, "stash"]
    looks = [HELD.get(kind, OTHER).color for kind in kinds]
    boxes, base = [], 0
    for number, size in enumerate(device.memory.static_B.values()):
        if size:
            boxes.append((0, end_fs, base, size, number))
        base += size
    times = [*map(int, device.memory.times_fs), end_fs]
    for begin, end, held in zip(times, times[1:], device.memory.stash_B, strict=False):
        if held and end > begin:
            boxes.append((begin, end, base, held, len(kinds) - 1))
    boxes.sort()
    columns = [list(column) for column in zip(*boxes, strict=True)]
    peak, room = device.memory.peak_B, device.capacity_B
    return {
        "name": name,
        "title": f"{name}: at most {show(peak, 'B', 3, binary=True)} of {show(room, 'B', 3, binary=True)} "
        f"({percent(peak / room)})",
        "axis": "bytes", "top": peak, "start": deltas(np.array(columns[0], np.int64)),
        "span": [end - begin for begin, end, *_ in boxes], "offset": columns[2], "size": columns[3],
        "layer": [line] * len(boxes), "tensor": columns[4], "place": columns[4], "texts": kinds, "colours": looks,
    }  # fmt: skip
