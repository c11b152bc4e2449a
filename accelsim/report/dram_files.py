"""Files of a replay, of a comparison and of the lessons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.explore.dram_compare import Row
from accelsim.explore.dram_replay import Replay
from accelsim.files import Make, text, write_folder
from accelsim.report import dram_plots
from accelsim.report.dram_activity import activity
from accelsim.report.dram_words import energy_sentences, limit_sentences
from accelsim.report.style import picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")


def pictures(figures: Mapping[str, Figure | None]) -> dict[str, Make]:
    """A PNG and an SVG of each figure that there is: name of the file -> its maker."""
    return {
        name + suffix: picture(drawn, suffix)
        for name, drawn in figures.items() if drawn is not None
        for suffix in SUFFIXES
    }  # fmt: skip


def as_json(facts: Any) -> str:
    """Facts as text, the same for the same facts."""
    return json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_replay(
    found: Replay, folder: Path, clocks: tuple[int, int] | None = None, channel: int = 0
) -> list[Path]:
    """summary.json and the plots of one replay; the activity of the banks between ``clocks`` of a channel."""
    timed = found.served.commands is not None
    figures = {
        "activity": activity(found, clocks, channel) if timed else None,
        "bus": dram_plots.bus([(found.trace_name, found)], dram_plots.bus_title(found)) if timed else None,
        "latency": dram_plots.latency(found),
    }
    words = {"limits": list(limit_sentences(found)), "energy_in_words": list(energy_sentences(found))}
    summary = as_json(found.as_dict() | words)
    return write_folder(folder, {"summary.json": text(summary), **pictures(figures)})


def write_compare(rows: Sequence[Row], folder: Path) -> list[Path]:
    """compare.json and the plots of a comparison."""
    figures = {"utilisation": dram_plots.utilisation(rows), "energy": dram_plots.energy(rows)}
    facts = as_json([row.as_dict() for row in rows])
    return write_folder(folder, {"compare.json": text(facts), **pictures(figures)})
