"""Everything about a run in one directory, all of it or nothing."""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from accelsim.account.critical_path import KEYS
from accelsim.account.energy import CATEGORIES, energy_table
from accelsim.account.latency import layers, shape_text, summary, traffic_by_memory
from accelsim.errors import Problem, UsageError
from accelsim.machine.run import Run
from accelsim.report import page, plot, trace

SUMMARY = "summary.json"
FILES = (SUMMARY, "layers.csv", "ledger.csv", "timeline.json.gz", "report.html", "plots")
"""What a report directory holds."""
FS = 1e-15


def write_run(run: Run, out_dir: str | Path) -> Path:
    """Write the whole report of ``run`` into ``out_dir``, return its path; same run, same bytes.

    The files are made in a directory beside it, which then takes its place: there never is half a report. The
    files of an earlier report are replaced, others in the same directory stay. UsageError when ``out_dir`` is
    a file, holds something that is no report, or cannot be written.
    """
    target = Path(out_dir)
    refuse_foreign(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as name:
            made = Path(name) / "report"
            made.mkdir()
            _write_files(run, made)
            _replace(target, made, Path(name) / "before")
    except OSError as error:
        problem = Problem(f"cannot write the report: {error.strerror or error}", where=str(target))
        raise UsageError(problem) from error
    return target


def refuse_foreign(target: Path) -> None:
    """UsageError when ``target`` is a file, a directory with something else than a report in it, or around our own."""
    if target.exists() and not target.is_dir():
        raise UsageError(Problem("is a file", where=str(target), expected="a directory for the report"))
    if Path.cwd().is_relative_to(target.resolve()):
        what, expected = "would be replaced while you are in it", "a directory of its own, such as report"
        raise UsageError(Problem(what, where=str(target), expected=expected))
    if target.is_dir() and any(target.iterdir()) and not is_report(target):
        expected = "a new or empty directory, or one that holds an earlier report"
        raise UsageError(Problem("is not empty and holds no report", where=str(target), expected=expected))


def is_report(folder: Path) -> bool:
    """Whether the directory was written by ``write_run``."""
    try:
        found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("tool") == "accelsim"


def _replace(target: Path, made: Path, before: Path) -> None:
    """Put ``made`` in the place of ``target``; what else lay there is carried over."""
    if not target.exists():
        made.rename(target)
        return
    for foreign in sorted(target.iterdir()):
        if foreign.name not in FILES:
            copy = shutil.copytree if foreign.is_dir() else shutil.copy2
            copy(foreign, made / foreign.name)
    os.chmod(made, target.stat().st_mode & 0o7777)  # noqa: PTH101
    target.rename(before)
    try:
        made.rename(target)
    except OSError:
        before.rename(target)
        raise


def _write_files(run: Run, folder: Path) -> None:
    rows, facts = layers(run), summary(run)
    text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
    _write_csv(folder / "layers.csv", *layer_records(run))
    _write_csv(folder / "ledger.csv", *ledger_records(run))
    trace.write(run, folder / "timeline.json.gz")
    plots = folder / "plots"
    plots.mkdir()
    plot.save_all(run, plots)
    pictures = {name: (plots / f"{name}.svg").read_text(encoding="utf-8") for name in plot.PLOTS}
    (folder / "report.html").write_text(page.html(run, rows, facts, pictures), encoding="utf-8")


def _write_csv(path: Path, header: Sequence[str], records: Iterable[Sequence[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(records)


def layer_records(run: Run) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of layers.csv: one row per step, all digits, the unit in the name of each column."""
    memories = list(traffic_by_memory(run))
    header = [
        "index",
        "name",
        "op",
        "engine",
        "output_shape",
        *(f"gemm_{size}" for size in ("groups", "M", "N", "K")),
    ]
    header += ["macs", "ops", "start_fs", "end_fs", "added_fs", "own_fs", "cycles", "utilisation", "bound_by"]
    header += [f"{key}_fs" for key in KEYS]
    header += [f"{name}_{way}_B" for name in memories for way in ("read", "write")]
    header += [f"energy_{category.replace(' ', '_')}_J" for category in CATEGORIES] + ["energy_J", "note"]
    records = []
    for layer in layers(run):
        gemm = layer.gemm
        sizes = [gemm.groups, gemm.M, gemm.N, gemm.K] if gemm else [""] * 4
        use = "" if layer.utilisation is None else layer.utilisation
        record = [layer.index + 1, layer.name, layer.label, layer.engine, shape_text(layer.out_shape), *sizes,
                  layer.macs, layer.ops, layer.start_fs, layer.end_fs, layer.added_fs, layer.own_fs, layer.cycles, use,
                  layer.bound_key]  # fmt: skip
        record += [layer.reasons.get(key, 0) for key in KEYS]
        record += [count for name in memories for count in layer.traffic_B.get(name, (0, 0))]
        record += [layer.energy_by_category_J.get(category, 0.0) for category in CATEGORIES]
        records.append([*record, layer.energy_J, layer.note])
    return header, records


def ledger_records(run: Run) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of ledger.csv: every action with its count and energy; static power counts fs."""
    header = ["component", "action", "layer", "tensor", "count", "energy_J"]
    records = [
        [row.component, row.action, row.op + 1 if row.op >= 0 else "", row.tensor, row.count, row.energy_J]
        for row in energy_table(run)
    ]
    return header, records
