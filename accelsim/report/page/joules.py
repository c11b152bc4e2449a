"""Origin of every joule: component, figure, layer, tensor, with how far each figure can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from accelsim.account.categories import categorised
from accelsim.account.energy import STATIC, EnergyRow, energy_table, prices_of
from accelsim.account.energy_basis import ESTIMATED, energy_basis
from accelsim.account.provenance import in_words, status_of
from accelsim.errors import count_of
from accelsim.machine.run import Run
from accelsim.program.actions import ActionName
from accelsim.program.roles import part_of
from accelsim.report.looks import CATEGORY_LOOKS
from accelsim.report.page.layers import NO_LINE, Lines
from accelsim.report.page.pictures import Drawn
from accelsim.report.page.timeline import Texts
from accelsim.report.picture import Axis, Mark, Panel, Picture
from accelsim.report.text import percent, si
from accelsim.spec.status import DOUBTFUL, MEANING

LEVELS = ("component", "figure", "layer", "tensor")
COLUMNS = ("start", "J", "name", "path", "trust", "each", "line", "share", "hatched", "colour")
DOUBTED, OUTSIDE = "not verified", "outside of the layers"
CAPTION = (
    "Each row has the energy of the whole run, parted further from row to row: by component, by what the component "
    "did, by layer, by tensor; what no tensor causes has nothing in the last row. Hatched: the figure behind it is "
    "not verified. Choose a part to see it over the whole width."
)
WORDS: dict[str, object] = {
    "title": "{name:text}",
    "told": ["{J:J}, {share} of the run", "{path:text?}", "{each:text?}", "{trust:text?}"],
    "text": "{name:text}",
    "brief": True,
    "grows": True,
}
ODD = "b8"
"""End of the colour of every second part of a row: how much of it is not paper."""
Path: TypeAlias = "tuple[str, ActionName, int, str]"
"""Component, action, line of the layer, and tensor of some energy."""
MOST = 20_000
"""Tensors that a page has at most, in all layers together."""


def joules(run: Run, lines: Lines) -> Drawn:
    """Return a picture of four rows: the energy by component, figure, layer, tensor; parts add up to the whole.

    A figure is the energy of one action. Parts stand the largest first, layers and tensors in the order of the run.
    """
    rows = [row for row in energy_table(run) if row.energy_J > 0]
    least = sorted((row.energy_J for row in rows), reverse=True)[MOST] if len(rows) > MOST else 0.0
    small = sum(row.energy_J <= least for row in rows) if least else 0
    texts, category = Texts(), categorised(run.chip)
    marks = _rows(rows, [_path(row, lines, least) for row in rows], run, lines, texts)
    used, high = {category(row) for row in rows}, sum(row.energy_J for row in rows) or 1.0
    looks = {name: look.color for name, look in CATEGORY_LOOKS.items() if name in used} | {DOUBTED: "#777777"}
    marks += [
        Mark("boxes", [], [], name, [], {"color": colour, "size": 1}, {"hatched": name == DOUBTED})
        for name, colour in looks.items()
    ]
    panel = Panel("", marks, Axis("energy", "J", low=0, high=high), Axis(names=LEVELS), page={"zoom": high * 1e-9})
    note = f"{count_of(small, 'tensor')} of at most {si(least, 'J')} are not told apart." if small else ""
    return Drawn("joules", "Where every joule comes from", CAPTION, Picture(3.1, [panel]), note, texts.all())


def _path(row: EnergyRow, lines: Lines, least: float) -> Path:
    small = least and row.tensor and row.energy_J <= least
    return row.component, row.action, lines.line_of(row.op), "small tensors" if small else row.tensor


def _rows(rows: Sequence[EnergyRow], paths: Sequence[Path], run: Run, lines: Lines, texts: Texts) -> list[Mark]:
    """Return a mark for each row of the picture; what no tensor causes has no place in the last."""
    whole: dict[tuple[object, ...], float] = {}
    for row, path in zip(rows, paths, strict=True):
        for level in range(1, 5):
            whole[path[:level]] = whole.get(path[:level], 0.0) + row.energy_J
    seen = {part: number for number, part in enumerate(whole)}

    def place(at: int) -> tuple[float, ...]:
        path = paths[at]
        component, figure, line = path[:1], path[:2], path[2]
        behind = line < 0, line, not path[3], seen[path]
        return -whole[component], seen[component], -whole[figure], seen[figure], *behind

    order, figures, marks = sorted(range(len(rows)), key=place), _figures(rows, run), list[Mark]()
    total = sum(row.energy_J for row in rows)
    for level in range(1, 5):
        found, start = list[tuple[Any, ...]](), 0.0
        for part, mine in groupby(order, lambda at, level=level: paths[at][:level]):  # type: ignore[misc]
            component, action, at, tensor = paths[next(mine)]
            figure = figures[component, action]
            known = figure if level > 1 else _Figure("", figure.colour)
            names = (component, figure.name, OUTSIDE if at == NO_LINE else lines.names[at], tensor)[:level]
            inside = "in " + " → ".join(names[:-1]) if level > 1 else ""
            told = [texts.number(text) for text in (names[-1], inside, known.trust, known.each)]
            colour, line = figure.colour + ODD * (len(found) % 2), at if level > 2 else None
            if names[-1]:
                doubtful = int(known.doubtful)
                found.append((start, whole[part], *told, line, percent(whole[part] / total), doubtful, colour))
            start += whole[part]
        columns, colours = dict(zip(COLUMNS, map(list, zip(*found, strict=True)), strict=False)), Texts()
        columns["tint"] = [colours.number(colour) for colour in columns.pop("colour", ())]
        starts = np.array(columns.pop("start", ()))
        page = {"columns": columns, "colours": colours.all(), **WORDS}
        marks.append(Mark("spans", starts + columns.get("J", 0.0), [level - 1], "", starts, {"size": 0.94}, page))
    return marks


class _Figure(NamedTuple):
    """Words of the page on the energy of one action: ``trust``, a status and what it means; ``each``, its price."""

    name: str
    colour: str
    trust: str = ""
    each: str = ""
    doubtful: bool = False


def _figures(rows: Sequence[EnergyRow], run: Run) -> dict[tuple[str, str], _Figure]:
    prices, category, found = prices_of(run), categorised(run.chip), dict[tuple[str, str], _Figure]()
    for row in {(row.component, row.action): row for row in reversed(rows)}.values():
        price = prices.get((part_of(run.chip, row.component), row.action))
        static = row.component == STATIC
        trust = _static_trust(run, row.action) if static else status_of(run.chip, row.component, row.action)
        told = f"trust: {trust}, {_meaning(trust)}" if trust else ""
        each = f"each: {'power × time' if price is None else si(price, 'J')}"
        colour = CATEGORY_LOOKS[category(row)].color
        found[row.component, row.action] = _Figure(_named(run, row), colour, told, each, trust in DOUBTFUL)
    return found


def _meaning(trust: str) -> str:
    return next(text for status, text in MEANING.items() if status == trust)


def _named(run: Run, row: EnergyRow) -> str:
    """Return what a figure is, with the action of the ledger; what is drawn all the time by whose idle power it is."""
    if row.component == STATIC:
        return f"idle power of {row.action.of}"
    return f"{in_words(run.chip, row.component, row.action)}: {row.action}"


def _static_trust(run: Run, action: ActionName) -> str:
    """'guess' for an idle power of the chip that is an estimate; of other static power no spec says more."""
    return "guess" if action.of == "chip" and energy_basis(run.chip)["idle_power"] == ESTIMATED else ""
