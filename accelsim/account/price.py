"""Money: what rented time, owned machines, predictions, tokens and trainings cost. USD, s, W; shares are of 1."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, expm1, log1p, pi, sqrt
from typing import NamedTuple

HOUR_S = 3600.0
DAY_S = 86400.0
YEAR_H = 8760.0
MONTHS = 12
FLOP_PER_WEIGHT_AND_TOKEN = 6
"""Operations of a training per weight and token: forward once, backward twice, a multiply-add counts as two
(Kaplan et al. 2020, section 2.1)."""


@dataclass(frozen=True)
class Rent:
    """Rent of an instance: ``hour_USD`` for an hour, billed in pieces of ``step_s``, at least ``least_s``.

    A ``step_s`` of 0 bills the time as it is.
    """

    hour_USD: float
    step_s: float = 0.0
    least_s: float = 0.0

    def billed_s(self, seconds: float) -> float:
        """Return the time that is billed for ``seconds``, s."""
        whole = ceil(seconds / self.step_s) * self.step_s if self.step_s else seconds
        return max(whole, self.least_s)

    def cost_USD(self, seconds: float, instances: int = 1) -> float:
        """Return what so many instances cost for ``seconds``, USD."""
        return self.hour_USD * instances * self.billed_s(seconds) / HOUR_S


def per_thousand_USD(hour_USD: float, per_s: float) -> float:
    """Return what 1,000 predictions cost, USD: ``per_s`` of them in a second of a machine that costs ``hour_USD``."""
    return hour_USD / (per_s * HOUR_S) * 1e3


def per_million_USD(hour_USD: float, per_s: float, load: float = 1.0) -> float:
    """Return what a million tokens cost, USD: ``per_s`` of them in a second at full load, ``load`` of it used."""
    return hour_USD / (per_s * HOUR_S * load) * 1e6


def per_million_split_USD(
    hour_USD: float, prefill_s: float, tokens_in: float, decode_s: float, tokens_out: float
) -> tuple[float, float]:
    """Return what a million tokens in and a million tokens out cost, USD, of requests of ``tokens_in`` and
    ``tokens_out``: each pays for the time of its own phase."""
    second_USD = hour_USD / HOUR_S
    return second_USD * prefill_s / tokens_in * 1e6, second_USD * decode_s / tokens_out * 1e6


def training_flop(weights: float, tokens: float) -> float:
    """Return the operations of a training of a dense transformer (``FLOP_PER_WEIGHT_AND_TOKEN``)."""
    return FLOP_PER_WEIGHT_AND_TOKEN * weights * tokens


def accelerator_hours(flop: float, rate: float, goodput: float = 1.0) -> float:
    """Return the hours of accelerators that do ``rate`` operations per second each; ``goodput``: share of the time in
    which the training goes on, the rest being lost to failures."""
    return flop / rate / goodput / HOUR_S


class Yearly(NamedTuple):
    """Parts of the yearly cost of owned machines, USD."""

    capital: float
    power: float
    colocation: float
    operations: float

    @property
    def total(self) -> float:
        """Sum of the parts, USD."""
        return sum(self)


@dataclass(frozen=True)
class Ownership:
    """Owned machines: ``price_USD`` paid once for ``accelerators``, kept for ``years``, then worth ``residual`` of it.

    ``interest``: per year. ``power_W``: at full load, ``idle_W`` without any; times ``pue`` for cooling and losses, at
    ``kWh_USD``. ``kW_month_USD``: colocation by ``rated_W`` (None: the power at full load). ``operations``: of the
    price, per year. ``load``: share of the hours in which the accelerators work.
    """

    price_USD: float
    accelerators: int
    years: float
    power_W: float
    kWh_USD: float
    idle_W: float | None = None
    residual: float = 0.0
    interest: float = 0.0
    pue: float = 1.0
    kW_month_USD: float = 0.0
    operations: float = 0.0
    load: float = 1.0
    rated_W: float | None = None

    @property
    def mean_W(self) -> float:
        """Power over the year, W: that of full load where the idle power is not known."""
        idle = self.power_W if self.idle_W is None else self.idle_W
        return idle + (self.power_W - idle) * self.load

    @property
    def recovery(self) -> float:
        """Share of a loan that each of equal yearly payments is (capital recovery factor)."""
        if not self.interest:
            return 1 / self.years
        return self.interest / -expm1(-self.years * log1p(self.interest))

    @property
    def yearly(self) -> Yearly:
        """Cost of a year, by parts."""
        kept = self.residual * (1 + self.interest) ** -self.years
        return Yearly(
            self.price_USD * (1 - kept) * self.recovery,
            self.mean_W / 1e3 * self.pue * YEAR_H * self.kWh_USD,
            MONTHS * self.kW_month_USD * (self.power_W if self.rated_W is None else self.rated_W) / 1e3,
            self.operations * self.price_USD,
        )

    @property
    def used_hour_USD(self) -> float:
        """Cost of an hour in which an accelerator works, USD."""
        return self.yearly.total / (YEAR_H * self.accelerators * self.load)

    def break_even_load(self, hour_USD: float) -> float:
        """Return the load from which owning is cheaper than renting an accelerator for ``hour_USD`` in the hours that
        it works; above 1 where it never is, infinite for a rent below the power of a working hour."""
        idle_W = self.power_W if self.idle_W is None else self.idle_W
        kW_year_USD = self.pue * YEAR_H * self.kWh_USD / 1e3
        fixed = self.yearly.total - (self.mean_W - idle_W) * kW_year_USD
        rising = self.accelerators * YEAR_H * hour_USD - (self.power_W - idle_W) * kW_year_USD
        return fixed / rising if rising > 0 else float("inf")

    def break_even_months(self, hour_USD: float) -> float:
        """Return the months after which rents that are not paid have paid for the machines, interest left out;
        infinite where running them costs as much as the rent."""
        parts = self.yearly
        saved = self.accelerators * YEAR_H * self.load * hour_USD - (parts.total - parts.capital)
        return MONTHS * self.price_USD / saved if saved > 0 else float("inf")


class Wafer(NamedTuple):
    """A processed wafer: price, defects that kill a die, how much these cluster (small: more), diameter."""

    price_USD: float
    defects_per_m2: float
    clustering: float
    diameter_m: float = 0.3


def dies_per_wafer(die_m2: float, diameter_m: float = 0.3) -> float:
    """Return how many dies a wafer holds without those that its edge cuts (Hennessy and Patterson, 6th ed., 1.6)."""
    return max(pi * (diameter_m / 2) ** 2 / die_m2 - pi * diameter_m / sqrt(2 * die_m2), 0.0)


def die_yield(die_m2: float, defects_per_m2: float, clustering: float) -> float:
    """Return the share of good dies by the negative binomial model.

    With N x D defects and a clustering of N it is the Bose-Einstein formula of Hennessy and Patterson (6th ed., 1.6).
    """
    return float((1 + die_m2 * defects_per_m2 / clustering) ** -clustering)


def good_die_USD(die_m2: float, wafer: Wafer) -> float:
    """Return what a good die costs, USD: its share of the price of a wafer; no test, package, masks or design."""
    good = dies_per_wafer(die_m2, wafer.diameter_m) * die_yield(die_m2, wafer.defects_per_m2, wafer.clustering)
    return wafer.price_USD / good
