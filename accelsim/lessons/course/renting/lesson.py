"""Lesson 14: eight H100 of your own against offers for rent; the load decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from numpy.random import Generator

from accelsim import run
from accelsim.account.price import YEAR_H, Ownership, per_thousand_USD
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet
from accelsim.lessons.compare import answer, number, numbers, same

CHIP, MODEL, BATCH = "h100-sxm", "resnet50", 32
COUNT, RATED_W, COLOCATION = 8, 10_200, 150
"""Accelerators of the machine, its rated power, USD per kW and month of its place."""
PARTS = ("capital", "power", "place", "staff")
HOURS, ALWAYS = "hours used", "all hours"
LOADS = tuple(each / 20 for each in range(1, 21))


class Offer(NamedTuple):
    """An offer for rent: USD for an accelerator and hour; paid for the hours used, or for all."""

    name: str
    hour: float
    pays: str


class Numbers(NamedTuple):
    """The machine of a student, three offers, the load of the question."""

    price: int
    years: int
    interest: float
    offers: tuple[Offer, ...]
    load: float


@cache
def rate() -> float:
    """Pictures per second of one accelerator that always works, simulated."""
    done = run(MODEL, CHIP, batch=BATCH, values="off", edges="outside")
    return BATCH / done.latency_s


def owned(numbers: Numbers) -> Ownership:
    """Return the machine of a student, which draws its rated power day and night."""
    return Ownership(
        numbers.price, COUNT, numbers.years, RATED_W, 0.10, residual=0.2, interest=numbers.interest, pue=1.3,
        kW_month_USD=COLOCATION, operations=0.05,
    )  # fmt: skip


def machine(own: Ownership) -> dict[str, float]:
    """Return a machine as the student's functions get it."""
    return {
        "price": own.price_USD, "left": own.residual, "years": own.years, "interest": own.interest,
        "kW": own.power_W / 1e3, "pue": own.pue, "kWh": own.kWh_USD, "kW_month": own.kW_month_USD,
        "staff": own.operations,
    }  # fmt: skip


def cheapest(own: Ownership, offers: tuple[Offer, ...], load: float) -> str:
    """Return the name of the cheapest way to have an accelerator work for that share of a year."""
    costs = {each.name: each.hour * YEAR_H * (load if each.pays == HOURS else 1.0) for each in offers}
    costs["own"] = own.yearly.total / own.accelerators
    return min(costs, key=lambda name: costs[name])


class Renting(Lesson):
    """Lesson 14: rent or buy."""

    number, title, file, minutes = 14, "Rent or buy", "renting.py", 30
    idea = "An owned machine costs the same whether it works or not: the load decides whether to buy it."
    steps = (
        "a year of an owned machine",
        "an hour of work",
        "the cheapest offer",
        "a million pictures",
        "the question",
    )

    def draw(self, rng: Generator) -> Numbers:
        offers = (
            Offer("cloud", int(rng.integers(55, 75)) / 10, HOURS),
            Offer("small provider", int(rng.integers(26, 34)) / 10, HOURS),
            Offer("three years", int(rng.integers(16, 20)) / 10, ALWAYS),
        )
        price, years = 5000 * int(rng.integers(54, 66)), int(rng.integers(4, 7))
        return Numbers(price, years, int(rng.integers(4, 10)) / 100, offers, int(rng.integers(45, 75)) / 100)

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        rows = [f"| {each.name} | {each.hour:.2f} USD | {each.pays} |" for each in numbers.offers]
        own = machine(owned(numbers))
        return {
            "price": f"{numbers.price:,}", "years": numbers.years, "interest": f"{100 * numbers.interest:.0f}",
            "offers": "\n".join(rows), "rent": f"{numbers.offers[1].hour:.2f}", "rate": f"{rate():,.0f}",
            "load": f"{100 * numbers.load:.0f}", "machine": own,
        }  # fmt: skip

    def check(self, ask: Ask, numbers_: Numbers, sheet: Sheet) -> Iterator[None]:
        own = owned(numbers_)
        for name, each in (
            ("your machine", own),
            ("a machine that is worth nothing at the end", replace(own, residual=0.0)),
            ("a machine without interest", replace(own, interest=0.0)),
            ("a machine for one year", replace(own, years=1)),
        ):
            got = ask("yearly", machine(each))
            sheet["parts"] = got
            rule = (
                "capital (price - left x price / (1 + i)^years) x i / (1 - (1 + i)^-years), or / years without interest"
            )
            rule += "; power kW x pue x 8760 x kWh; place 12 x kW_month x kW; staff x price"
            numbers(f"yearly({name})", PARTS, each.yearly, got, rule, 1e-6)
        yield
        sheet["hours"] = hours = []
        for load in LOADS:
            got = ask("used_hour", own.yearly.total, COUNT, load)
            hours.append(got)
            rule = (
                "the cost of a year over the hours of all accelerators in which they work: 8760 x accelerators x load"
            )
            number(f"used_hour(load {load:g})", replace(own, load=load).used_hour_USD, got, rule, 1e-6)
        yield
        sheet["chosen"] = chosen = []
        for load in LOADS:
            offers = [tuple(each) for each in numbers_.offers]
            got = ask("cheapest", own.yearly.total / COUNT, offers, load)
            chosen.append(got)
            rule = "compare a year: 8760 x load x price for hours used, 8760 x price for all hours, own as it is"
            same(f"cheapest at a load of {load:g}", cheapest(own, numbers_.offers, load), got, rule)
        yield
        for load in (numbers_.load, 1.0):
            hour = replace(own, load=load).used_hour_USD
            rule = "an hour of work makes 3600 x per_s pictures"
            got = ask("per_million", hour, rate())
            number(f"per_million({hour:.4f}, {rate():.1f})", 1000 * per_thousand_USD(hour, rate()), got, rule, 1e-6)
        yield
        rule = "the year of an owned accelerator equals 8760 x load x rent: solve for the load"
        answer(ask, 100 * own.break_even_load(numbers_.offers[1].hour), rule)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """The student's cost of an hour over load beside the offers, and what was chosen at each load."""
        from accelsim.report.style import BLUE, FAINT, GREEN, GREY, ORANGE, PURPLE

        top, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        names = ["own", *(each.name for each in numbers.offers)]
        colours = dict(zip(names, (BLUE, ORANGE, GREEN, PURPLE), strict=True))
        for each in numbers.offers:
            hours = [each.hour / (1 if each.pays == HOURS else load) for load in LOADS]
            top.plot(LOADS, hours, color=colours[each.name], label=f"{each.name} (paid for {each.pays})")
        mine = [each if isinstance(each, int | float) else None for each in sheet.get("hours", [])]
        places = [load for load, each in zip(LOADS, mine, strict=False) if each is not None]
        top.plot(places, [each for each in mine if each is not None], "o-", color=BLUE, ms=3, label="own (yours)")
        top.set(
            ylabel="USD for an hour of work", ylim=(0, 1.3 * numbers.offers[0].hour), title="What an hour of work costs"
        )
        top.grid(True, color=FAINT)
        top.legend()
        for load, name in zip(LOADS, sheet.get("chosen", []), strict=False):
            known = isinstance(name, str) and name in colours
            below.bar(load, 1, 0.045, color=colours[name] if known else GREY)
        below.set(xlabel="load", yticks=[], xlim=(0, 1.03), title="Your choice at each load (colours as above)")


LESSON = Renting()
