"""Cost of a million samples on each chip by its year, today and before, and how fast that fell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import exp, log

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
    Field("samples_per_s", "samples/s", in_unit()),
    Field("now_usd", "USD/million", usd, meaning="a million samples at the cheapest price, no hour idle"),
    Field("ends", "90 %"),
    Field("then_usd", "before", usd, meaning="the same at the cheapest price over a year older than the newest one"),
    Field("hour_usd", "USD/h", usd, meaning="one accelerator of the instance; the old price where there is no other"),
    Field("instance", "instance"),
)


def cost_by_year(found: Sequence[Result], offers: Sequence[Offer]) -> Answer:
    """Report what a million samples cost on each chip by its year, and how fast that fell."""
    costs = money.chip_costs(found, offers)
    shown = [_cost_row(each) for each in costs]
    by_chip = {each["chip"]: each for each in shown}
    wide = money.chip_costs([each for each in found if each.dtype == "fp32"], offers)
    told = year_sentences(found, offers, costs, wide)
    rows = [row(each, **{key: by_chip[each.on][key] for key in KEPT}) for each in found if each.on in by_chip]
    bare = [each.on for each in found if each.on not in by_chip]
    return answer(rows, Table(YEARS, shown), told, partial(_years_picture, costs, wide), bare)


KEPT = ("year", "now_usd", "then_usd", "hour_usd", "instance")
"""Keys of a chip that each of its results has in --csv: costs are those of its fastest one."""


def _cost_row(each: ChipCost) -> Facts:
    ends, offer = each.belief, each.now or each.then
    return {
        "chip": each.on,
        "year": each.chip.year,
        "dtype": each.result.dtype,
        "samples_per_s": each.result.per_s,
        "now_usd": None if each.now is None else each.now_USD,
        "ends": "-" if ends is None else f"{usd(ends.low)} to {usd(ends.high)}",
        "then_usd": _then_USD(each),
        "hour_usd": None if offer is None else offer.each_USD,
        "instance": "" if offer is None else offer.full_name,
    }


def _then_USD(each: ChipCost) -> float | None:
    return None if each.then is None else money.million_USD(each.result, each.then)


def year_sentences(
    found: Sequence[Result], offers: Sequence[Offer], costs: Sequence[ChipCost], wide: Sequence[ChipCost]
) -> list[str]:
    """Say which chip is cheapest, how sure that is, how fast the cost fell, by chips and by prices, and what is odd."""
    priced = sorted((each for each in costs if each.now), key=lambda each: each.now_USD)
    order = [each for each in priced if each.belief] or priced
    if len(order) < 2:
        return ["Fewer than two chips have a price of today."]
    first, second = order[:2]
    told = [
        f"A million samples cost least on {first.on} in {first.result.dtype}: {usd(first.now_USD)} USD"
        f"{_between(first)} ({offered(first.now)}). {second.on} is next, at "
        f"{second.now_USD / first.now_USD:.2f} times that{surely(first.belief, second.belief)}"
    ]
    if (line_now := _line(priced)) is None:
        return told
    cuts = money.price_cuts(offers, [each.chip.name for each in priced])
    both = line_now.slope + cuts.slope
    told += [
        f"At today's prices the cost changes by {_change(line_now)} with each later year of the chip: a line through "
        f"the logarithms of {line_now.points} chips of {_span(priced)}.",
        f"Of {cuts.instances} instances with prices at two dates a year or more apart, {cuts.unchanged} cost the same; "
        f"on average prices change by {exp(cuts.slope) - 1:+.1%} a year, each chip counting once at each provider. "
        f"Chips and prices together: {exp(both) - 1:+.0%} a year, {line_now.slope / both:.0%} of it (in logarithms) "
        f"from chips.",
    ]
    if (plain := _line([each for each in wide if each.now])) is not None:
        told.append(
            f"In FP32 alone the cost changes by {_change(plain)} a year of the chip: narrower formats make up "
            f"{1 - plain.slope / line_now.slope:.0%} of the part of chips."
        )
    large = money.chip_costs(found, [each for each in offers if each.provider.name in money.LARGE])
    if (other := _line([each for each in large if each.now])) is not None:
        told.append(f"With the prices of {', '.join(money.LARGE)} alone it is {_change(other)} ({other.points} chips).")
    off = sorted(priced, key=lambda each: each.now_USD / line_now.at(each.chip.year or 0))
    told.append(
        f"Farthest from the line: {off[-1].on} costs {_off(off[-1], line_now):.2g} times what its year "
        f"suggests, {off[0].on} {_off(off[0], line_now):.2g} times."
    )
    if lacking := [each.on for each in costs if not each.now]:
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


def _years_picture(costs: Sequence[ChipCost], wide: Sequence[ChipCost]) -> Picture | None:
    """Cost over the year of the chip: today's with its interval, earlier ones, that in FP32; lines through them."""
    dated = [each for each in costs if each.chip.year]
    if not dated:
        return None
    spots = dict(zip((each.on for each in dated), _places(dated), strict=True))
    heights = {each.on: each.now_USD if each.now else _then_USD(each) or 1.0 for each in dated}
    marks: list[Mark] = []
    for each in dated:
        name = each.on
        if (ends := each.belief) is not None:
            marks.append(line([spots[name]] * 2, [ends.low, ends.high], color=GREY, linewidth=0.8))
        crowded = any(
            0 < spots[other] - spots[name] < 0.8 and abs(log(heights[other] / heights[name])) < 0.2 for other in heights
        )
        marks.append(
            note(
                spots[name], heights[name], name, (-4 if crowded else 4, 0), "right" if crowded else "left", fontsize=6
            )
        )
    old = [(spots[each.on], cost) for each in dated if (cost := _then_USD(each)) is not None]
    marks.append(points(*_columns(old), "at earlier prices", ORANGE, "D", markersize=3.5, markerfacecolor="none"))
    for some, what, colour, marker in ((wide, "in FP32", GREY, "x"), (dated, "today's cheapest price", BLUE, "o")):
        now = [each for each in some if each.now and each.on in spots]
        marks.append(
            points(*_columns([(spots[each.on], each.now_USD) for each in now]), what, colour, marker, markersize=4)
        )
        if (found := _line(now)) is not None:
            ends_x = [min(spots.values()), max(spots.values())]
            label = f"{exp(found.slope) - 1:+.0%} a year"
            marks.append(line(ends_x, [found.at(x) for x in ends_x], label, colour, "--"))
    title = f"{costs[0].result.model}: cost of a million by year of the chip"
    caption = "fastest format and batch of each chip; bars: 90 % interval of the time"
    y = Axis("USD", scale="log")
    return Picture(5.6, [Panel(title, marks, Axis("year of the chip", whole=True), y, caption, "both")], legend=5)


def _columns(pairs: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in pairs], [y for _, y in pairs]


def _places(costs: Sequence[ChipCost]) -> list[float]:
    """Years, chips of one year a little apart."""
    years = [each.chip.year or 0 for each in costs]
    return [year + 0.16 * years[:at].count(year) - 0.08 * (years.count(year) - 1) for at, year in enumerate(years)]
