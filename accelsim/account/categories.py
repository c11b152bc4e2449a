"""Kinds of energy for plots and words: what a row of energy counts for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from accelsim.account.energy import STATIC, EnergyRow, engine_prices, group_J
from accelsim.account.spans import is_level, is_off_chip, unit_of
from accelsim.engines.base import Category
from accelsim.engines.registry import Types, TypeTable
from accelsim.program.actions import TRANSFER
from accelsim.program.roles import HOST, part_of
from accelsim.spec.chip import Chip


def _categories(types: Types) -> dict[str, Category]:
    found = {entry.name: entry for kind in types if kind.rank < FUNCTIONS for entry in kind.categories}
    found |= {ON_CHIP.name: ON_CHIP}
    found |= {entry.name: entry for kind in types for entry in kind.categories}
    return found | {entry.name: entry for entry in OFF_CHIP}


FUNCTIONS = 2
"""Rank of the engine types from which on they compute no products."""
ON_CHIP = Category("on-chip SRAM", "#009e73")
OFF_CHIP = (
    Category("off-chip memory", "#d55e00", "\\\\\\\\"),
    Category("link", "#e69f00", "||||"),
    Category("host", "#f0e442", "xxxx"),
    Category(STATIC, "#cfcfcf"),
)
CATEGORIES = TypeTable(_categories)
"""Kinds of energy for plots and words by name, from the arithmetic outwards: those of the engine types, then what all
chips have."""


def categorised(chip: Chip) -> Callable[[EnergyRow], str]:
    """Return what tells the category (a name of ``CATEGORIES``) of each row of a run on this chip."""
    engines = engine_prices(chip)

    def category(row: EnergyRow) -> str:
        unit, part = unit_of(row.component), part_of(chip, row.component)
        if (part, row.action) in engines:
            return engines[part, row.action].category
        if row.action == TRANSFER:
            return "link"
        if unit in chip.buffers or is_level(chip, unit):
            return ON_CHIP.name
        if unit in chip.memories or is_off_chip(chip, unit, row.action):
            return "off-chip memory"
        return {HOST: "host", STATIC: STATIC}[unit]

    return category


def by_category(chip: Chip, rows: Iterable[EnergyRow]) -> dict[str, float]:
    """Category -> J, in the order of CATEGORIES, those that use any."""
    found = group_J(rows, categorised(chip))
    return {name: found[name] for name in CATEGORIES.ordered(found) if found[name]}


def by_op_and_category(chip: Chip, rows: Iterable[EnergyRow]) -> dict[tuple[int, str], float]:
    """Return the joules by (step, category)."""
    category = categorised(chip)
    return group_J(rows, lambda row: (row.op, category(row)))
