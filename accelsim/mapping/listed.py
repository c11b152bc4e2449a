"""The search where candidates are listed: spaces of which most combinations of choices would not be legal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import chain, takewhile
from typing import Protocol

from accelsim.mapping.leaders import Best, Costly, Solved
from accelsim.mapping.search import known_effort
from accelsim.types import Ints


class Listing(Costly, Protocol):
    """What a search chooses from: legal candidates as rows of numbers, in chunks, and what they cost."""

    def likely(self) -> Iterator[Ints]:
        """Candidates [N, columns] that are worth little effort, chunk by chunk; all of them where they are few."""

    def every(self) -> Iterator[Ints]:
        """All candidates, chunk by chunk."""


def solve_listed(listing: Listing, effort: str | float = "best", *, leaders: int = 1) -> Solved:
    """The candidates of the lowest costs, so many; of equals those that are listed first.

    ``effort``: 'fast' tries those that are likely, 'best' all of them; a number tries the likely ones, then all while
    so many seconds last. Raises UsageError for an effort that is none of these.
    """
    effort, best = known_effort(effort), Best(listing, leaders)
    for chunk in _chunks(listing, effort):
        best.tried += len(chunk)
        best.take(chunk)
    return Solved(best.leaders(), best.scored, best.tried, best.tried, effort == "best")


def _chunks(listing: Listing, effort: str | float) -> Iterable[Ints]:
    if effort == "best":
        return listing.every()
    if effort == "fast":
        return listing.likely()
    until = time.monotonic() + float(effort)
    return chain(listing.likely(), takewhile(lambda _: time.monotonic() < until, listing.every()))
