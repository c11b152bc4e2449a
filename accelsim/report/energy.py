"""The answer about energy per action: by node and by source, and where sources disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from accelsim.account.energy_figures import WORD_BITS, Figure, spread
from accelsim.report.answer import Answer, Field, Lines, Part, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

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


LISTED = (
    Field("what", " "),
    Field("figure", "energy", _cell),
    Field("node", "node"),
    Field("origin", "from"),
)
SPREAD = (Field("what", " "), Field("factor", "factor"), Field("low", "lowest"), Field("high", "highest"))


def energies(found: Sequence[Figure]) -> Answer:
    """Report energy per action, section by section, and where sources disagree."""

    def picture() -> Drawing:
        from accelsim.report.energy_plots import per_access

        return per_access(found)

    facts = [figure.as_dict() for figure in found]
    words = ", ".join(mark if mark == status else f"{mark} = {status}" for status, mark in MARKS.items())
    rows = [
        {"what": row.what, "factor": f"{row.factor:.1f}x",
         "low": f"{_value(row.low, row.low.low_J)} {_short(row.low.origin)}",
         "high": f"{_value(row.high, row.high.high_J)} {_short(row.high.origin)}"}
        for row in spread(found) if row.factor >= DISAGREE
    ]  # fmt: skip
    shown: list[Part] = [
        *(part for title, figures in _sections(found) for part in (f"{title}, pJ", _table(figures), "")),
        "Where sources disagree (nodes alike)",
        Table(SPREAD, rows),
        Lines(f"\nBeside a figure: {words}; no word: verified, measured or derived from such."),
    ]
    return Answer(facts, shown, facts, {"energy-per-access": picture}, ["energy.json", "energy.csv"])


def _sections(found: Sequence[Figure]) -> Iterator[tuple[str, list[Figure]]]:
    for title, components, of_table in SECTIONS:
        rows = [
            figure for figure in found
            if figure.component in components and (of_table is None or _is_table(figure) == of_table)
        ]  # fmt: skip
        if rows:
            yield title, rows


def _is_table(figure: Figure) -> bool:
    return figure.origin.startswith("energy/") or " scaled: " in figure.origin


def _table(figures: Sequence[Figure]) -> Table:
    """A column for each source where they are few and name each thing once, else a row for each figure."""
    origins = list(dict.fromkeys(figure.origin for figure in figures))
    cells = {(figure.what, figure.origin): figure for figure in figures}
    if len(cells) < len(figures) or len(origins) > MOST_COLUMNS:
        rows = [
            {"what": each.what, "figure": each, "node": each.node, "origin": each.origin} for each in figures
        ]
        return Table(LISTED, rows)
    fields = [Field("what", " "), *(Field(origin, _short(origin), _cell) for origin in origins)]
    whats = dict.fromkeys(figure.what for figure in figures)
    return Table(
        fields, [{"what": what, **{each: cells.get((what, each)) for each in origins}} for what in whats]
    )
