"""Two runs of one model layer by layer: time, energy and what each is bound by, the largest differences first."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from accelsim.account.latency import layers
from accelsim.account.titles import is_own
from accelsim.errors import Problem, UsageError, count_of
from accelsim.files.reading import read_text
from accelsim.machine.run import Run
from accelsim.report.compare import STAR, Source, grounds_of, load_summaries
from accelsim.report.compare_labels import labels
from accelsim.report.table import GAP, Column, table
from accelsim.report.text import MISSING, cut, ratio, si
from accelsim.time import FS

if TYPE_CHECKING:
    from rich.table import Table

LAYERS = "layers.csv"
SHARED = 0.5
"""Share of the layers of the longer run that the other must have too, or the models are not one."""

LEAST_NAME = 20
COLUMNS = (
    Column("layer", right=False, least=LEAST_NAME, shorten=cut),
    Column("time\nfirst"), Column("time\nsecond"), Column("ratio"),
    Column("energy\nfirst"), Column("energy\nsecond"), Column("ratio"),
    Column("bound by\nfirst", right=False), Column("bound by\nsecond", right=False),
)  # fmt: skip
KEPT = (
    (0, 1, 2, 3, 4, 5, 6, 7, 8),
    (0, 1, 2, 3, 4, 5, 7, 8),
    (0, 1, 2, 3, 4, 5, 6),
    (0, 1, 2, 3, 7, 8),
    (0, 1, 2, 3),
)
"""Columns that stay, from all to the least."""


class Side(NamedTuple):
    """A layer in one run: the time that it adds (s), its energy (J), what it is bound by."""

    time_s: float
    energy_J: float
    bound_by: str


class Difference(NamedTuple):
    """A layer in two runs; None where one of them has no layer of that name."""

    name: str
    title: str
    first: Side | None
    second: Side | None

    @property
    def time_s(self) -> float:
        """Time in the second run less that in the first, s; a layer that is not there takes none."""
        return (self.second.time_s if self.second else 0.0) - (self.first.time_s if self.first else 0.0)

    @property
    def energy_J(self) -> float:
        """Energy in the second run less that in the first, J."""
        return (self.second.energy_J if self.second else 0.0) - (self.first.energy_J if self.first else 0.0)

    def as_dict(self) -> dict[str, Any]:
        """The figures as CSV and JSON hold them; None where a run lacks the layer."""
        found: dict[str, Any] = {"name": self.name, "title": self.title}
        for key in Side._fields:
            found |= {f"{way}_{key}": getattr(side, key) if side else None for way, side in self._sides()}
        return found | {"difference_time_s": self.time_s, "difference_energy_J": self.energy_J}

    def _sides(self) -> tuple[tuple[str, Side | None], ...]:
        return ("first", self.first), ("second", self.second)


def differences(sources: Sequence[Source]) -> list[Difference]:
    """Every layer of either run, matched by name, the largest difference of time first, then of energy.

    Raises UsageError unless there are two runs of one model: most layers of both have one name.
    """
    if len(sources) != 2:
        raise UsageError(
            Problem(f"layers of {count_of(len(sources), 'run')}", "--layers", "two runs of one model")
        )
    load_summaries(sources)
    first, second = (_sides(source) for source in sources)
    if len(first.keys() & second.keys()) < SHARED * max(len(first), len(second)):
        what = f"{len(first.keys() & second.keys())} of {max(len(first), len(second))} layers have one name"
        raise UsageError(Problem(what, "--layers", "two runs of one model"))
    found = []
    for key in dict.fromkeys([*first, *second]):
        title, name = (first.get(key) or second[key])[0], key[0]
        sides = (each[key][1] if key in each else None for each in (first, second))
        found.append(Difference(name, title, *sides))
    return sorted(found, key=lambda each: (-abs(each.time_s), -abs(each.energy_J)))


def _sides(source: Source) -> dict[tuple[str, int], tuple[str, Side]]:
    """(Name of a layer, how many of that name came before) -> its title and figures."""
    found, seen = {}, Counter[str]()
    for name, title, side in _of_run(source) if isinstance(source, Run) else _of_report(Path(source)):
        found[name, seen[name]] = (title, side)
        seen[name] += 1
    return found


def _of_run(run: Run) -> list[tuple[str, str, Side]]:
    return [
        (layer.name, layer.title, Side(layer.added_fs * FS, layer.energy_J, layer.bound_key))
        for layer in layers(run)
    ]


def _of_report(folder: Path) -> list[tuple[str, str, Side]]:
    """Layers of the report; UsageError where its file of layers cannot be read or is not of this version."""
    try:
        text = read_text(folder / LAYERS)
        return [
            (row["name"], row["title"], Side(int(row["added_fs"]) * FS, float(row["energy_J"]), row["bound_by"]))
            for row in csv.DictReader(io.StringIO(text, newline=""))
        ]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        expected = "a report of this version ('accelsim rerun' makes it again)"
        raise UsageError(Problem("cannot be read", str(folder / LAYERS), expected)) from error


def layer_table(sources: Sequence[Source], width: int = 80, most: int | None = None) -> Table:
    """The differences as a table, ``most`` of them at most, with the totals of all layers.

    No value is ever cut: where the width is short, whole columns go.
    """
    found, unlike = differences(sources), bool(grounds_of(load_summaries(sources))[1])
    rows = [_cells(each, unlike) for each in found[:most]]
    one, two = (each.first for each in found), (each.second for each in found)
    footer = _cells(Difference("total", "", _total(one), _total(two)), unlike)
    for kept in KEPT:
        least = sum(max(len(line) for row in (*rows, footer, [column.title for column in COLUMNS])
                        for line in row[i].split("\n")) + GAP for i in kept[1:])  # fmt: skip
        if least + LEAST_NAME <= width:
            break
    columns = [COLUMNS[i] for i in kept]
    return table(columns, [[row[i] for i in kept] for row in rows], width, footer=[footer[i] for i in kept])


def legend(sources: Sequence[Source]) -> str:
    """Return which run is the first, and which the second, in words."""
    one, two = labels(load_summaries(sources))
    return f"Layers by the difference of the time that they add. First: {one}; second: {two}."


def _total(sides: Iterable[Side | None]) -> Side:
    there = [side for side in sides if side is not None]
    return Side(sum(each.time_s for each in there), sum(each.energy_J for each in there), "")


def _cells(each: Difference, unlike: bool) -> list[str]:
    """The cells of one layer; ``unlike``: energies of the two runs do not rest on the same figures."""
    cells = [each.name if is_own(each.name) or not each.title else f"{each.name} {each.title}"]
    for key, unit, mark in (("time_s", "s", ""), ("energy_J", "J", STAR * unlike)):
        one, two = (getattr(side, key) if side else None for side in (each.first, each.second))
        cells += [
            si(one, unit),
            si(two, unit),
            f"{ratio(two / one)}{mark}" if one and two is not None else "",
        ]
    return [
        *cells,
        *((side.bound_by.replace("_", " ") if side else MISSING) for side in (each.first, each.second)),
    ]
