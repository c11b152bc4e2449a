"""``accelsim energy``: energy per action by source, and a published split of energy made again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli.checkout import from_checkout
from accelsim.cli.common import (
    OUT,
    check_folder,
    check_outputs,
    csv_option,
    example,
    json_option,
    plot_option,
    save_csv,
    save_plot,
    show,
    show_json,
    width,
)

if TYPE_CHECKING:
    from accelsim.account.energy_figures import Figure

DISAGREE = 1.2
"""Factor between sources from which on they are shown as disagreeing."""
CSV, JSON, PICTURE = "energy.csv", "energy.json", "energy-per-access"
MARKS = {"secondary": "quoted", "recalled": "recalled", "guess": "guess"}
"""Status -> what stands beside a figure in the tables of the terminal; nothing beside the others."""


@click.group(epilog=example("accelsim energy table", "accelsim energy eyeriss --out reports/eyeriss-alexnet"))
def energy() -> None:
    """Show the energy of each action, its source, and how far to trust it.

    A run on a chip adds these up. A run on a cluster does so of its devices and links, and tells apart what their
    servers draw at the wall.
    """


@energy.command(epilog=example(
    "accelsim energy table",
    "accelsim energy table --node 16",
    "accelsim energy table --json",
    "accelsim energy table --out reports/energy",
))  # fmt: skip
@click.option(
    "--node", type=click.FloatRange(min=1), metavar="NM", help="Only this process node, scaled if need be."
)
@click.option("--out", type=OUT, help="Directory for the figures as CSV and JSON, and the picture of them.")
@csv_option
@plot_option
@json_option
def table(node: float | None, as_json: bool, out: Path | None, table: Path | None, plot: Path | None) -> None:
    """Energy per action: arithmetic by format, registers, SRAM, wires, DRAM, links; by node and by source.

    Figures come from the spec files (tables, memories, DRAMs, links) and from publications, each with its status.
    """
    from accelsim.account.energy_figures import figures

    check_folder(out)
    check_outputs(plot, table)
    found = figures(node)
    if out is not None:
        _write(found, out)
    facts = [figure.as_dict() for figure in found]
    save_csv(table, facts)
    if plot is not None:
        from accelsim.report.energy_plots import per_access

        save_plot(plot, lambda: per_access(found))
    if as_json:
        show_json(facts)
        return
    _print(found)
    if out is not None:
        click.echo(f"\nFigures and picture: {out}")


@energy.command(epilog=example("accelsim energy eyeriss --out reports/eyeriss-alexnet"))
@click.option("--out", type=OUT, required=True, help="Directory for the page, the table and the picture.")
def eyeriss(out: Path) -> None:
    """AlexNet under the relative energies of Eyeriss (ISCA 2016): which level takes how much, layer by layer."""
    report = from_checkout("tests.validation.eyeriss_report", "accelsim energy eyeriss")
    check_folder(out)
    report.write(out, f"accelsim energy eyeriss --out {out}")
    click.echo(f"Report: {out / 'README.md'}")


def _write(found: Sequence[Figure], out: Path) -> None:
    from accelsim.files import records, text, write_folder
    from accelsim.report.energy_plots import per_access
    from accelsim.report.style import picture

    rows = [figure.as_dict() for figure in found]
    drawn = per_access(found)
    pictures = {f"{PICTURE}{suffix}": picture(drawn, suffix) for suffix in (".png", ".svg")}
    facts = text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
    write_folder(out, {JSON: facts, CSV: records(rows), **pictures})


def _print(found: Sequence[Figure]) -> None:
    from accelsim.account.energy_figures import spread
    from accelsim.report.table import text_table

    for title, rows, unit in _sections(found):
        click.echo(f"{title}, {unit}")
        by_table = list(dict.fromkeys(figure.origin for figure in rows))
        once = len({(figure.what, figure.origin) for figure in rows}) == len(rows)
        if once and len(by_table) <= MOST_COLUMNS:
            show(text_table(["", *map(_short, by_table)], list(_matrix(rows, by_table)), width()))
        else:
            cells = [(figure.what, _cell(figure), figure.node, figure.origin) for figure in rows]
            show(text_table(["", "energy", "node", "from"], cells, width()))
        click.echo()
    click.echo("Where sources disagree (nodes alike)")
    cells = [
        (row.what, f"{row.factor:.1f}x", f"{_value(row.low, row.low.low_J)} {_short(row.low.origin)}",
         f"{_value(row.high, row.high.high_J)} {_short(row.high.origin)}")
        for row in spread(found) if row.factor >= DISAGREE
    ]  # fmt: skip
    show(text_table(["", "factor", "lowest", "highest"], cells, width()))
    words = ", ".join(mark if mark == status else f"{mark} = {status}" for status, mark in MARKS.items())
    click.echo(f"\nBeside a figure: {words}; no word: verified, measured or derived from such.")


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


def _sections(found: Sequence[Figure]) -> Iterator[tuple[str, list[Figure], str]]:
    for title, components, of_table in SECTIONS:
        rows = [
            figure for figure in found
            if figure.component in components and (of_table is None or _is_table(figure) == of_table)
        ]  # fmt: skip
        if rows:
            yield title, rows, "pJ"


def _is_table(figure: Figure) -> bool:
    return figure.origin.startswith("energy/") or " scaled: " in figure.origin


def _matrix(rows: Sequence[Figure], origins: Sequence[str]) -> Iterator[tuple[str, ...]]:
    cells = {(figure.what, figure.origin): _cell(figure) for figure in rows}
    for what in dict.fromkeys(figure.what for figure in rows):
        yield (what, *(cells.get((what, origin), "") for origin in origins))


def _cell(figure: Figure) -> str:
    low, high = _value(figure, figure.low_J), _value(figure, figure.high_J)
    text = low if low == high else f"{low} to {high}"
    return " ".join(part for part in (text, MARKS.get(figure.status, "")) if part)


def _value(figure: Figure, energy_J: float) -> str:
    """pJ per operation or per word of 32 bits, three digits."""
    from accelsim.account.energy_figures import WORD_BITS

    value = energy_J * 1e12 * (1 if figure.per == "operation" else WORD_BITS)
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _short(origin: str) -> str:
    return origin.removeprefix("energy/")
