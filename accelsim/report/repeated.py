"""The answer about a saved run that was repeated: what has changed since, and which figures differ."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from accelsim.files import Make
from accelsim.report.answer import Answer, Lines, Part, flat
from accelsim.report.table import text_table
from accelsim.report.text import Facts
from accelsim.request import differences, how_to_repeat

MOST = 12
"""Figures that differ which are named."""


def repeated(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    asked: Mapping[str, Any],
    files: Mapping[Path, Mapping[str, Make | None]],
) -> Answer:
    """Compare the summaries of a saved run and of the one that repeats it; fails where a figure differs.

    ``asked``: record of the new run; ``files``: its report, which is written.
    """
    changed = differences(before["run"], asked)
    old, new = _figures(before), _figures(now)
    differing = [(path, old.get(path), new.get(path)) for path in old | new if old.get(path) != new.get(path)]
    facts = {"equal": not differing, "command": asked["command"], "changed": changed, "differing": differing}
    kept = ["Chip, model, files and versions are what they were."]
    lines = [f"Repeated: {how_to_repeat(asked)}", *(changed or kept)]
    if not differing:
        lines.append("Every figure of the summary is what it was.")
    shown: list[Part] = [Lines("\n".join(lines))]
    if differing:
        shown.append(partial(text_table, ("figure", "then", "now"), [tuple(map(str, row)) for row in differing[:MOST]]))
    if len(differing) > MOST:
        shown.append(f"{MOST} of {len(differing)} figures that differ.")
    return Answer(facts, shown, other_files=files, fails=bool(differing))


def _figures(summary: Mapping[str, Any]) -> Facts:
    """Every figure under its path; what only says how the run was asked for is left out."""

    own = {key: value for key, value in summary.items() if key not in ("run", "tool_version")}
    if own.get("what_ifs"):
        own["what_ifs"] = {str(number): part for number, part in enumerate(own["what_ifs"], 1)}
    return flat(own)
