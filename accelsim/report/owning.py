"""Machines that could be bought for some work, rents of the same accelerators, and the assumptions about both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from accelsim.account.price import YEAR_H, Ownership
from accelsim.errors import Gather, Problem, UsageError, nearest
from accelsim.report.at_work import AtWork, Duty, Purchase, at_work, bought
from accelsim.report.bill import Cost, steady
from accelsim.spec.instance import Provider
from accelsim.spec.site import Owning
from accelsim.spec.yaml.chips import load_site
from accelsim.spec.yaml.instances import OLD_DAYS, Offer, chosen, latest, load_providers, offers, rented
from accelsim.units import amount

PAID_FOR_ALL_HOURS = ("reserved-1y", "reserved-3y")
"""Terms whose time is paid for whether it is used or not."""
LARGEST = 1e15
"""Limit of prices and grams that a user may state; more is a slip."""
YOURS = "--rent"
"""Name of a rent that the user states."""


class Quote(NamedTuple):
    """A rent of an accelerator: ``hour_USD`` for an hour, at whom, and since when."""

    name: str
    hour_USD: float
    term: str = "on-demand"
    region: str = ""
    as_of: str = ""
    source: str = "yours"
    old: bool = False

    def used_USD(self, load: float) -> float:
        """Return what an hour costs in which an accelerator works, USD."""
        return self.hour_USD / load if self.term in PAID_FOR_ALL_HOURS else self.hour_USD


def rents(found: Sequence[Offer], everything: Sequence[Offer]) -> list[Quote]:
    """Return the cheapest rent of an accelerator at each provider, cheapest first; old prices only of providers that
    have no others. ``everything``: all prices there are, which say what is old."""
    newest = max(each.day for each in everything)
    cheapest: dict[str, Quote] = {}
    for each in found:
        price, provider = each.price, each.provider
        old = (newest - each.day).days > OLD_DAYS
        source = provider.sources[price.source].text
        hour_USD = each.each_USD
        one = Quote(each.full_name, hour_USD, price.term, each.region, price.as_of, source, old)
        other = cheapest.get(provider.name)
        if other is None or (one.old, one.hour_USD) < (other.old, other.hour_USD):
            cheapest[provider.name] = one
    return sorted(cheapest.values(), key=lambda each: (each.hour_USD, each.name))


@dataclass(frozen=True)
class RentOrBuy:
    """Owned machines at work, the rents that they compete with, and the assumptions about both."""

    work: AtWork
    owning: Owning
    usual: Owning
    site: str
    price: Purchase
    rents: Sequence[Quote]
    own: Sequence[Quote] = ()
    grid_g_per_kWh: float | None = None

    @cached_property
    def owned(self) -> Ownership:
        """Owned machines under the assumptions."""
        site, work = self.owning, self.work
        idle_W = work.idle_W if site.idle_power is None else site.idle_power
        return Ownership(
            self.price.usd, work.accelerators, site.years, self.power_W, site.power_price, idle_W, site.residual,
            site.interest, site.pue, site.colocation, site.operations, site.load, self.price.rated_W,
        )  # fmt: skip

    @property
    def power_W(self) -> float:
        """Power at full load: as simulated, unless the site states it."""
        return self.work.power_W if self.owning.power is None else self.owning.power

    @property
    def parts_USD(self) -> dict[str, float]:
        """Parts of the cost of an hour in which an accelerator works."""
        hours = YEAR_H * self.owned.accelerators * self.owned.load
        return {name: value / hours for name, value in self.owned.yearly._asdict().items()}

    @property
    def named(self) -> dict[str, Quote]:
        """Rents that are compared: the cheapest, the median one, the user's own or that of the instance asked for."""
        count = len(self.rents)
        known = {"cheapest": self.rents[0]} if count else {}
        known |= {"median": self.rents[(count - 1) // 2]} if count > 2 else {}
        return known | {"yours" if each.name == YOURS else "own": each for each in self.own}

    def even_load(self, rent: Quote) -> float | None:
        """Return the load from which owning is cheaper; None for a rent that is paid for all hours."""
        return None if rent.term in PAID_FOR_ALL_HOURS else self.owned.break_even_load(rent.hour_USD)

    def months(self, rent: Quote) -> float:
        """Return the months after which rents that are not paid have paid for the machines."""
        return self.owned.break_even_months(rent.used_USD(self.owned.load))

    def costs(self, used_USD: float) -> list[Cost]:
        """Return the cost of samples or tokens at this price of an accelerator and hour."""
        return steady(self.work.facts, used_USD * self.owned.accelerators / self.work.copies)

    @property
    def grams_per_used_hour(self) -> float | None:
        """CO2 per hour in which an accelerator works, g; None where no grid is given."""
        own = self.owned
        if self.grid_g_per_kWh is None:
            return None
        return own.mean_W / 1e3 * own.pue * self.grid_g_per_kWh / (own.accelerators * own.load)


@dataclass(frozen=True)
class Assumptions:
    """Assumptions of a site, changed and as they are, prices, and figures of the user's own."""

    site: str
    owning: Owning
    usual: Owning
    providers: Mapping[str, Provider]
    price_USD: float | None = None
    rent_USD: float | None = None
    grid_g_per_kWh: float | None = None

    def choice(self, job: Duty, term: str = "on-demand", providers: tuple[str, ...] = ()) -> RentOrBuy:
        """Simulate the work, and find the price of the machines and the rents of their accelerators."""
        work = at_work(job)
        price = bought(work, self.owning, self.price_USD)
        everything = offers(self.providers)
        known = chosen(everything, providers=providers)
        alike = [each for each in known if each.instance.chip == work.chip and each.price.term == term]
        own = [] if self.rent_USD is None else [Quote(YOURS, self.rent_USD)]
        if found := rented(job.on, self.providers, (term,)):
            own = [*own, *rents([found[1]], everything)]
        alike = latest(alike)
        return RentOrBuy(
            work, self.owning, self.usual, self.site, price, rents(alike, everything), own, self.grid_g_per_kWh
        )


def question(
    gather: Gather, site: str, changes: Sequence[str] = (), own: Path | None = None, price: str = "", rent: str = "",
    grid: str = "", providers: Sequence[str] = (),
) -> Assumptions:  # fmt: skip
    """Read the texts of a question. Raises all problems at once.

    ``changes``: of the site, as '--set' has them; ``own``: a file of the user's prices; ``providers``: of rents.
    """
    figures: list[float | None] = []
    for text, unit, named in ((price, "USD", "--price"), (rent, "USD/h", "--rent"), (grid, "g/kWh", "--grid")):
        with gather.also():
            figures.append(_above_0(text, unit, named) if text else None)
    with gather.also():
        known = load_providers(own)
        UsageError.raise_for(
            Problem(f"no provider {name!r}", "--providers", f"one of {', '.join(known)}", nearest(name, known))
            for name in providers
            if name not in known
        )
    with gather.also():
        usual = changed = load_site(site)
        changed = load_site(site, changes)
    gather.done()
    if usual.owning is None or changed.owning is None:
        raise UsageError(f"{site} states nothing about owned machines", "--site", "a site with 'owning:'")
    return Assumptions(site, changed.owning, usual.owning, known, *figures)


def _above_0(text: str, unit: str, named: str) -> float:
    value = float(amount(text, unit, named))
    if not 0 < value < LARGEST:
        raise UsageError(f"{text!r} is out of range", named, f"more than 0 and less than {LARGEST:g} {unit}")
    return value
