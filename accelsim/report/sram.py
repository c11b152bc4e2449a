"""Answers about on-chip memories: what one costs, how accesses fare on its banks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.report.answer import Answer, Field, Lines, Part, Table
from accelsim.report.picture import Axis, Panel, Picture, line, points
from accelsim.report.style import BLUE, GREEN, GREY, INK, ORANGE, VERMILLION
from accelsim.report.text import percent
from accelsim.sram import model
from accelsim.sram.model import residuals
from accelsim.sram.terms import CACTI, Point, read_points
from accelsim.units import show

if TYPE_CHECKING:
    from accelsim.sram.banks import Conflicts
    from accelsim.sram.patterns import Pattern

FIGURES: tuple[tuple[str, str, str], ...] = (
    ("read of a word", "read_J", "J"),
    ("write of a word", "write_J", "J"),
    ("leakage", "leakage_W", "W"),
    ("access time", "access_s", "s"),
    ("cycle time of a bank", "cycle_s", "s"),
    ("area", "area_m2", "m²"),
)
"""Figures that are printed: words, field, unit."""
COSTS = (
    Field("figure", "figure"),
    Field("value", "value"),
    Field("median", "fit: median off", percent),
    Field("p90", "90th percentile off", percent),
)
SETUP = ("word_bits", "ports", "banks", "node_nm", "cell")
"""Arguments of the model beside the capacity."""
TRUST = (
    "The fit is that of one bank with one port against CACTI's own points at the nearest node; CACTI is a "
    "model too, and its energies differ from published ones by up to a factor of 2."
)


def sram(capacity_B: int, **setup: Any) -> Answer:
    """Report energy, leakage, time and area of a memory, each with the error of its fit.

    ``setup``: word_bits, ports, banks, node_nm, cell, as for ``accelsim.sram.model.sram``, whose errors it raises.
    """
    asked = {"capacity_B": capacity_B, **{name: setup[name] for name in SETUP}}
    found, cacti, node_nm = model.sram(**asked), read_points(CACTI), setup["node_nm"]
    nearest = min({point.node_nm for point in cacti}, key=lambda each: (abs(each - node_nm), each))
    rest = residuals([point for point in cacti if (point.node_nm, point.cell) == (nearest, setup["cell"])])
    fit = {each.quantity: {"median": each.quantile(0.5), "p90": each.quantile(0.9)} for each in rest}
    facts = {**asked, **asdict(found), "residual": fit}
    rows = [
        {"figure": words, "value": show(getattr(found, name), unit, 3), **fit[name]} for words, name, unit in FIGURES
    ]
    status = [f"\nStatus: {found.status}.", *([f"Note: {found.note}."] if found.note else [])]
    shown: list[Part] = [Table(COSTS, rows), " ".join(status), TRUST]
    return Answer(facts, shown, [facts], {"sram": partial(by_capacity, asked, cacti)})


PANELS = (
    ("Energy of an access", "pJ", 1e12, (("read_J", "read", BLUE, "o"), ("write_J", "write", ORANGE, "s"))),
    ("Time", "ns", 1e9, (("access_s", "access", BLUE, "o"), ("cycle_s", "cycle", ORANGE, "s"))),
    ("Leakage", "mW", 1e3, (("leakage_W", "channels and gates", VERMILLION, "o"),)),
    ("Area", "mm²", 1e6, (("area_m2", "area", GREEN, "o"),)),
)
"""Panels: title, unit of the axis, factor from SI to it, and (field of ``Sram``, label, colour, mark)."""


def by_capacity(asked: Mapping[str, Any], cacti: Sequence[Point]) -> Picture:
    """Draw four panels over the capacity: curves of the model, a star at the capacity asked for, points of CACTI.

    ``cacti``: points of one bank and port. Only those of the node, cell and word width of ``asked`` are drawn, and none
    where it has more banks or ports, since they are other memories.
    """
    node, cell, bits, banks, ports = (asked[k] for k in ("node_nm", "cell", "word_bits", "banks", "ports"))
    own = [p for p in cacti if banks == ports == 1 and (p.node_nm, p.cell, p.word_bits) == (node, cell, bits)]
    at, least = asked["capacity_B"], max(model.SMALLEST_B, banks * bits // 8)
    low, high = min(least, at), max(model.LARGEST_B, at)
    capacities = np.geomspace(low, high, 60)
    curves = [model.sram(**{**asked, "capacity_B": float(capacity)}) for capacity in capacities]
    star, every = model.sram(**asked), [2.0**power for power in range(int(log2(low)), int(log2(high)) + 1, 4)]
    sizes = Axis("capacity of the memory", scale="log2", names={size: _binary(size) for size in every})
    panels = []
    for title, unit, factor, lines in PANELS:
        marks = []
        for name, label, color, marker in lines:
            here = factor * getattr(star, name)
            values = [factor * getattr(memory, name) for memory in curves]
            known = [factor * p.values[name] for p in own]
            marks += [
                line(capacities, values, f"{label}: {here:.3g} {unit}", color),
                points([at], [here], "", color, "*", markersize=13, markeredgecolor=INK),
                points([p.capacity_B for p in own], known, "", color, marker, markersize=4, alpha=0.6, mew=0),
            ]
        marks += [points([], [], "CACTI", GREY, markersize=4)] if own else []
        y = Axis(unit, scale="log", text="{:g}".format)
        panels.append(Panel(title, marks, sizes, y, f"star and figures: {_binary(at)}", "both", inside=True))
    counts = [f"{count} {name}s" if count > 1 else f"one {name}" for count, name in ((banks, "bank"), (ports, "port"))]
    title = f"SRAM: {node:g} nm, {cell}, words of {bits} bits, {', '.join(counts)}"
    return Picture(6.4, panels, title, across=2, share="x")


def _binary(size_B: float) -> str:
    return show(size_B, "B", 3, binary=True)


CONFLICTS = (
    Field("interleaving", "interleaving"),
    Field("clocks", "clocks", "{:,}".format),
    Field("stalls", "stalls", "{:,}".format),
    Field("slowdown", "slowdown", "{:.2f}".format),
    Field("degrees", "worst clock", lambda degrees: str(max(degrees))),
    Field("words_per_clock", "words per clock", "{:.2f}".format),
)


def conflicts(pattern: Pattern, found: Mapping[str, Conflicts]) -> Answer:
    """Count how often accesses meet in one bank, by interleaving."""
    facts = {
        name: {
            "clocks": each.clocks,
            "stalls": each.stalls,
            "slowdown": float(each.slowdown),
            "conflicting_clocks": each.conflicting,
            "words": each.words,
            "words_per_clock": each.words_per_clock(),
            "degrees": each.degrees,
        }
        for name, each in found.items()
    }
    rows = [{"interleaving": name, **row} for name, row in facts.items()]
    line = Lines(f"{pattern.name}, {len(pattern.writes)} lanes of {pattern.element_B} B")
    return Answer(facts, [line, Table(CONFLICTS, rows)], [{**row, "degrees": str(row["degrees"])} for row in rows])
