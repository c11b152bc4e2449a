"""Costs of results at prices: by chip and date, trends, winners by batch, loads at which one fleet is cheaper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import ceil, exp, log
from typing import NamedTuple

import numpy as np

from accelsim.account.odds import ENDS, Belief, times
from accelsim.account.price import DAY_S, per_million_USD
from accelsim.explore.saved.results import Result, best
from accelsim.spec.chip import Chip
from accelsim.spec.yaml.chips import load_chip
from accelsim.spec.yaml.instances import OLD_DAYS, Offer, latest

DAY_H = 24
YEAR_DAYS = 365.25
LARGE = ("aws", "azure", "gcp")
"""Providers that have had prices for chips of all years."""


def on_demand(offers: Iterable[Offer], on: str) -> list[Offer]:
    """Return the prices by the hour of instances with this chip, or of this instance of one accelerator."""
    own = (each for each in offers if each.instance.chip == on or (each.full_name == on and each.accelerators == 1))
    return [each for each in own if each.price.term == "on-demand"]


def million_USD(result: Result, offer: Offer) -> float:
    """Return what a million samples cost on one accelerator of an instance, USD."""
    return per_million_USD(offer.each_USD, result.per_s)


def belief(result: Result, scale: float) -> Belief | None:
    """Return ``scale`` times the seconds of a result with its 90 % interval; None where it has none."""
    if result.low_s is None or result.high_s is None:
        return None
    return times(Belief(result.seconds, result.low_s, result.high_s), scale)


def ranked(found: Sequence[Result]) -> list[Result]:
    """Return the results that have an interval, since measurements of their kind were compared; all where none has."""
    return [each for each in found if each.low_s is not None] or list(found)


class ChipCost(NamedTuple):
    """The fastest result of a chip, and its cheapest accelerator by today's prices and by old ones (``OLD_DAYS``)."""

    chip: Chip
    result: Result
    now: Offer | None
    then: Offer | None

    @property
    def on(self) -> str:
        """Name of the chip or its instance, as the sweep has it."""
        return self.result.on

    @property
    def now_USD(self) -> float:
        """Cost of a million samples at today's price, USD; NaN without one."""
        return float("nan") if self.now is None else million_USD(self.result, self.now)

    @property
    def belief(self) -> Belief | None:
        """Cost of a million samples at today's price, with the interval of the time; None without interval or price."""
        return belief(self.result, self.now_USD / self.result.seconds) if self.now else None


def chip_costs(found: Sequence[Result], offers: Sequence[Offer]) -> list[ChipCost]:
    """Return the cost of each chip that has a price, by its year and name."""
    newest = max(each.day for each in offers)
    made = []
    for name in dict.fromkeys(each.on for each in found):
        own = on_demand(offers, name)
        old = [each for each in own if (newest - each.day).days > OLD_DAYS]
        new = [each for each in latest(own) if each not in old]
        if own:
            ends = (min(some, key=lambda each: each.each_USD) if some else None for some in (new, old))
            made.append(ChipCost(load_chip(name), best([each for each in found if each.on == name]), *ends))
    return sorted(made, key=lambda each: (each.chip.year or 0, each.on))


class Trend(NamedTuple):
    """A line through logarithms of costs over years: ``slope`` per year, its 90 % interval, ``start`` at year 0."""

    slope: float
    low: float
    high: float
    start: float
    points: int

    def at(self, year: float) -> float:
        """Return the cost of the line in a year."""
        return exp(self.start + self.slope * year)


def trend(years: Sequence[float], costs: Sequence[float]) -> Trend:
    """Fit ln(cost) = start + slope x year by least squares; three points or more."""
    x, y = np.asarray(years, dtype=np.float64), np.log(costs)
    around = x - x.mean()
    slope = float(around @ y / (around @ around))
    start = float(y.mean() - slope * x.mean())
    left = y - start - slope * x
    error = ENDS * float(np.sqrt(left @ left / (len(x) - 2) / (around @ around)))
    return Trend(slope, slope - error, slope + error, start, len(x))


class Cuts(NamedTuple):
    """Prices of the same instances at two dates: how many, how many did not change, mean change of ln(price) a year."""

    instances: int
    unchanged: int
    slope: float


def price_cuts(offers: Sequence[Offer], chips: Iterable[str]) -> Cuts:
    """Compare the first and the last price of each instance of these chips; each chip counts once at each provider."""
    own = [each for each in offers if each.instance.chip in set(chips) and each.price.term == "on-demand"]
    groups: dict[tuple[str, str], list[float]] = {}
    for _, same in groupby(sorted(own, key=_same), key=_same):
        dated = sorted(same, key=lambda each: each.day)
        years = (dated[-1].day - dated[0].day).days / YEAR_DAYS
        if years >= 1:
            change = log(dated[-1].price.hour_USD / dated[0].price.hour_USD) / years
            groups.setdefault((dated[0].accelerator, dated[0].provider.name), []).append(change)
    changes = [change for group in groups.values() for change in group]
    mean = float(np.mean([np.mean(group) for group in groups.values()])) if groups else 0.0
    return Cuts(len(changes), sum(abs(change) < 1e-9 for change in changes), mean)


def _same(offer: Offer) -> tuple[str, str]:
    return offer.full_name, offer.region


class Win(NamedTuple):
    """A chip that has the least of something from one batch to another, of those tried."""

    chip: str
    first: int
    last: int


def wins(values: Mapping[tuple[str, int], float]) -> list[Win]:
    """Return which chip has the smallest value by rising batch. ``values``: (chip, batch) -> value."""
    found: list[Win] = []
    for batch in sorted({batch for _, batch in values}):
        chip = min((each for each in values if each[1] == batch), key=lambda each: values[each])[0]
        if found and found[-1].chip == chip:
            found[-1] = found[-1]._replace(last=batch)
        else:
            found.append(Win(chip, batch, batch))
    return found


class Fleet(NamedTuple):
    """Instances of one kind that answer requests: ``hour_USD`` and requests a day of each."""

    offer: Offer
    result: Result
    per_day: float

    def day_USD(self, requests: float) -> float:
        """Return what so many requests a day cost, USD: an instance costs its hours, used or not."""
        return max(1, ceil(requests / self.per_day)) * DAY_H * self.offer.price.hour_USD


def fleets(found: Sequence[Result], offers: Sequence[Offer]) -> list[Fleet]:
    """Return the fleets of all instances with a chip of these results, at today's prices.

    An instance answers at the rate of the best batch, times its accelerators: a share of a processor has that share.
    """
    made = []
    newest = max(each.day for each in offers)
    for name in dict.fromkeys(each.on for each in found):
        top = best([each for each in found if each.on == name])
        for offer in latest(on_demand(offers, name)):
            if (newest - offer.day).days <= OLD_DAYS:
                made.append(Fleet(offer, top, top.per_s * offer.accelerators * DAY_S))
    return made


def cheapest_fleet(choices: Sequence[Fleet], requests: float) -> Fleet:
    """Return the fleet that costs least for so many requests a day; of equal ones that of the smallest instance."""
    return min(choices, key=lambda each: (each.day_USD(requests), each.offer.price.hour_USD, each.offer.full_name))


def day_USD(choices: Sequence[Fleet], requests: float) -> float:
    """Return the cost of a day on the cheapest of these fleets, USD."""
    return min(each.day_USD(requests) for each in choices)


def break_even(slow: Sequence[Fleet], fast: Sequence[Fleet]) -> float | None:
    """Return the requests a day beyond which the ``fast`` fleets are cheaper, up to one that fills ten instances of the
    fastest; 0 where they always are, None where they never are."""
    top = 10 * max(each.per_day for each in (*slow, *fast))
    steps = sorted({0.0, *(edge for each in (*slow, *fast) for edge in _edges(each, top))})
    lost = [step for step in steps if day_USD(slow, step) <= day_USD(fast, step)]
    if not lost:
        return 0.0
    return None if lost[-1] == steps[-1] else lost[-1]


def _edges(fleet: Fleet, top: float) -> Iterable[float]:
    """Loads at which one more instance is needed, the last 1,000 of them at most."""
    many = min(int(top / fleet.per_day), 1000)
    return (fleet.per_day * count for count in range(1, many + 1))
