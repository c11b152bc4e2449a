"""The answer about energy per action: by node and by source, and where sources disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from accelsim.account.energy_figures import WORD_BITS, Figure, spread
from accelsim.report.answer import Answer, Field, Lines, Part, Table
from accelsim.report.picture import Axis, Panel, Picture, line, note, points
from accelsim.report.style import BLUE, GREEN, ORANGE, SKY, VERMILLION
from accelsim.report.text import si

DISAGREE = 1.2
"""Factor between sources from which on they are shown as disagreeing."""
MARKS = {"secondary": "quoted", "recalled": "recalled", "guess": "guess"}
"""Status -> what stands beside a figure in the tables of the terminal; nothing beside the others."""
MOST_COLUMNS = 4
"""Sources that a table of the terminal has a column for; more are listed one below the other."""
SECTIONS = (
    ("Arithmetic (spec tables)", ("arithmetic",), True),
    ("Arithmetic (published)", ("arithmetic",), False),
    ("Registers and SRAM, 32-bit word (spec tables)", ("register", "network", "SRAM"), True),
    ("Registers and SRAM, 32-bit word (published)", ("register", "SRAM"), False),
    ("DRAM, 32-bit word", ("DRAM",), None),
    ("Links, 32-bit word", ("link",), None),
    ("Wires, 32-bit word over 1 mm", ("wire",), None),
)
"""Title, components, and whether of energy tables (None: either)."""


def _value(figure: Figure, energy_J: float) -> str:
    """pJ per operation or per word of 32 bits, three digits."""
    value = energy_J * 1e12 * (1 if figure.per == "operation" else WORD_BITS)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    low, high = _value(figure, figure.low_J), _value(figure, figure.high_J)
    text = low if low == high else f"{low} to {high}"
    return " ".join(part for part in (text, MARKS.get(figure.status, "")) if part)


def _short(origin: str) -> str:
    return origin.removeprefix("energy/")


LISTED = (Field("what", " "), Field("figure", "energy", _cell), Field("node", "node"), Field("origin", "from"))
SPREAD = (Field("what", " "), Field("factor", "factor"), Field("low", "lowest"), Field("high", "highest"))


def energies(found: Sequence[Figure]) -> Answer:
    """Report energy per action, section by section, and where sources disagree."""
    facts = [figure.as_dict() for figure in found]
    words = ", ".join(mark if mark == status else f"{mark} = {status}" for status, mark in MARKS.items())
    rows = [
        {
            "what": row.what,
            "factor": f"{row.factor:.1f}x",
            "low": f"{_value(row.low, row.low.low_J)} {_short(row.low.origin)}",
            "high": f"{_value(row.high, row.high.high_J)} {_short(row.high.origin)}",
        }
        for row in spread(found)
        if row.factor >= DISAGREE
    ]
    shown: list[Part] = [
        *(part for title, figures in _sections(found) for part in (f"{title}, pJ", _table(figures), "")),
        "Where sources disagree (nodes alike)",
        Table(SPREAD, rows),
        Lines(f"\nBeside a figure: {words}; no word: verified, measured or derived from such."),
    ]
    pictures = {"energy-per-access": partial(per_access, found)}
    return Answer(facts, shown, facts, pictures, ["energy.json", "energy.csv"])


def _sections(found: Sequence[Figure]) -> Iterator[tuple[str, list[Figure]]]:
    for title, components, of_table in SECTIONS:
        rows = [
            figure
            for figure in found
            if figure.component in components and (of_table is None or _is_table(figure) == of_table)
        ]
        if rows:
            yield title, rows


def _is_table(figure: Figure) -> bool:
    return figure.origin.startswith("energy/") or " scaled: " in figure.origin


def _table(figures: Sequence[Figure]) -> Table:
    """A column for each source where they are few and name each thing once, else a row for each figure."""
    origins = list(dict.fromkeys(figure.origin for figure in figures))
    cells = {(figure.what, figure.origin): figure for figure in figures}
    if len(cells) < len(figures) or len(origins) > MOST_COLUMNS:
        rows = [{"what": each.what, "figure": each, "node": each.node, "origin": each.origin} for each in figures]
        return Table(LISTED, rows)
    fields = [Field("what", " "), *(Field(origin, _short(origin), _cell) for origin in origins)]
    whats = dict.fromkeys(figure.what for figure in figures)
    return Table(fields, [{"what": what, **{each: cells.get((what, each)) for each in origins}} for what in whats])


def _is(component: str, *whats: str) -> Callable[[Figure], bool]:
    return lambda each: each.component == component and each.what.lower() in whats


ROWS: tuple[tuple[str, str, Callable[[Figure], bool]], ...] = (
    ("int8 addition", SKY, _is("arithmetic", "int8 add")),
    ("int8 multiplication", BLUE, _is("arithmetic", "int8 multiply")),
    ("int32 multiplication", BLUE, _is("arithmetic", "int32 multiply")),
    ("fp32 multiplication", BLUE, _is("arithmetic", "fp32 multiply")),
    ("register file of 1 KiB", GREEN, lambda each: each.component == "register" and "file" in each.what),
    ("SRAM of 32 KiB", GREEN, _is("SRAM", "32 kib")),
    ("SRAM of 1 MiB", GREEN, _is("SRAM", "1 mib")),
    ("PCIe", ORANGE, lambda each: each.component == "link" and each.what.lower().startswith("pcie")),
    ("HBM2, HBM2E, HBM3", VERMILLION, _is("DRAM", "hbm2", "hbm2e", "hbm3")),
    ("GDDR6, GDDR6X", VERMILLION, _is("DRAM", "gddr6", "gddr6x")),
    ("LPDDR4, LPDDR5", VERMILLION, _is("DRAM", "lpddr4", "lpddr5")),
    ("DDR4", VERMILLION, _is("DRAM", "ddr4")),
    ("DDR3", VERMILLION, _is("DRAM", "ddr3")),
)
"""Rows of the picture from the arithmetic outwards: name, colour, which figures are in it."""


def per_access(found: Sequence[Figure]) -> Picture:
    """Draw one row per thing on a logarithmic axis: a mark per source, hollow where the figure is not verified."""
    rows = [(name, color, mine) for name, color, holds in ROWS if (mine := [*filter(holds, found)])]
    marks, highest, lowest = [], 0.0, float("inf")
    for place, (_, color, figures) in enumerate(rows):
        ends = {each: each.word_J or (each.low_J, each.high_J) for each in figures}
        low, high = min(map(min, ends.values())), max(map(max, ends.values()))
        lowest, highest = min(low, lowest), max(high, highest)
        marks.append(line([low, high], [place] * 2, "", color, linewidth=6, alpha=0.25, zorder=1))
        for each, values in ends.items():
            at, face = sorted({*values}), color if each.is_verified else "white"
            marks.append(points(at, [place] * len(at), "", color, mfc=face, markersize=6.5, zorder=3))
        text = si(high, "J") if high / low < 1.05 else f"{si(low, 'J')} to {si(high, 'J')}"
        marks.append(note(high, place, text, (9, 0), fontsize=8))
    marks.append(points([], [], "verified, measured, or derived from such"))
    marks.append(points([], [], "quoted, recalled or guessed", mfc="white"))
    quantity = "energy of one operation, or of moving one 32-bit word (J, logarithmic)"
    x = Axis(quantity, scale="log", low=lowest / 1.5, high=highest * 18, text=partial(si, unit="J"))
    caption = "a mark per source, 45 nm to 7 nm; the bar is what sources and nodes differ by; DRAM with or without I/O"
    title = "Computing is cheap, memory is not: energy by operation and by 32-bit access"
    panel = Panel(title, marks, x, Axis(names=[name for name, _, _ in rows]), caption, "x")
    return Picture(1.6 + 0.3 * len(rows), [panel], legend=2)
