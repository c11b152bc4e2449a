"""Capacity of a service: the highest rate of requests at which enough of them keep the limits (its goodput)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import NamedTuple

from accelsim.errors import Gather, UsageError
from accelsim.serving.loads import CLOSED

CLOSE = 1.01
"""Ratio of the rates just above and just below a capacity."""
FAR = 2.0**12
"""Ratio of the first rate to the lowest and the highest that are tried."""
CURVE = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Rates of the curve, as shares of the capacity, beside those that the search tried."""
GROWS = 0.05
"""Share of the arriving requests from which on the queue is said to grow."""


class Probe(NamedTuple):
    """A service at a rate, per second: share of requests within all limits, whether it has a steady state, and of each
    latency with a limit the median and the 99th percentile, s."""

    rate: float
    within: float
    steady: bool
    p50_s: Mapping[str, float]
    p99_s: Mapping[str, float]


Service = Callable[[float], Probe]
"""A service at a rate."""


@dataclass(frozen=True)
class Capacity:
    """Result of a search: all probes by rate. Those that are steady, with at least ``share`` of the requests within
    limits, are good."""

    share: float
    probes: tuple[Probe, ...]

    def good(self, probe: Probe) -> bool:
        """Return whether a service keeps the limits at a rate."""
        return probe.steady and probe.within >= self.share

    @cached_property
    def below(self) -> Probe | None:
        """Probe with the highest rate such that all lower ones are good too; None without one."""
        found = None
        for probe in self.probes:
            if not self.good(probe):
                break
            found = probe
        return found

    @cached_property
    def above(self) -> Probe:
        """Probe with the lowest rate that is not good."""
        return next(probe for probe in self.probes if not self.good(probe))


def search(at: Service, share: float, first: float, curve: bool = True, close: float = CLOSE) -> Capacity:
    """Find the capacity of a service by bisection, from a first rate on; ``curve``: probe lower rates too; ``close``:
    ratio of the rates just above and just below it. Raises UsageError where any rate is good, as for a few requests."""
    known: dict[float, Probe] = {}

    def found() -> Capacity:
        return Capacity(share, tuple(known[rate] for rate in sorted(known)))

    def good(rate: float) -> bool:
        known[rate] = at(rate)
        return found().good(known[rate])

    low = high = first
    if good(first):
        while good(high := 2 * high):
            low = high
            if high > FAR * first:
                raise UsageError("the limits are kept at any rate", "--requests", "more requests, or tighter limits")
    else:
        while not good(low := low / 2):
            high = low
            if low * FAR < first:
                return found()
    while high > close * low:
        middle = sqrt(low * high)
        low, high = (middle, high) if good(middle) else (low, middle)
    for part in CURVE if curve else ():
        good(part * low)
    return found()


def read_share(text: str) -> float:
    """Return a share such as '99%' or '0.99'. Raises UsageError."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(f"{text!r}", "--capacity", "a share of the requests, such as 99%")
    return share


def wanted(gather: Gather, text: str, load: str, limits: Mapping[str, float], recorded: bool = False) -> float:
    """Return the share of a text; what a search lacks is kept for later: limits, and requests that come at a rate."""
    gather.refuse(not limits, "no limit", "--capacity", "--limit e2e=15ms, or limits of ttft and tpot")
    fixed = recorded or load.startswith(CLOSED)
    gather.refuse(fixed, "requests that come at no rate", "--capacity", "--load poisson:8/s, whose rate is searched")
    with gather.also():
        return read_share(text)
    return 1.0


def fewest(good: Callable[[int], bool], most: int, near: int = 1) -> int | None:
    """Return the fewest replicas that are good, if more of them never harm; None where ``most`` are not good.

    ``near``: where the search begins.
    """
    known = {0: False}

    def asked(count: int) -> bool:
        if count not in known:
            known[count] = good(count)
        return known[count]

    low, high = 0, min(near, most)
    while not asked(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    step = 1
    while low == 0 and high > 1 and asked(below := max(1, high - step)):
        high, step = below, 2 * step
    low = max(low, max((each for each in known if each < high and not known[each]), default=0))
    while high > low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if asked(middle) else (middle, high)
    return high
