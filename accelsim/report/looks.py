"""Colours of categories of energy, of what time goes to, and of engine types: the same in all pictures and pages."""

from __future__ import annotations

from accelsim.account.categories import CATEGORIES
from accelsim.account.critical_path import HIDDEN, LISTED
from accelsim.engines.registry import ENGINES
from accelsim.report.style import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION, YELLOW, Look

CATEGORY_LOOKS: dict[str, Look] = {name: Look(each.colour, each.hatch) for name, each in CATEGORIES.items()}
"""Energy category (``account.categories.CATEGORIES``) -> look."""

REASON_LOOKS: dict[str, Look] = {
    **{key: Look(reason.colour, reason.hatch) for key, reason in LISTED.items()},
    HIDDEN: Look("#eeeeee"),
}
"""Cause of time (``account.critical_path.KEYS``, and ``HIDDEN``) -> look."""

HUES = {"blue": BLUE, "purple": PURPLE, "yellow": YELLOW, "vermillion": VERMILLION, "green": GREEN, "orange": ORANGE}
"""Colours that an engine type may name."""
ENGINE_LOOKS: dict[str, Look] = {name: Look(HUES.get(kind.hue, GREY)) for name, kind in ENGINES.items()}
"""Type of engine -> look."""
