"""Validation checks and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from accelsim.types import Floats
from tests.validation.kernel_plot import Compared


@dataclass(frozen=True)
class Check:
    """Outcome of a check: ``equal`` of ``rows`` comparisons agree exactly.

    ``errors`` are relative errors, one per comparison that has one (empty where only equality counts),
    ``details`` lines for people: the first rows that differ, and what was compared. ``bound``: what a row must keep
    to count as equal, in words. ``unclaimed``: rows of the details that are compared without a claim.
    ``compared``: rows for a picture, set by set. ``other_rows``: why these are not the rows that are claimed.
    """

    name: str
    what: str
    rows: int
    equal: int
    errors: Floats
    details: list[str] = field(default_factory=list)
    bound: str = "exact"
    unclaimed: int = 0
    compared: Sequence[Compared] = ()
    other_rows: str = ""

    @property
    def median(self) -> float:
        """Median of the absolute relative errors, 0 when there are none."""
        return self._quantile(0.5)

    @property
    def p90(self) -> float:
        """90th percentile of the absolute relative errors, 0 when there are none."""
        return self._quantile(0.9)

    @property
    def max(self) -> float:
        """Largest absolute relative error, 0 when there are none."""
        return self._quantile(1.0)

    def _quantile(self, share: float) -> float:
        return float(np.quantile(np.abs(self.errors), share)) if self.errors.size else 0.0


def within(bounds: Sequence[float]) -> str:
    """Bounds of rows, as shares, in words: 'exact', 'within 5 %', 'within 0.1-40 %' where rows have their own."""
    limits = sorted({bound for bound in bounds if bound})
    if not limits:
        return "exact"
    texts = [f"{100 * limit:.3g}" if limit >= _AS_PERCENT else f"{limit:.0e}" for limit in limits]
    span = texts[0] if len(texts) == 1 else f"{texts[0]}-{texts[-1]}"
    return f"within {span}" + (" %" if limits[-1] >= _AS_PERCENT else "")


_AS_PERCENT = 1e-4
"""Bounds from here on are written in percent, smaller ones as powers of ten."""


CHECKS: dict[str, Callable[..., Check]] = {}
"""Name on the command line -> check."""


def check(name: str) -> Callable[[Callable[..., Check]], Callable[..., Check]]:
    """Decorator: add a check under ``name``; a second one of that name is a ValueError."""

    def register(function: Callable[..., Check]) -> Callable[..., Check]:
        if name in CHECKS:
            raise ValueError(f"check {name!r} is registered twice")
        CHECKS[name] = function
        return function

    return register
