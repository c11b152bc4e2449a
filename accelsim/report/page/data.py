"""What the page of a run shows, as data: kept beside the other files of a run, so that pages can be made again."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

from accelsim.account.latency import Layer
from accelsim.machine.run import Run
from accelsim.report.array_frames import array_frames
from accelsim.report.page.buffers import buffers
from accelsim.report.page.joules import joules
from accelsim.report.page.layers import Lines, layer_lines, lines_of, roofs
from accelsim.report.page.tables import first, last
from accelsim.report.page.timeline import timeline
from accelsim.report.words import sentences

FORMAT, VERSION = "accelsim page", 1
"""What the data say they are. A change of what a key means is a new version."""

PARTS: dict[str, Callable[[Run, Lines], Any]] = {
    "layers": layer_lines,
    "rooflines": roofs,
    "timeline": timeline,
    "buffers": buffers,
    "joules": joules,
    "array": lambda run, _: array_frames(run),
}
"""Key of the data -> what makes it; None where a run has nothing to show."""


def page_data(
    run: Run, layers: Sequence[Layer], summary: dict[str, Any], plots: Sequence[str] = ()
) -> dict[str, Any]:
    """All that the page shows; ``plots``: names of the pictures beside it. JSON can hold it."""
    lines = lines_of(run, layers)
    return {
        "format": FORMAT,
        "version": VERSION,
        "tool_version": summary["tool_version"],
        "title": f"{summary['model']} on {summary['chip_title']}",
        "sentences": list(sentences(run, layers, summary)),
        "first": first(run, summary),
        **{key: make(run, lines) for key, make in PARTS.items()},
        "last": last(run, summary),
        "notes": list(summary["notes"]),
        "plots": list(plots),
    }


def packed(data: dict[str, Any]) -> bytes:
    """The data as the file holds them: JSON, gzip without name and time; the same data give the same bytes."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    file = io.BytesIO()
    with gzip.GzipFile("", "wb", mtime=0, fileobj=file) as stream:
        stream.write(text.encode())
    return file.getvalue()
