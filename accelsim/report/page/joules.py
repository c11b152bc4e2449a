"""Origin of every joule: component, figure, layer, tensor, with how far each figure can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from math import fsum
from typing import Any, TypeVar

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
from accelsim.report.text import si
from accelsim.spec.status import DOUBTFUL, MEANING

Key = TypeVar("Key", bound=Hashable)
MOST = 20_000
"""Tensors that a page has at most, in all layers together."""


def joules(run: Run, lines: Lines) -> dict[str, Any]:
    """A tree of components, their figures, layers and tensors, each with its energy in J; parts add up to the whole.

    A figure is the energy of one action; ``trust`` is its status, ``each`` its price.
    """
    rows = [row for row in energy_table(run) if row.energy_J > 0]
    least = sorted((row.energy_J for row in rows), reverse=True)[MOST] if len(rows) > MOST else 0.0
    small = sum(row.energy_J <= least for row in rows) if least else 0
    tree = _Tree(run, lines, least)
    used = {tree.category(row) for row in rows}
    return {
        "total": fsum(row.energy_J for row in rows),
        "categories": [[name, look.color] for name, look in CATEGORY_LOOKS.items() if name in used],
        "parts": _largest_first(map(tree.component, _grouped(rows, lambda row: row.component).values())),
        "trust": {status: [text, status in DOUBTFUL] for status, text in MEANING.items()},
        "note": f"{count_of(small, 'tensor')} of at most {si(least, 'J')} are not told apart." if small else "",
    }


def _grouped(rows: Iterable[EnergyRow], key: Callable[[EnergyRow], Key]) -> dict[Key, list[EnergyRow]]:
    found: dict[Key, list[EnergyRow]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _largest_first(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(parts, key=lambda part: -part["J"])


class _Tree:
    """Makes the parts of the tree; tensors of at most ``least`` joules are told together."""

    def __init__(self, run: Run, lines: Lines, least: float) -> None:
        self._run, self._lines, self._least = run, lines, least
        self._prices, self.category = prices_of(run), categorised(run.chip)

    def component(self, rows: list[EnergyRow]) -> dict[str, Any]:
        """A component, in the colour of what it uses most energy for."""
        parts = _largest_first(map(self._figure, _grouped(rows, lambda row: row.action).values()))
        whole = fsum(row.energy_J for row in rows)
        return {"name": rows[0].component, "J": whole, "colour": parts[0]["colour"], "parts": parts}

    def _figure(self, rows: list[EnergyRow]) -> dict[str, Any]:
        first, chip = rows[0], self._run.chip
        price = self._prices.get((part_of(chip, first.component), first.action))
        static = first.component == STATIC
        trust = _static_trust(self._run, first.action) if static else status_of(chip, first.component, first.action)
        layers = _grouped(rows, lambda row: self._lines.line_of(row.op))
        return {
            "name": _named(self._run, first),
            "J": fsum(row.energy_J for row in rows),
            "colour": CATEGORY_LOOKS[self.category(first)].color,
            "trust": trust,
            "each": "power × time" if price is None else si(price, "J"),
            "parts": [self._layer(line, layers[line]) for line in sorted(layers, key=lambda at: (at < 0, at))],
        }

    def _layer(self, line: int, rows: list[EnergyRow]) -> dict[str, Any]:
        name = "outside of the layers" if line == NO_LINE else self._lines.names[line]
        parts = [
            {"name": tensor, "J": fsum(row.energy_J for row in mine)}
            for tensor, mine in _grouped(rows, self._tensor).items()
            if tensor
        ]
        found = {"name": name, "J": fsum(row.energy_J for row in rows), "layer": line}
        return found | ({"parts": parts} if parts else {})

    def _tensor(self, row: EnergyRow) -> str:
        return "small tensors" if self._least and row.energy_J <= self._least and row.tensor else row.tensor


def _named(run: Run, row: EnergyRow) -> str:
    """Return what a figure is, with the action of the ledger; what is drawn all the time by whose idle power it is."""
    if row.component == STATIC:
        return f"idle power of {row.action.of}"
    return f"{in_words(run.chip, row.component, row.action)}: {row.action}"


def _static_trust(run: Run, action: ActionName) -> str:
    """'guess' for an idle power of the chip that is an estimate; of other static power no spec says more."""
    return "guess" if action.of == "chip" and energy_basis(run.chip)["idle_power"] == ESTIMATED else ""
