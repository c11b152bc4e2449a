"""Status of an energy figure: the words that spec files use, and their check.

A value that is computed from others is ``derived`` when all of them are verified or measured; else it keeps the
weakest word among what it was made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any, Literal, get_args

Status = Literal["measured", "verified", "verified-in-tool", "derived", "secondary", "recalled", "guess"]
"""Origins of a value, the best first (see ``MEANING``)."""

STATUSES: tuple[Status, ...] = get_args(Status)

MEANING: dict[Status, str] = {
    "measured": "from a run of the named tool or device, made for this table",
    "verified": "read in the source, or in a text that quotes it word by word",
    "verified-in-tool": "read in a file of a tool that cites the source",
    "derived": "computed from measured or verified values by a stated formula",
    "secondary": "quoted by a third party; the source was not seen",
    "recalled": "remembered from the source, which was not seen again",
    "guess": "an assumption, or the value of another device",
}
"""Status -> what it says."""

FORMER = {"memory": "recalled"}
"""Words of older spec files -> what they are called now, so that the error can name it."""

ESTIMATE = "an estimate"
"""First words in the note of a power that was moved with the size of the chip."""

DOUBTFUL: frozenset[Status] = frozenset({"secondary", "recalled", "guess"})
"""Statuses that a result should not hang on without a warning."""

UNSTATED: Status = "guess"
"""Status of a value whose file states none."""


def weakest(*statuses: Status) -> Status:
    """Return the least trustworthy status; 'derived' where all are better, since something was computed."""
    return max(("derived", *statuses), key=STATUSES.index)


PRICED = ("mac", "vector", "register", "network", "sram")
"""Fields of an energy table that have a status."""
ENERGIES = ("read_energy", "write_energy", "energy", "energy_per_op")
"""Fields of memories, links and processors that ``energy_status`` speaks of."""


def mark_set_by_hand(spec: Any, touched: Iterable[tuple[str | int, ...]]) -> None:
    """Mark in the tree of a chip: energies at the paths ``touched``, which the user has set, become guesses.

    A status that was set too stays as it was set.
    """
    paths = list(touched)
    for path in paths:
        *outer, last = path
        if path[0] == "energy" and len(path) > 1 and path[1] in PRICED:
            status = spec["energy"].get("status") if isinstance(spec["energy"], dict) else None
            if isinstance(status, dict) and not any(each[:2] == ("energy", "status") for each in paths):
                _mark(status, path, spec["energy"][path[1]])
        elif last in ENERGIES and (*outer, "energy_status") not in paths:
            try:
                block = reduce(lambda inner, part: inner[part], outer, spec)
            except (KeyError, IndexError, TypeError):  # a later setting replaced what the path led through
                continue
            if isinstance(block, dict) and "energy_status" in block:
                block["energy_status"] = UNSTATED


def _mark(status: dict[str, Any], path: tuple[str | int, ...], rows: Any) -> None:
    """Note one path; ``rows``: what the table holds there, formats where it is a column."""
    field = str(path[1])
    if field in ("register", "network", "sram"):
        status[field] = UNSTATED
    else:
        changed = [str(path[2])] if len(path) > 2 else list(rows if isinstance(rows, dict) else ())
        status[field] = {**(status.get(field) or {}), **dict.fromkeys(changed, UNSTATED)}
