"""Where every joule comes from: component, figure, layer, tensor, with how far each figure can be trusted."""

from __future__ import annotations

from math import fsum
from typing import Any

from accelsim.account.energy import STATIC, EnergyRow, categorised, energy_table, prices_of
from accelsim.account.energy_basis import ESTIMATED, energy_basis
from accelsim.account.provenance import in_words, status_of
from accelsim.machine.run import Run
from accelsim.program.actions import ActionName
from accelsim.program.roles import part_of
from accelsim.report.page.named import NO_LINE, Lines
from accelsim.report.style import CATEGORY_LOOKS
from accelsim.report.text import count_of, si
from accelsim.spec.status import DOUBTFUL, MEANING

MOST = 20_000
"""Tensors that a page has at most, in all layers together."""
Prices = dict[tuple[str, str], float]


def joules(run: Run, lines: Lines) -> dict[str, Any]:
    """A tree of components, their figures, layers and tensors, each with its energy in J; parts add up to the whole.

    A figure is the energy of one action; ``trust`` is its status, ``each`` its price.
    """
    rows = [row for row in energy_table(run) if row.energy_J > 0]
    least = sorted((row.energy_J for row in rows), reverse=True)[MOST] if len(rows) > MOST else 0.0
    components: dict[str, list[EnergyRow]] = {}
    for row in rows:
        components.setdefault(row.component, []).append(row)
    category, total = categorised(run.chip), fsum(row.energy_J for row in rows)
    found = [
        _component(run, lines, name, mine, category(mine[0]), least) for name, mine in components.items()
    ]
    small = sum(row.energy_J <= least for row in rows) if least else 0
    return {
        "total": total,
        "parts": sorted(found, key=lambda part: -part["J"]),
        "trust": {status: [text, status in DOUBTFUL] for status, text in MEANING.items()},
        "note": f"{count_of(small, 'tensor')} of at most {si(least, 'J')} are not told apart."
        if small
        else "",
    }


def _component(
    run: Run, lines: Lines, name: str, rows: list[EnergyRow], category: str, least: float
) -> dict[str, Any]:
    figures: dict[str, list[EnergyRow]] = {}
    for row in rows:
        figures.setdefault(row.action, []).append(row)
    prices = prices_of(run)
    parts = sorted(
        (_figure(run, lines, mine, least, prices) for mine in figures.values()), key=lambda part: -part["J"]
    )
    look = CATEGORY_LOOKS[category]
    return {"name": name, "J": fsum(row.energy_J for row in rows), "colour": look.color, "parts": parts}


def _figure(run: Run, lines: Lines, rows: list[EnergyRow], least: float, prices: Prices) -> dict[str, Any]:
    first = rows[0]
    layers: dict[int, list[EnergyRow]] = {}
    for row in rows:
        layers.setdefault(lines.of(row.op), []).append(row)
    price = prices.get((part_of(run.chip, first.component), first.action))
    static = first.component == STATIC
    return {
        "name": _named(run, first),
        "J": fsum(row.energy_J for row in rows),
        "trust": _static_trust(run, first.action) if static else status_of(run.chip, first.component, first.action),
        "each": "power × time" if price is None else si(price, "J"),
        "parts": [_layer(lines, line, layers[line], least) for line in sorted(layers, key=lambda at: (at < 0, at))],
    }  # fmt: skip


def _named(run: Run, row: EnergyRow) -> str:
    """What a figure is, with the action of the ledger; what is drawn all the time by whose idle power it is."""
    if row.component == STATIC:
        return f"idle power of {row.action.of}"
    return f"{in_words(run.chip, row.component, row.action)}: {row.action}"


def _static_trust(run: Run, action: ActionName) -> str:
    """'guess' for an idle power of the chip that is an estimate; of other static power no spec says more."""
    return "guess" if action.of == "chip" and energy_basis(run.chip)["idle_power"] == ESTIMATED else ""


def _layer(lines: Lines, line: int, rows: list[EnergyRow], least: float) -> dict[str, Any]:
    name = "outside of the layers" if line == NO_LINE else lines.names[line]
    found: dict[str, Any] = {"name": name, "J": fsum(row.energy_J for row in rows), "layer": line}
    tensors: dict[str, list[float]] = {}
    for row in rows:
        small = least and row.energy_J <= least
        tensors.setdefault("small tensors" if small and row.tensor else row.tensor, []).append(row.energy_J)
    parts = [{"name": name, "J": fsum(values)} for name, values in tensors.items() if name]
    return found | ({"parts": parts} if parts else {})
