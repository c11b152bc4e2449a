"""Check ``sram-fit``: the smooth SRAM model against the CACTI runs that it was fitted to."""

from __future__ import annotations

import numpy as np

from accelsim.sram.model import Residual, residuals
from accelsim.sram.terms import CACTI, read_points
from tests.validation.base import Check, check, within

BOUNDS = {
    "read_J": 0.08, "write_J": 0.08, "access_s": 0.10, "area_m2": 0.10, "leakage_W": 0.10, "cycle_s": 0.30,
}  # fmt: skip
"""Quantity -> largest median of the relative errors over the points of one node and cell."""


@check("sram-fit")
def sram_fit() -> Check:
    """Return whether the median residual of each node, cell and quantity is within ``BOUNDS``; errors of all points."""
    found = residuals(read_points(CACTI))
    return Check(
        name="sram-fit",
        what="energy, time, leakage and area of SRAM: the fitted curves against CACTI at 45, 32 and 22 nm",
        rows=len(found),
        equal=sum(holds(each) for each in found),
        errors=np.concatenate([each.errors for each in found]),
        details=[describe(each) for each in found],
        bound=f"median {within([*BOUNDS.values()])}",
    )


def holds(each: Residual) -> bool:
    """Return whether the median is within its bound."""
    return each.quantile(0.5) <= BOUNDS[each.quantity]


def describe(each: Residual) -> str:
    """'45 nm itrs-hp read_J: median 3.7 %, 90th percentile 23.4 %, worst 51.4 % of 51 points (bound 8 %)'."""
    median, p90, worst = (100 * each.quantile(share) for share in (0.5, 0.9, 1.0))
    verdict = "" if holds(each) else " FAILS"
    return (
        f"{each.node_nm} nm {each.cell} {each.quantity}: median {median:.1f} %, 90th percentile {p90:.1f} %, "
        f"worst {worst:.1f} % of {len(each.errors)} points (bound of the median {100 * BOUNDS[each.quantity]:.0f} %)"
        f"{verdict}"
    )
