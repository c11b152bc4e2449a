"""Writes a training step on a cluster as a folder: page, figures, devices, timeline, pictures."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from accelsim import files
from accelsim.cluster.step.asked import Asked, Ready, ready
from accelsim.cluster.step.energy import wire_bytes
from accelsim.cluster.step.fusing import TunedStep, tuned
from accelsim.cluster.step.result import PARTS as MEANING
from accelsim.cluster.step.result import Device, StepResult, lasting
from accelsim.cluster.step.search import what_ifs
from accelsim.cluster.step.step import weak_scaling
from accelsim.errors import count_of
from accelsim.files import Make, as_bytes, text
from accelsim.report import fusing
from accelsim.report.answer import Answer
from accelsim.report.cluster.looks import PARTS, device_names
from accelsim.report.cluster.page import page_data
from accelsim.report.cluster.topology import draw
from accelsim.report.page.data import packed, section
from accelsim.report.page.document import Entry, html
from accelsim.report.page.form import Section
from accelsim.report.picture import Axis, Panel, Picture, line, note, stacked
from accelsim.report.plot import SUFFIXES, pictures
from accelsim.report.step import StepReport, records
from accelsim.report.style import BLUE, GREY
from accelsim.report.text import percent, si
from accelsim.report.write import STEP, STEP_PAGE, refuse_foreign
from accelsim.time import FS

FACTS, DEVICES, TIMELINE, PAGE = STEP, "devices.csv", "timeline.json.gz", STEP_PAGE
PLOTS = ("where_time_goes", "traffic", "scaling", "fusion")
NAMES = (PAGE, FACTS, DEVICES, TIMELINE, *(f"plots/{name}.{suffix}" for name in PLOTS for suffix in SUFFIXES))
"""All files; ``scaling`` only of several replicas, ``fusion`` only where it was tuned."""
TRAFFIC = "Bytes over each wire in a step; the thicker and the redder a line, the more its busier direction carried."


def check_target(folder: Path) -> None:
    """Raise UsageError where no report of a step can be written into the directory."""
    refuse_foreign(folder, NAMES, FACTS, "report of a training step")


def answer(
    wanted: Asked, out: Path | None, advice: bool, tune: bool, tokens: int | None, stage: Callable[[str, float], None]
) -> Answer:
    """Simulate a training step, and report it.

    ``out``: directory of the report; ``advice``: simulate changes too; ``tune``: search how to fuse gradients;
    ``tokens``: of a whole training. Raises UsageError, SpecError, ModelError and OutOfMemory.
    """
    stage("read", 0.0)
    made = ready(wanted)
    stage("simulate", 0.0)
    made, result = made.fitted()
    helps = grouped = None
    if advice:
        stage("what if", 0.0)
        helps = what_ifs(made, result, lambda share: stage("what if", share))
    if tune:
        stage("tune", 0.0)
        grouped = tuned(made)
    report = StepReport(result, helps, grouped, None if tokens is None else lasting(result, tokens))
    return report.answer({} if out is None else {out: step_files(made, report)})


def step_files(made: Ready, report: StepReport) -> dict[str, Make | None]:
    """Return what makes each file of the report; None for a picture that it lacks."""
    result, fused = report.result, report.fused
    facts = json.dumps(report.facts(), indent=2, ensure_ascii=False, allow_nan=False)
    figures = _figures(made, result, fused)
    told = [*report.sentences(), *(words for name, (_, words, _) in figures.items() if name == "scaling")]
    data = page_data(result, told, figures, [] if fused is None else [_tuned(fused)])
    makers: dict[str, Make | None] = dict.fromkeys(NAMES)
    makers |= {PAGE: text(html([Entry(data, packed(data))])), FACTS: text(facts + "\n")}
    makers |= {DEVICES: files.records(_devices(result)), TIMELINE: partial(write_trace, result)}
    for name, (_, _, drawn) in figures.items():
        makers |= {f"plots/{file}": as_bytes(made) for file, made in pictures(name, drawn).items()}
    return makers


def _figures(made: Ready, result: StepResult, fused: TunedStep | None) -> dict[str, tuple[str, str, Picture]]:
    """Name -> title, caption and figure of each picture."""
    found = {"where_time_goes": ("Where the step goes", parts_caption(result), parts_figure([result]))}
    if made.fleet.topology.wires:
        moved = [round(size) for size in wire_bytes(*made)]
        found["traffic"] = ("Traffic", TRAFFIC, draw(made.fleet.topology, moved))
    if made.plan.dp > 1:
        steps = weak_scaling(*made)
        found["scaling"] = ("More replicas", scaling_sentence(steps), scaling_figure(steps))
    if fused is not None:
        found["fusion"] = ("Fused gradients", fusing.sentences(fused)[0], fusing.plot(fused))
    return found


def _tuned(fused: TunedStep) -> Section:
    names, rows = fusing.headers(fused), fusing.rows(fused)
    return section(
        f"Fused gradients by {' and '.join(names[::3])} ({fusing.BEST}: the best)", names, rows, (1, 2, 4, 5)
    )


def _devices(result: StepResult) -> list[dict[str, object]]:
    """Rows of the file of devices; what a device lacks is 0."""
    rows = list(records(result))
    names = dict.fromkeys((name for row in rows for name in row), 0)
    return [names | row for row in rows]


LEAST = 0.04
"""Share of the step from which a part has its number written on it."""


def parts_figure(results: Sequence[StepResult], labels: Sequence[str] = ()) -> Picture:
    """Draw a bar for each step, of the parts that its time goes to; they add up to the step."""
    one, named = results[0], labels or [str(result.plan) for result in results]
    series = {name: [result.parts_fs[name] * FS for result in results] for name in PARTS}
    marks = stacked(range(len(results)), series, PARTS, {}, flat=True, wide=0.7)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    marks += [
        note(start + width / 2, row, percent(width / results[row].time_s), side="center", bbox=box)
        for mark in marks
        for row, (start, width) in enumerate(zip(mark.base, mark.x, strict=True))
        if width >= LEAST * results[row].time_s
    ]
    x, title = Axis("time of a step", "s"), f"Where a step of {one.model} on {one.cluster} goes"
    return Picture(1.7 + 0.45 * len(results), [Panel(title, marks, x, Axis(names=named))], legend=len(PARTS))


def parts_caption(result: StepResult) -> str:
    """Return what the parts are, those that the step has."""
    told = [f"{name}: {MEANING[name]}" for name, fs in result.parts_fs.items() if fs]
    return "Parts add up to the step. " + "; ".join(told) + "."


def scaling_figure(results: Sequence[StepResult]) -> Picture:
    """Draw samples per second against devices, and how much of the first step's rate per device is left."""
    counts, rates = [result.plan.devices for result in results], [result.samples_per_s for result in results]
    ideal = [rates[0] / counts[0] * count for count in counts]
    shares, last = [100 * rate / most for rate, most in zip(rates, ideal, strict=True)], results[-1]
    marks = [
        line(counts, ideal, "as many times as devices", GREY, "--"),
        line(counts, rates, "simulated", BLUE, marker="o"),
    ]
    x = Axis("devices", scale="log2", names={count: f"{count:,}" for count in counts})
    rate, left = (
        Axis(f"{last.unit} per second", scale="log"),
        Axis("scaling efficiency (%)", low=0, high=1.05 * max(100.0, *shares)),
    )
    caption = f"{last.model}, {last.batch // last.plan.dp:,} {last.unit} a replica"
    panels = [
        Panel("More replicas, each with the same batch", marks, x, rate, caption, "both", inside=True),
        Panel("", [line(counts, shares, "", BLUE, marker="o")], x, left, grid="both"),
    ]
    return Picture(3.2, panels, across=2)


def scaling_sentence(results: Sequence[StepResult]) -> str:
    """Return what the picture says."""
    one, many = results[0], results[-1]
    share = many.samples_per_s / many.plan.devices / (one.samples_per_s / one.plan.devices)
    return (
        f"From {count_of(one.plan.devices, 'device')} to {many.plan.devices:,} the rate grows from "
        f"{si(one.samples_per_s)} to {si(many.samples_per_s)} {many.unit} per second: "
        f"a scaling efficiency of {percent(share)}."
    )


FS_PER_US = 1e9
Event = dict[str, object]


def events(result: StepResult) -> Iterator[Event]:
    """Yield all events: what each device did, and what it held of each kind."""
    for pid, (device, name) in enumerate(zip(result.devices, device_names(result), strict=True), 1):
        yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": pid}}
        yield {"ph": "M", "pid": pid, "tid": 1, "name": "thread_name", "args": {"name": device.chip}}
        for piece in device.slices:
            if piece.kind != "wait":
                yield {
                    "ph": "X",
                    "pid": pid,
                    "tid": 1,
                    "name": piece.label or piece.kind,
                    "cat": piece.kind,
                    "ts": piece.start_fs / FS_PER_US,
                    "dur": (piece.end_fs - piece.start_fs) / FS_PER_US,
                }
        yield from _memory(pid, device)


def _memory(pid: int, device: Device) -> Iterator[Event]:
    for time, stash in zip(device.memory.times_fs, device.memory.stash_B, strict=True):
        held = {**device.memory.static_B, "stash": stash}
        yield {"ph": "C", "pid": pid, "name": "memory (B)", "ts": float(time) / FS_PER_US, "args": held}


def write_trace(result: StepResult, file: IO[bytes]) -> None:
    """Write the gzipped file; the same step gives the same bytes."""
    about = {"cluster": result.cluster, "model": result.model, "plan": str(result.plan)}
    whole = {"displayTimeUnit": "ns", "otherData": about, "traceEvents": list(events(result))}
    with gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
        packed.write(json.dumps(whole, separators=(",", ":")).encode())
