"""Energy of an SRAM between the sizes of a table."""

from __future__ import annotations

from itertools import pairwise
from math import log

from accelsim.spec.energy import SramPoint


def sram_J_per_B(points: list[SramPoint], capacity_B: float, write: bool = False) -> float:
    """Energy of one byte into or out of an SRAM: linear in log(capacity) between the points of the table.

    Below the first point: the first point. Beyond the last: the power law through the last two. (CACTI, 45 nm
    hp, 64-bit reads: 32 KB 14.9 pJ, 1 MB 67.7 pJ, 64 MB 457 pJ; the power law says 417 pJ, a straight line
    131 pJ.)
    """
    table = sorted((float(p.capacity), float(p.write if write else p.read)) for p in points)
    if capacity_B <= table[0][0] or len(table) == 1:
        return table[0][1]
    for (small, low), (large, high) in pairwise(table):
        if capacity_B <= large:
            between = low + (high - low) * log(capacity_B / small) / log(large / small)
            return min(max(between, min(low, high)), max(low, high))  # rounding never leaves the two
    (small, low), (large, high) = table[-2:]
    if low <= 0 or high <= low:
        return high
    return float(high * (capacity_B / large) ** (log(high / low) / log(large / small)))
