"""What a validation check is, and the list of all checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Check:
    """Outcome of a check: ``equal`` of ``rows`` comparisons agree exactly.

    ``errors`` are relative errors, one per comparison that has one (empty where only equality counts),
    ``details`` lines for people: the first rows that differ, and what was compared.
    """

    name: str
    what: str
    rows: int
    equal: int
    errors: NDArray[np.float64]
    details: list[str] = field(default_factory=list)

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
