"""What a million images cost on each chip by its year, today and before, and how fast that fell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import exp

from accelsim.explore.saved import money
from accelsim.explore.saved.money import ChipCost, Trend
from accelsim.explore.saved.results import Result
from accelsim.report.answer import Answer, Field, Table, in_unit
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, note, points
from accelsim.report.prices import usd
from accelsim.report.saved.common import answer, offered, row, surely
from accelsim.report.style import BLUE, GREY, ORANGE
from accelsim.report.text import Facts
from accelsim.spec.yaml.instances import Offer

YEARS = (
    Field("chip", "chip"),
    Field("year", "year"),
    Field("dtype", "format"),
    Field("batch", "batch"),
    Field("samples_per_s", "images/s", in_unit()),
    Field("now_usd", "USD/million", usd, meaning="a million images at the cheapest price by the hour, all of it used"),
    Field("ends", "90 %"),
    Field("then_usd", "before", usd, meaning="at the cheapest price that is over a year older than the newest one"),
    Field("at", "where"),
)


def cost_by_year(found: Sequence[Result], offers: Sequence[Offer]) -> Answer:
    """Report what a million images cost on each chip by its year, and how fast that fell."""
    costs = money.chip_costs(found, offers)
    shown = [_cost_row(each) for each in costs]
    by_chip = {each["chip"]: each for each in shown}
    told = year_sentences(found, offers, costs)
    rows = [row(each, **{key: by_chip[each.on][key] for key in KEPT}) for each in found if each.on in by_chip]
    return answer(rows, Table(YEARS, shown), told, cost=partial(_years_picture, costs))


KEPT = ("year", "now_usd", "then_usd", "at")
"""Keys of a chip that each of its results has in --csv: costs are those of its fastest one."""


def _cost_row(each: ChipCost) -> Facts:
    ends = each.belief
    return {
        "chip": each.chip.name,
        "year": each.chip.year,
        "dtype": each.result.dtype,
        "batch": each.result.batch,
        "samples_per_s": each.result.per_s,
        "now_usd": None if each.now is None else each.now_USD,
        "ends": "-" if ends is None else f"{usd(ends.low)} to {usd(ends.high)}",
        "then_usd": None if each.then is None else money.million_USD(each.result, each.then),
        "at": offered(each.now) or offered(each.then),
    }


def year_sentences(found: Sequence[Result], offers: Sequence[Offer], costs: Sequence[ChipCost]) -> list[str]:
    """Say which chip is cheapest, how sure that is, how fast the cost fell, by chips and by prices, and what is odd."""
    priced = sorted((each for each in costs if each.now), key=lambda each: each.now_USD)
    first, second = priced[:2]
    told = [
        f"A million images cost least on {first.chip.name} in {first.result.dtype}: {usd(first.now_USD)} USD"
        f"{_between(first)} ({offered(first.now)}). {second.chip.name} is next, at "
        f"{second.now_USD / first.now_USD:.2f} times that{surely(first.belief, second.belief)}"
    ]
    if (line_now := _line(priced)) is None:
        return told
    cuts = money.price_cuts(offers, [each.chip.name for each in priced])
    both = line_now.slope + cuts.slope
    told += [
        f"At today's prices the cost changes by {_change(line_now)} with each later year of the chip: a line through the "
        f"logarithms of {line_now.points} chips of {_span(priced)}.",
        f"Of {cuts.instances} instances with prices at two dates a year or more apart, {cuts.unchanged} cost the same; on "
        f"average prices change by {exp(cuts.slope) - 1:+.1%} a year, each chip counting once at each provider. Chips and "
        f"prices together: {exp(both) - 1:+.0%} a year, {line_now.slope / both:.0%} of it (in logarithms) from chips.",
    ]
    wide = money.chip_costs([each for each in found if each.dtype == "fp32"], offers)
    large = money.chip_costs(found, [each for each in offers if each.provider.name in money.LARGE])
    for what, some in (("In FP32 alone", wide), (f"With {', '.join(money.LARGE)} alone", large)):
        if (other := _line([each for each in some if each.now])) is not None:
            told.append(f"{what}: {_change(other)} a year ({other.points} chips).")
    off = sorted(priced, key=lambda each: each.now_USD / line_now.at(each.chip.year or 0))
    told.append(
        f"Farthest from the line: {off[-1].chip.name} costs {_off(off[-1], line_now):.2g} times what its year suggests, "
        f"{off[0].chip.name} {_off(off[0], line_now):.2g} times."
    )
    if lacking := [each.chip.name for each in costs if not each.now]:
        told.append(f"Only old prices: {', '.join(lacking)}.")
    return told


def _between(cost: ChipCost) -> str:
    ends = cost.belief
    return "" if ends is None else f", 90 %: {usd(ends.low)} to {usd(ends.high)}"


def _line(costs: Sequence[ChipCost]) -> Trend | None:
    dated = [each for each in costs if each.chip.year is not None]
    if len({each.chip.year for each in dated}) < 3:
        return None
    return money.trend([float(each.chip.year or 0) for each in dated], [each.now_USD for each in dated])


def _change(found: Trend) -> str:
    return f"{exp(found.slope) - 1:+.0%} (90 %: {exp(found.low) - 1:+.0%} to {exp(found.high) - 1:+.0%})"


def _span(costs: Sequence[ChipCost]) -> str:
    years = [each.chip.year for each in costs if each.chip.year]
    return f"{min(years)} to {max(years)}"


def _off(cost: ChipCost, found: Trend) -> float:
    return cost.now_USD / found.at(cost.chip.year or 0)


def _years_picture(costs: Sequence[ChipCost]) -> Picture:
    """Cost over the year of the chip: today's with its interval, earlier ones, the line."""
    marks: list[Mark] = []
    now = [each for each in costs if each.now and each.chip.year]
    places = _places(now)
    for each, x in zip(now, places, strict=True):
        if ends := each.belief:
            marks.append(line([x, x], [ends.low, ends.high], color=GREY, linewidth=0.8))
        marks.append(note(x, each.now_USD, each.chip.name, (4, 0), fontsize=6))
    marks.append(points(places, [each.now_USD for each in now], "today's cheapest price", BLUE, markersize=4))
    old = [each for each in costs if each.then and each.chip.year]
    before = [money.million_USD(each.result, each.then) for each in old if each.then]
    spots = dict(zip((each.chip.name for each in now), places, strict=True))
    xs = [spots.get(each.chip.name, float(each.chip.year or 0)) for each in old]
    marks.append(points(xs, before, "before (2021 to 2025)", ORANGE, "D", markersize=3.5, markerfacecolor="none"))
    if (found := _line(now)) is not None:
        ends_x = [min(places), max(places)]
        marks.append(line(ends_x, [found.at(x) for x in ends_x], f"{exp(found.slope) - 1:+.0%} a year", BLUE, "--"))
    panel = Panel(
        "A million ResNet-50 images by year of the chip",
        marks,
        Axis("year of the chip", whole=True),
        Axis("USD", scale="log"),
        "fastest format and batch of each chip; bars: 90 % interval of the time",
        "both",
    )
    return Picture(5.6, [panel], legend=3)


def _places(costs: Sequence[ChipCost]) -> list[float]:
    """Years, chips of one year a little apart."""
    years = [each.chip.year or 0 for each in costs]
    return [year + 0.16 * years[:at].count(year) - 0.08 * (years.count(year) - 1) for at, year in enumerate(years)]
