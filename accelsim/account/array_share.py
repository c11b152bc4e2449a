"""Split of the time of the arrays: streaming, shifting weights in, waiting, as papers on accelerators count it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from accelsim.time import FS


def array_seconds(stalls: Iterable[dict[str, int]]) -> dict[str, float]:
    """Return what the arrays did and why they waited: key of ``Run.step_stalls`` -> s, all steps together."""
    totals = Counter[str]()
    for reasons in stalls:
        totals.update(reasons)
    return {key: fs * FS for key, fs in totals.items()}


def array_split(stalls: Iterable[dict[str, int]]) -> dict[str, float]:
    """Percent of 'active', 'shift' (weights go in) and 'stall' (waiting for weights), of the three together.

    The first three lines of Table 3 of Jouppi et al., "In-Datacenter Performance Analysis of a Tensor
    Processing Unit", ISCA 2017; what else an array waits for is its fourth line, non-matrix cycles, and not
    in here. Empty when no matrix work was done.
    """
    seconds = array_seconds(stalls)
    keys = {"active": "active", "shift": "shift", "stall": "weights"}
    parts = {name: seconds.get(key, 0.0) for name, key in keys.items()}
    whole = sum(parts.values())
    return {name: 100.0 * part / whole for name, part in parts.items()} if whole else {}
