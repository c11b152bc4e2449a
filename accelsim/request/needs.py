"""Options that have an effect only beside others, or on some chips: one table that says which needs what.

An option that contradicts another one is an error. One that a chip gives no effect is a note of the run, since a script
may pass it for many chips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from accelsim.errors import Problem, UsageError
from accelsim.request.fields import DEFAULTS
from accelsim.request.recording import flag

if TYPE_CHECKING:
    from accelsim.spec.chip import Chip


class Need(NamedTuple):
    """An option (a field of ``Request``), whether what it needs is ``met``, and what that is in words."""

    option: str
    met: Callable[..., bool]
    needs: str


BESIDE = (
    Need("percentile", lambda asked: _takes_percentile(asked["ranges"]), "--ranges percentile or percentile-ort"),
    Need("quantiser", lambda asked: asked.get("fusion") == "serving", "--fusion serving, or a model with prompt="),
    Need("stack", lambda asked: asked.get("fusion") == "serving", "--fusion serving, or a model with prompt="),
    Need("seed", lambda asked: asked.get("inputs") is None, "inputs that are drawn, so no --inputs"),
)
"""Options that need others; ``met`` is asked about the fields."""

ON_CHIPS = (
    Need("search", lambda asked, chip: _searches(chip), "an engine that searches for mappings"),
    Need("share", lambda asked, chip: chip.core_count > 1, "a chip with several cores"),
    Need(
        "site",
        lambda asked, chip: asked["fusion"] in ("eager", "sdpa") or _slowed(chip),
        "--fusion eager or sdpa, or a site that states the clock under load",
    ),
)
"""Options that need something of the chip; ``met`` is asked about the fields and the chip, at its site."""


def _takes_percentile(ranges: str) -> bool:
    """Return whether a method takes one; also of a name that is none, which others refuse."""
    from accelsim.formats.ranges.methods import METHODS

    return ranges not in METHODS or METHODS[ranges].percentile > 0


def _searches(chip: Chip) -> bool:
    from accelsim.engines.registry import ENGINES
    from accelsim.program.roles import units

    return any(ENGINES[unit.type].searches for unit in units(chip).values())


def _slowed(chip: Chip) -> bool:
    """Return whether an engine keeps less than its clock under load; the other number of a site is of eager hosts."""
    shares = (getattr(unit, "sustained_clock", 1.0) for view in chip.views() for unit in view.engines.values())
    return any(share < 1.0 for share in shares)


def check_needs(asked: Mapping[str, object]) -> None:
    """Raise UsageError, all at once, for options of ``asked`` that others among them leave without effect."""
    problems = [
        Problem(f"{flag(row.option)} has no effect here", expected=f"it with {row.needs}")
        for row in BESIDE
        if row.option in asked and asked[row.option] != DEFAULTS[row.option] and not row.met(asked)
    ]
    UsageError.raise_for(problems)


def notes(asked: Mapping[str, object], chip: Chip) -> list[str]:
    """Return notes about options in ``asked`` that have no effect on this chip."""
    return [
        f"{flag(row.option)} has no effect on {chip.name}: it needs {row.needs}"
        for row in ON_CHIPS
        if asked[row.option] != DEFAULTS[row.option] and not row.met(asked, chip)
    ]
