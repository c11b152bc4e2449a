"""Writes a training step on a cluster as a folder: figures, devices, timeline, a picture of where the time goes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.what_ifs import WhatIf
from accelsim.files import Make, as_bytes, text, write_folder
from accelsim.files.targets import check_folder
from accelsim.report.cluster import trace
from accelsim.report.cluster.pictures import parts_figure
from accelsim.report.plot import SUFFIXES
from accelsim.report.step import facts_of, records
from accelsim.report.style import picture

FACTS, DEVICES, TIMELINE, PLOT = "step.json", "devices.csv", "timeline.json.gz", "where_time_goes"
NAMES = (FACTS, DEVICES, TIMELINE, *(f"{PLOT}.{suffix}" for suffix in SUFFIXES))
"""All files."""


def check_target(folder: Path) -> None:
    """UsageError for a folder that cannot be written."""
    check_folder(folder, NAMES)


def write_step(result: StepResult, folder: Path, helps: Sequence[WhatIf] | None = None) -> Path:
    """Write everything into ``folder``, all of it or nothing. UsageError as ``check_target``."""
    check_target(folder)
    facts = json.dumps(facts_of(result, helps), indent=2, ensure_ascii=False, allow_nan=False)
    timeline = BytesIO()
    trace.write(result, timeline)
    makers: dict[str, Make] = {
        FACTS: text(facts + "\n"), DEVICES: text(_lines(result)), TIMELINE: as_bytes(timeline.getvalue()),
    }  # fmt: skip
    drawn = parts_figure([result])
    for suffix in SUFFIXES:
        file = BytesIO()
        picture(drawn, f".{suffix}")(file)
        makers[f"{PLOT}.{suffix}"] = as_bytes(file.getvalue())
    write_folder(folder, makers)
    return folder


def _lines(result: StepResult) -> str:
    rows = list(records(result))
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, names, restval=0, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
