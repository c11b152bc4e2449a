"""Writes a training step on a cluster as a folder: page, figures, devices, timeline, pictures."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.cluster.step.asked import Ready
from accelsim.cluster.step.fusing import TunedStep
from accelsim.cluster.step.lasting import Lasting
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.scaling import weak_scaling
from accelsim.cluster.step.traffic import wire_bytes
from accelsim.cluster.step.what_ifs import WhatIf
from accelsim.files import Make, as_bytes, text, write_folder
from accelsim.report import fusing
from accelsim.report.cluster import trace
from accelsim.report.cluster.page import page_data
from accelsim.report.cluster.pictures import parts_caption, parts_figure, scaling_figure, scaling_sentence
from accelsim.report.cluster.topology import draw
from accelsim.report.page.data import packed
from accelsim.report.page.document import Entry, html
from accelsim.report.page.tables import Section, section
from accelsim.report.plot import SUFFIXES, pictures
from accelsim.report.step import facts_of, records, sentences
from accelsim.report.style import picture
from accelsim.report.write import STEP, STEP_PAGE, refuse_foreign

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTS, DEVICES, TIMELINE, PAGE = STEP, "devices.csv", "timeline.json.gz", STEP_PAGE
PLOTS = ("where_time_goes", "traffic", "scaling", "fusion")
NAMES = (PAGE, FACTS, DEVICES, TIMELINE, *(f"plots/{name}.{suffix}" for name in PLOTS for suffix in SUFFIXES))
"""All files; ``scaling`` only of several replicas, ``fusion`` only where it was tuned."""
TRAFFIC = "Bytes over each wire in a step; the thicker and the redder a line, the more its busier direction carried."


def check_target(folder: Path) -> None:
    """UsageError for a folder that cannot be written, or holds something that is no report of a step."""
    refuse_foreign(folder, NAMES, FACTS, "report of a training step")


def write_step(
    made: Ready,
    result: StepResult,
    folder: Path,
    helps: Sequence[WhatIf] | None = None,
    fused: TunedStep | None = None,
    whole: Lasting | None = None,
) -> Path:
    """Write everything into ``folder``, all of it or nothing; the same step gives the same bytes. The files of an
    earlier report are replaced. UsageError as ``check_target``."""
    check_target(folder)
    facts = json.dumps(facts_of(result, helps, fused, whole), indent=2, ensure_ascii=False, allow_nan=False)
    timeline = BytesIO()
    trace.write(result, timeline)
    figures = _figures(made, result, fused)
    told = [
        *sentences(result, helps, fused, whole),
        *(words for name, (_, words, _) in figures.items() if name == "scaling"),
    ]
    shown = [
        {"title": title, "caption": words, "svg": _svg(figure)} for title, words, figure in figures.values()
    ]
    data = page_data(result, told, shown, [] if fused is None else [_tuned(fused)])
    makers: dict[str, Make] = {
        PAGE: text(html([Entry(data, packed(data))])), FACTS: text(facts + "\n"), DEVICES: text(_lines(result)),
        TIMELINE: as_bytes(timeline.getvalue()),
    }  # fmt: skip
    for name, (_, _, drawn) in figures.items():
        makers |= {f"plots/{file}": as_bytes(made) for file, made in pictures(name, drawn).items()}
    write_folder(folder, makers, [name for name in NAMES if name not in makers])
    return folder


def _figures(made: Ready, result: StepResult, fused: TunedStep | None) -> dict[str, tuple[str, str, Figure]]:
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


def _svg(drawn: Figure) -> str:
    file = BytesIO()
    picture(drawn, ".svg")(file)
    return file.getvalue().decode()


def _lines(result: StepResult) -> str:
    rows = list(records(result))
    names = list(dict.fromkeys(name for row in rows for name in row))
    file: StringIO = io.StringIO(newline="")
    writer = csv.DictWriter(file, names, restval=0, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
