"""Answers about kernels that run alone: one of them, or one while a size grows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.errors import count_of
from accelsim.kernels import sweep
from accelsim.kernels.predict import Kernels
from accelsim.kernels.told import ends, interval_sentences, sentences
from accelsim.report.answer import Answer, Field, Part, Table
from accelsim.units import show

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def alone(kernels: Kernels) -> Answer:
    """Report one kernel: tile, parts of K, waves, the part that binds, time with its interval."""
    found = kernels.predicted(kernels.chip)
    interval, times = ends(kernels, found), found.times
    seconds, low, high = (float(each[0]) for each in (times.seconds, interval.low, interval.high))
    cells, spread = kernels.table.cells[0], str(interval.spread[0])
    facts: dict[str, Any] = {
        "chip": kernels.chip.name, **cells, "predicted_us": seconds * 1e6, "low_us": low * 1e6, "high_us": high * 1e6,
        "calibrated": bool(interval.calibrated[0]), "interval": spread, "tile": str(times.tile[0]),
        "split": int(times.splits[0]), "waves": float(times.waves[0]), "binds": str(times.binds[0]),
        "bound_us": float(times.bound[0]) * 1e6,
    }  # fmt: skip
    rows = [
        (
            "sizes",
            ", ".join(f"{name} {value}" for name, value in cells.items() if name not in ("op", "dtype")),
        ),
        ("time", f"{show(seconds, 's', 3)}, 90 %: {show(low, 's', 3)} to {show(high, 's', 3)}"),
    ]
    if facts["tile"]:
        parts = "parts of the keys" if kernels.table.groups[0].family == "attention" else "parts of K"
        rows += [("tile", facts["tile"]), (parts, str(facts["split"])), ("waves", f"{facts['waves']:.3g}")]
    fields = (Field("what", cells["op"]), Field("value", f"{cells['dtype']} on {kernels.chip.title}"))
    table = Table(
        fields, [{"what": what, "value": value} for what, value in [*rows, ("binds", facts["binds"])]]
    )
    told = [*sentences(kernels, found, 0), *interval_sentences(kernels.chip, spread)]
    return Answer(facts, [table, "", " ".join(told)])


def growing(found: sweep.Sweep, table: Path | None) -> Answer:
    """Report a kernel while a size grows; its times were written to ``table``."""

    def picture() -> Figure:
        from accelsim.report.kernel_plot import staircase

        return staircase(found)

    written: list[Part] = [] if table is None else [f"{count_of(len(found.sizes), 'kernel')}: {table}"]
    return Answer({}, [" ".join(sweep.sentences(found)), *written], pictures={"staircase": picture})
