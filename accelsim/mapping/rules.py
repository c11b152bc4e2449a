"""What tools count differently, as named options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from accelsim.errors import Problem, UsageError


@dataclass(frozen=True)
class Rules:
    """How words are counted.

    ``halo``: rows that two neighbouring tiles of a sliding window share are 'kept', 'fetched' again, or 'innermost':
    kept only where the loop that slides is the innermost one around the tile (of those with two or more iterations).
    ``latched``: what the units hold while only loops advance that are irrelevant to it: 'nothing' (each
    multiply-accumulate reads both operands and adds into its result), their 'inputs', or 'all'.
    ``first_read``: the first time that a sum is brought in it is zero and is 'omitted', or is 'counted'; or it
    is 'revisited': counted where any element is brought in twice, omitted where none is.
    ``refill``: partial sums that come back go to 'one' of the lanes that are summed up, or to 'all'.
    ``drained``: count what a level reads to hand its finished or partial sums outwards.
    ``window``: a tile of a sliding window is the 'union' of the elements that are touched, or the 'interval' around
    them, which differ where the stride is larger than the filter; or 'clipped': the union, but no more than the
    dimension has without its padding (only with ``halo`` 'fetched').
    """

    halo: Literal["kept", "innermost", "fetched"] = "kept"
    latched: Literal["nothing", "inputs", "all"] = "nothing"
    first_read: Literal["omitted", "counted", "revisited"] = "omitted"
    refill: Literal["one", "all"] = "one"
    drained: bool = True
    window: Literal["union", "interval", "clipped"] = "union"

    def __post_init__(self) -> None:
        if self.window == "clipped" and self.halo != "fetched":
            problem = Problem(f"window 'clipped' with halo {self.halo!r}", expected="halo 'fetched'")
            raise UsageError(problem)


OURS = Rules()
"""What hardware needs at least that keeps what it has."""
TIMELOOP = Rules(halo="innermost", refill="all", drained=False, window="interval")
"""Timeloop: partial sums go to all lanes, and the read that hands a sum outwards is not counted."""
TIMELOOP_LATCHED = replace(TIMELOOP, latched="all")
"""Timeloop where lanes stand between the innermost buffer and the units: these hold what does not change."""
ZIGZAG = Rules(halo="fetched", latched="inputs", first_read="revisited", refill="all", window="clipped")
"""ZigZag: units hold inputs, rows of a window are fetched again, first reads count where sums come back at all."""
