"""Tables of pages as HTML: figures, layers that sort by a click, layers of several runs side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from html import escape
from typing import NamedTuple

from accelsim.report.page.form import About, Comparison, Table
from accelsim.report.text import MISSING, si


class Cell(NamedTuple):
    """A cell: its text, the rank of its column on narrow pages, whether it is set flush right, and what it sorts by."""

    text: str
    rank: int = 0
    right: bool = False
    value: float | None = None

    def html(self, tag: str) -> str:
        """The cell as HTML."""
        marks = " ".join(["n"] * self.right + [f"r{self.rank}"] * (self.rank > 0))
        kept = f' class="{marks}"' if marks else ""
        sort = "" if self.value is None else f' data-v="{self.value:.6g}"'
        return f"<{tag}{kept}{sort}>{escape(self.text)}</{tag}>"


def table_html(
    heads: Sequence[Cell], rows: Sequence[Sequence[Cell]], layers: bool = False, again: Collection[int] = ()
) -> str:
    """A table that scrolls by itself where the page is narrow; ``layers``: its rows are layers, by number; ``again``:
    rows of blocks that repeat an earlier one."""
    lines = []
    for number, row in enumerate(rows):
        marks = f' data-layer="{number}"' * layers + ' class="again"' * (number in again)
        lines.append(f"<tr{marks}>{''.join(cell.html('td') for cell in row)}</tr>")
    named = any(cell.text for cell in heads)
    head = f"<thead><tr>{''.join(cell.html('th') for cell in heads)}</tr></thead>\n" * named
    body = "\n".join(lines)
    kind = ' class="layers"' * layers
    return f'<div class="scroll"><table{kind}>\n{head}<tbody>\n{body}\n</tbody></table></div>'


def layer_part(layers: Table, about: About) -> str:
    """Return the table of layers, or of whatever else the lines of a page are. It sorts by a click on a column, drops
    columns where the page is narrow, and folds blocks that are alike."""
    columns, again = layers["columns"], set[int]()
    rows = [
        [Cell(text, rank, right, value) for (_, rank, right), text, value in zip(columns, cells, values, strict=True)]
        for cells, values in zip(layers["cells"], layers["values"], strict=True)
    ]
    for first, length, count in layers.get("blocks", ()):
        again.update(range(first + length, first + length * count))
        row, name = rows[first], [column[0] for column in columns].index("layer")
        row[name] = row[name]._replace(text=f"{row[name].text}  (block x {count})")
    shown = table_html([Cell(*column) for column in columns], rows, True, again)
    terms = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>\n" for term, text in about["terms"])
    return (
        f'<section class="part" data-part="table">\n<h2>{escape(about["title"])}</h2>\n<div class="mount"></div>\n'
        f"{shown}\n"
        f"<p class=hint>A click on a column sorts by it. {escape(about['file'])} has all digits and more columns.</p>\n"
        f"<details><summary>How to read the table</summary>\n<dl>\n{terms}</dl></details>\n</section>"
    )


def side_by_side(comparison: Comparison) -> str:
    """Return the table of layers of all runs: times, energies, differences to the first run, what each is bound by."""
    runs, heads = comparison["runs"], [Cell("layer")]
    for what in ("time", "energy"):
        heads.append(Cell(f"{what}, {runs[0]}", right=True))
        heads += [Cell(text, right=True) for run in runs[1:] for text in (f"{what}, {run}", "difference")]
    heads += [Cell(f"bound by, {run}") for run in runs]
    rows = [
        [
            Cell(line["name"]),
            *_differing(line["time_s"], "s"),
            *_differing(line["energy_J"], "J"),
            *(Cell(text or MISSING) for text in line["bound"]),
        ]
        for line in comparison["rows"]
    ]
    return table_html(heads, rows, layers=True)


def _differing(values: Sequence[float | None], unit: str) -> Iterator[Cell]:
    """Cells of the first value, and of each other with its difference to that."""
    first, *others = values
    yield Cell(si(first, unit), value=first or 0.0, right=True)
    for value in others:
        step = (value or 0.0) - (first or 0.0)
        sign = "+" if step > 0 else "−" if step < 0 else ""
        yield Cell(si(value, unit), value=value or 0.0, right=True)
        yield Cell(f"{sign}{si(abs(step), unit)}", value=step, right=True)
