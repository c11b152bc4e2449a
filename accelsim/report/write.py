"""Everything about a run in one directory, all of it or nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelsim.account.categories import CATEGORIES
from accelsim.account.critical_path import keys_of
from accelsim.account.energy import energy_table
from accelsim.account.latency import layers, shape_text, summary, traffic_by_level, traffic_by_memory
from accelsim.errors import UsageError
from accelsim.explore.what_ifs import WhatIf
from accelsim.files import Make, as_bytes, check_folder, is_empty, text, write_folder
from accelsim.files import table as csv_table
from accelsim.files.reading import read_text
from accelsim.machine.run import Run
from accelsim.report.page import PAGE

SUMMARY = "summary.json"
MOST_FACTS_B = 2**26
"""Bytes of a summary that is read: 64 MiB; one takes some KiB."""
STEP, STEP_PAGE = "step.json", "report.html"
"""Files that mark the report of a training step on a cluster: its figures and its page."""
FILES = (SUMMARY, "layers.csv", "ledger.csv", "timeline.json.gz", PAGE, "report.html")
"""Files of a report directory, beside plots."""
FIGURES = ("macs", "ops", "start_fs", "end_fs", "added_fs", "own_fs", "cycles", "utilisation")
"""Figures of a layer that stand in its file as they are."""


def write_run(run: Run, out_dir: str | Path, what_ifs: Sequence[WhatIf] | None = None) -> Path:
    """Write the whole report of ``run`` into ``out_dir``, return its path; same run, same bytes.

    ``what_ifs``: changes that were tried (``accelsim.what_ifs``), None where none were asked for.

    The files are made first, then they take their places; an interrupt never leaves half a report. The files of an
    earlier report are replaced, all others in the directory stay. UsageError when ``out_dir`` is a file, holds
    something that is no report, or cannot be written.
    """
    target = Path(out_dir)
    refuse_foreign(target)
    write_folder(target, report_files(run, what_ifs))
    return target


def refuse_foreign(target: Path, names: Sequence[str] = (), facts: str = SUMMARY, what: str = "report") -> None:
    """Raise UsageError where no report can be written into ``target``, or it holds something that is no report.

    Of reports of another kind: all their files, the one with the figures, and what they are called.
    """
    check_folder(target, names or file_names())
    if target.is_dir() and not is_empty(target) and not is_report(target, facts):
        expected = f"a new or empty directory, or one that holds an earlier {what}"
        raise UsageError(f"is not empty and holds no {what}", where=str(target), expected=expected)


def file_names() -> list[str]:
    """Return every file of a report, as a path in its directory."""
    from accelsim.report import plot

    return [*FILES, *(f"plots/{name}.{suffix}" for name in plot.PLOTS for suffix in plot.SUFFIXES)]


def is_report(folder: Path, facts: str = SUMMARY) -> bool:
    """Return whether the directory holds a report, whose figures are in the file ``facts``."""
    try:
        found = json.loads(read_text(folder / facts, MOST_FACTS_B))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("tool") == "accelsim"


def report_files(run: Run, what_ifs: Sequence[WhatIf] | None = None) -> dict[str, Make | None]:
    """Return what makes each file of the report; None for a plot that would be empty."""
    from accelsim.report import plot, trace
    from accelsim.report.page.data import packed, page_data
    from accelsim.report.page.document import Entry, html

    rows, facts = layers(run), facts_of(run, what_ifs)
    plots = plot.declared(run)
    data = page_data(run, rows, facts, plots)
    shown = packed(data)
    makers = (
        text(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n"),
        csv_table(*layer_records(run)),
        csv_table(*ledger_records(run)),
        lambda file: trace.write(run, file),
        as_bytes(shown),
        text(html([Entry(data, shown)])),
    )
    drawn = {f"plots/{name}": as_bytes(content) for name, content in plot.all_bytes(plots).items()}
    return dict.fromkeys(file_names()) | dict(zip(FILES, makers, strict=True)) | drawn


def facts_of(run: Run, what_ifs: Sequence[WhatIf] | None) -> dict[str, object]:
    """Return the summary with the changes that were tried; 'what_ifs' is None where none were asked for."""
    return summary(run) | {"what_ifs": None if what_ifs is None else [what.as_dict() for what in what_ifs]}


def layer_records(run: Run) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows of layers.csv: one row per step, all digits, the unit in the name of each column."""
    memories = [*traffic_by_memory(run), *traffic_by_level(run)]
    header = ["index", "number", "edge", "name", "title", "stage", "op", "engine", "output_shape"]
    header += [*(f"gemm_{size}" for size in ("groups", "M", "N", "K")), *FIGURES, "bound_by"]
    keys = keys_of(run)
    header += [f"{key}_fs" for key in keys]
    header += [f"{name}_{way}_B" for name in memories for way in ("read", "write")]
    header += [f"energy_{category.replace(' ', '_')}_J" for category in CATEGORIES] + ["energy_J", "note"]
    records = []
    for layer in layers(run):
        gemm = layer.gemm
        sizes = [gemm.groups, gemm.M, gemm.N, gemm.K] if gemm else [""] * 4
        record = [layer.index + 1, layer.number or "", layer.edge, layer.name, layer.title, layer.stage, layer.label,
                  layer.engine, shape_text(layer.out_shape), *sizes, *(getattr(layer, name) for name in FIGURES),
                  layer.bound_key]  # fmt: skip
        record += [layer.reasons.get(key, 0) for key in keys]
        moved = layer.traffic_B | layer.level_B
        record += [count for name in memories for count in moved.get(name, (0, 0))]
        record += [layer.energy_by_category_J.get(category, 0.0) for category in CATEGORIES]
        records.append([*record, layer.energy_J, layer.note])
    return header, records


def ledger_records(run: Run) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows of ledger.csv: every action with its count and energy; static power counts fs."""
    header = ["component", "action", "layer", "tensor", "count", "energy_J"]
    records = [
        [row.component, row.action, row.op + 1 if row.op >= 0 else "", row.tensor, row.count, row.energy_J]
        for row in energy_table(run)
    ]
    return header, records
