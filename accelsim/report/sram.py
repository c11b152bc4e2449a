"""Answers about on-chip memories: what one costs, how accesses fare on its banks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from accelsim.report.answer import Answer, Field, Lines, Table
from accelsim.report.text import percent
from accelsim.units import show

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from accelsim.sram.banks import Conflicts
    from accelsim.sram.model import Residual, Sram
    from accelsim.sram.patterns import Pattern
    from accelsim.sram.terms import Point

FIGURES: tuple[tuple[str, str, str], ...] = (
    ("read of a word", "read_J", "J"), ("write of a word", "write_J", "J"), ("leakage", "leakage_W", "W"),
    ("access time", "access_s", "s"), ("cycle time of a bank", "cycle_s", "s"), ("area", "area_m2", "m²"),
)  # fmt: skip
"""Figures that are printed: words, field, unit."""
COSTS = (
    Field("figure", "figure"), Field("value", "value"), Field("median", "fit: median off", percent),
    Field("p90", "90th percentile off", percent),
)  # fmt: skip
TRUST = (
    "The fit is that of one bank with one port against CACTI's own points at the nearest node; CACTI is a "
    "model too, and its energies differ from published ones by up to a factor of 2."
)


def sram(asked: Mapping[str, Any], found: Sram, rest: Sequence[Residual], points: Sequence[Point]) -> Answer:
    """Report energy, leakage, time and area of a memory, each with the error of its fit."""
    fit = {each.quantity: {"median": each.quantile(0.5), "p90": each.quantile(0.9)} for each in rest}
    facts = {**asked, **asdict(found), "residual": fit}
    rows = [
        {"figure": words, "value": show(getattr(found, name), unit, 3), **fit[name]}
        for words, name, unit in FIGURES
    ]
    status = [f"\nStatus: {found.status}.", *([f"Note: {found.note}."] if found.note else [])]

    def picture() -> Figure:
        from accelsim.report.sram_plots import Asked, sweep

        return sweep(Asked(**asked), points)

    return Answer(facts, [Table(COSTS, rows), " ".join(status), TRUST], [facts], {"sram": picture})


CONFLICTS = (
    Field("interleaving", "interleaving"), Field("clocks", "clocks", "{:,}".format),
    Field("stalls", "stalls", "{:,}".format), Field("slowdown", "slowdown", "{:.2f}".format),
    Field("degrees", "worst clock", lambda degrees: str(max(degrees))),
    Field("words_per_clock", "words per clock", "{:.2f}".format),
)  # fmt: skip


def conflicts(pattern: Pattern, found: Mapping[str, Conflicts]) -> Answer:
    """Count how often accesses meet in one bank, by interleaving."""
    facts = {
        name: {
            "clocks": each.clocks, "stalls": each.stalls, "slowdown": float(each.slowdown),
            "conflicting_clocks": each.conflicting, "words": each.words, "words_per_clock": each.words_per_clock(),
            "degrees": each.degrees,
        }
        for name, each in found.items()
    }  # fmt: skip
    rows = [{"interleaving": name, **row} for name, row in facts.items()]
    line = Lines(f"{pattern.name}, {len(pattern.writes)} lanes of {pattern.element_B} B")
    return Answer(
        facts, [line, Table(CONFLICTS, rows)], [{**row, "degrees": str(row["degrees"])} for row in rows]
    )
