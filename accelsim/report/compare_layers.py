"""Two runs of one model layer by layer: time, energy and what each is bound by, the largest differences first."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.account.latency import layers
from accelsim.account.titles import is_own
from accelsim.errors import UsageError, count_of
from accelsim.files.reading import read_text
from accelsim.machine.run import Run
from accelsim.report.answer import Field, Record, Table, in_unit
from accelsim.report.compare import STAR, Source
from accelsim.report.table import GAP, Column
from accelsim.report.text import MISSING, cut, ratio
from accelsim.time import FS

if TYPE_CHECKING:
    from rich.table import Table as RichTable

LAYERS = "layers.csv"
SHARED = 0.5
"""Share of the layers of the longer run that the other must have too, or the models are not one."""
LEAST_NAME = 20
SIDES = ("first", "second")
FIGURES = ("time_s", "energy_J", "bound_by")
"""Figures compared of a layer: the time that it adds, its energy, what it is bound by."""
KEPT = ((0, 1, 2, 3, 4, 5, 6, 7, 8), (0, 1, 2, 3, 4, 5, 7, 8), (0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 7, 8), (0, 1, 2, 3))
"""Columns that stay, from all to the least."""


def differences(sources: Sequence[Source]) -> list[Record]:
    """Every layer of either run, matched by name, the largest difference of time first, then of energy.

    None where a run lacks the layer, which takes no time there. Raises UsageError unless there are two runs of one
    model: most layers of both have one name.
    """
    if len(sources) != 2:
        raise UsageError(f"layers of {count_of(len(sources), 'run')}", "--layers", "two runs of one model")
    first, second = (_sides(source) for source in sources)
    shared, most = len(first.keys() & second.keys()), max(len(first), len(second))
    if shared < SHARED * most:
        raise UsageError(f"{shared} of {most} layers have one name", "--layers", "two runs of one model")
    found = []
    for key in dict.fromkeys([*first, *second]):
        title, sides = (first.get(key) or second[key])[0], (first.get(key), second.get(key))
        row: dict[str, Any] = {"name": key[0], "title": title}
        for at, figure in enumerate(FIGURES, 1):
            row |= {f"{way}_{figure}": side[at] if side else None for way, side in zip(SIDES, sides, strict=True)}
        for figure in FIGURES[:2]:
            row[f"difference_{figure}"] = (row[f"second_{figure}"] or 0.0) - (row[f"first_{figure}"] or 0.0)
        found.append(row)
    return sorted(found, key=lambda row: (-abs(row["difference_time_s"]), -abs(row["difference_energy_J"])))


def _sides(source: Source) -> dict[tuple[str, int], list[Any]]:
    """(Name of a layer, how many of that name came before) -> its title and ``FIGURES``."""
    found, seen = {}, Counter[str]()
    for name, *rest in _of_run(source) if isinstance(source, Run) else _of_report(Path(source)):
        found[name, seen[name]] = rest
        seen[name] += 1
    return found


def _of_run(run: Run) -> Iterator[tuple[str, str, float, float, str]]:
    for layer in layers(run):
        yield layer.name, layer.title, layer.added_fs * FS, layer.energy_J, layer.bound_key


def _of_report(folder: Path) -> list[tuple[str, str, float, float, str]]:
    """Layers of the report; UsageError where its file of layers cannot be read or is not of this version."""
    try:
        text = read_text(folder / LAYERS)
        return [
            (row["name"], row["title"], int(row["added_fs"]) * FS, float(row["energy_J"]), row["bound_by"])
            for row in csv.DictReader(io.StringIO(text, newline=""))
        ]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        expected = "a report of this version ('accelsim rerun' makes it again)"
        raise UsageError("cannot be read", str(folder / LAYERS), expected) from error


class Layers(Table):
    """No value is ever cut: where the width is short, whole columns go."""

    def shown(self, terminal: int) -> RichTable:
        """The table for a terminal of so many characters."""
        for kept in KEPT:
            fields, footer = [self.fields[i] for i in kept], [(self.footer or ())[i] for i in kept]
            heads = [each.look.title if each.look else "" for each in fields]
            rows = (footer, heads, *([each.cell(row) for each in fields] for row in self.records))
            least = sum(
                max(len(line) for row in rows for line in row[i].split("\n")) + GAP for i in range(1, len(kept))
            )
            if least + LEAST_NAME <= terminal:
                break
        return Table(fields, self.records, footer).shown(terminal)


def layer_table(found: Sequence[Record], unlike: bool, most: int | None = None) -> Table:
    """The differences as a table, ``most`` of them at most, with the totals of all layers; ``unlike``: energies of the
    two runs do not rest on the same figures."""
    fields = [Field("name", form=_name, whole=True, look=Column("layer", right=False, least=LEAST_NAME, shorten=cut))]
    for figure, what, unit, mark in (("time_s", "time", "s", ""), ("energy_J", "energy", "J", STAR * unlike)):
        fields += [Field(f"{way}_{figure}", form=in_unit(unit), look=Column(f"{what}\n{way}")) for way in SIDES]
        fields.append(Field(figure, form=partial(_ratio, figure, mark), whole=True, look=Column("ratio")))
    fields += [Field(f"{way}_bound_by", form=_bound, look=Column(f"bound by\n{way}", right=False)) for way in SIDES]
    sums = {
        f"{way}_{figure}": sum(row[f"{way}_{figure}"] or 0.0 for row in found)
        for way in SIDES
        for figure in FIGURES[:2]
    }
    total = {"name": "total", "title": "", "first_bound_by": "", "second_bound_by": "", **sums}
    return Layers(fields, found[:most], [each.cell(total) for each in fields])


def _name(row: Record) -> str:
    return row["name"] if is_own(row["name"]) or not row["title"] else f"{row['name']} {row['title']}"


def _ratio(figure: str, mark: str, row: Record) -> str:
    one, two = row[f"first_{figure}"], row[f"second_{figure}"]
    return f"{ratio(two / one)}{mark}" if one and two is not None else ""


def _bound(key: str | None) -> str:
    return MISSING if key is None else key.replace("_", " ")
