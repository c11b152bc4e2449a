"""Files of a replay, of a comparison and of the lessons: each made beside its place, then renamed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.errors import Problem, UsageError
from accelsim.explore.dram_compare import Row
from accelsim.explore.dram_replay import Replay
from accelsim.report import dram_plots
from accelsim.report.dram_activity import activity
from accelsim.report.dram_words import energy_sentences, limit_sentences
from accelsim.report.style import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
Make = Callable[[Path], object]


def write_files(folder: Path, makers: dict[str, Make]) -> list[Path]:
    """Make every file (name -> function of its path) in a directory beside, then move all into ``folder``.

    When one cannot be made, nothing in ``folder`` changes. UsageError when ``folder`` is a file or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(Problem("is a file", str(folder), "a directory"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as name:
            for file, make in makers.items():
                make(Path(name) / file)
            folder.mkdir(exist_ok=True)
            for file in makers:
                (Path(name) / file).replace(folder / file)
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise UsageError(Problem(what, str(folder), "a directory where files can be made")) from error
    return [folder / file for file in makers]


def _pictures(figures: dict[str, Figure | None]) -> Iterator[tuple[str, Make]]:
    for name, drawn in figures.items():
        if drawn is not None:
            for suffix in SUFFIXES:
                yield name + suffix, _saver(drawn)


def _saver(drawn: Figure) -> Make:
    return lambda path: save(drawn, path)


def _text(content: str) -> Make:
    return lambda path: path.write_text(content, encoding="utf-8")


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
    return write_files(folder, {"summary.json": _text(summary), **dict(_pictures(figures))})


def write_compare(rows: Sequence[Row], folder: Path) -> list[Path]:
    """compare.json and the plots of a comparison."""
    figures = {"utilisation": dram_plots.utilisation(rows), "energy": dram_plots.energy(rows)}
    text = as_json([row.as_dict() for row in rows])
    return write_files(folder, {"compare.json": _text(text), **dict(_pictures(figures))})
