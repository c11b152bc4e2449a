"""Answer to the question whether to rent or to buy machines for some work: costs, break-even, assumptions, picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import isfinite
from typing import NamedTuple

import numpy as np

from accelsim.errors import count_of
from accelsim.report.answer import Answer, Definitions, Field, Lines, Part, Table, notes
from accelsim.report.owning import YOURS, Quote, RentOrBuy
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, note, points
from accelsim.report.prices import usd
from accelsim.report.style import BLUE, FAINT, GREEN, INK, ORANGE, VERMILLION
from accelsim.report.text import Facts, percent, si

UNITS = {
    "power_price": "USD/kWh", "pue": "", "colocation": "USD/kW-month", "years": "",
    **dict.fromkeys(("residual", "interest", "operations", "load"), "%"),
}  # fmt: skip
"""Assumption of a site -> its unit."""
COLORS = {"cheapest": GREEN, "median": ORANGE, "own": VERMILLION, "yours": VERMILLION}
"""Rents that are named -> their colours."""
WORDS = {
    "cheapest": "cheapest rent",
    "median": "median rent",
    "own": "rent of the instance",
    "yours": "rent of your own",
}
"""Rents that are compared -> their names."""
LOADS = np.linspace(0.05, 1.0, 96)
MOST_YEARS = 8.0
"""Years in the picture, unless more are asked for."""
OFF = 2.0
"""Load above the picture, where owning is never cheaper."""


def rent_or_buy(choice: RentOrBuy) -> Answer:
    """Report whether to rent or to buy."""
    own, found = choice.owned, list(_assumptions(choice))
    owned, *rented = rows = [_owned_row(choice), *(_row(choice, each) for each in (*choice.own, *choice.rents))]
    named = {who: _row(choice, each) for who, each in choice.named.items()}
    told, noted = sentences(choice), list(_noted(choice))
    facts = {
        "model": choice.work.facts["model"],
        "on": choice.work.job.on,
        "accelerator": choice.work.chip,
        "accelerators": own.accelerators,
        "work": choice.work.words,
        "load": own.load,
        "assumptions": [each._asdict() for each in found],
        "yearly_usd": {**own.yearly._asdict(), "total": own.yearly.total},
        "used_hour_usd": {**choice.parts_USD, "total": own.used_hour_USD},
        "owned": owned,
        "rented": rented,
        "named": named,
        "sentences": told,
        "notes": noted,
    }
    compared = [{"who": "owned", **owned}, *({"who": who, **row} for who, row in named.items())]
    shown: list[Part] = [
        " ".join(told),
        "",
        Table(_fields(choice), compared, legend=f"At a load of {percent(own.load)}"),
        "",
        _parts_table(choice),
        "",
        Lines("Assumptions:"),
        Definitions([(each.shown, each.source) for each in found]),
        *notes(noted),
    ]
    return Answer(facts, shown, rows, {"rent_or_buy": partial(_picture, choice)})


class Assumption(NamedTuple):
    """A figure that the answer rests on, and where it comes from."""

    key: str
    value: float | None
    shown: str
    source: str


def _assumptions(choice: RentOrBuy) -> Iterator[Assumption]:
    """Yield all figures that the answer rests on, but rents, which have their own sources."""
    own, site, work = choice.owned, choice.owning, choice.work
    yield Assumption("price", own.price_USD, f"price {usd(own.price_USD)} USD", choice.price.source)
    by_spec = "the spec" if own.idle_W is not None else "not known: power at work all the time"
    powers = (
        ("power", own.power_W, f"simulated: {work.words}"),
        ("idle_power", own.idle_W, by_spec),
        ("rated_power", own.rated_W or own.power_W, "as at work" if own.rated_W is None else choice.price.source),
    )
    for key, value, source in powers:
        stated = getattr(site, key, None) is not None
        told = site.sources.get(key, "stated") if stated else source
        yield Assumption(key, value, f"{key.replace('_', ' ')} {si(value, 'W')}", told)
    for key, unit in UNITS.items():
        value, usual = getattr(site, key), getattr(choice.usual, key)
        source = site.sources.get(key, "no source")
        told = source if value == usual else f"yours; {choice.site} has {_spelled(usual, unit)}"
        yield Assumption(key, value, f"{key.replace('_', ' ')} {_spelled(value, unit)}", told)
    if (grid := choice.grid_g_per_kWh) is not None:
        yield Assumption("grid", grid, f"grid {grid:.10g} g/kWh", "--grid")


def _spelled(value: float, unit: str) -> str:
    return f"{100 * value:.4g} %" if unit == "%" else f"{value:.10g} {unit}".strip()


def _owned_row(choice: RentOrBuy) -> Facts:
    """The owned machines for JSON and CSV."""
    grams = choice.grams_per_used_hour
    row: Facts = {"instance": f"owned: {choice.work.job.on}", "usd_per_used_hour": choice.owned.used_hour_USD}
    row |= _costs(choice, choice.owned.used_hour_USD)
    row["energy_usd_per_used_hour"] = choice.parts_USD["power"]
    row |= {each.key.replace("usd", "energy_usd"): each.usd for each in choice.costs(choice.parts_USD["power"])}
    if grams is not None:
        row["co2_g_per_used_hour"] = grams
        row |= {each.key.replace("usd", "co2_g"): each.usd for each in choice.costs(grams)}
    return row


def _row(choice: RentOrBuy, rent: Quote) -> Facts:
    """A rent for JSON and CSV."""
    used_USD = rent.used_USD(choice.owned.load)
    return {
        "instance": rent.name,
        "usd_per_used_hour": used_USD,
        **_costs(choice, used_USD),
        "break_even_load": choice.even_load(rent),
        "break_even_months": choice.months(rent),
        **{key: value for key, value in rent._asdict().items() if key not in ("name", "hour_USD")},
        "usd_per_accelerator_hour": rent.hour_USD,
    }


def _costs(choice: RentOrBuy, used_USD: float) -> Facts:
    found: Facts = {}
    for each in choice.costs(used_USD):
        low, high = each.key.replace("usd", "low_usd"), each.key.replace("usd", "high_usd")
        found |= {each.key: each.usd, low: each.low, high: each.high}
    return found


def _fields(choice: RentOrBuy) -> list[Field]:
    """The columns of the comparison: who, an hour, samples or tokens, break-even."""
    found = [
        Field("who", "rent"),
        Field("instance", "instance"),
        Field("usd_per_used_hour", "USD/h", usd, meaning="an accelerator and hour in which it works"),
    ]
    found += [Field(each.key, each.of, usd, meaning="USD") for each in choice.costs(1.0)]
    load = Field("break_even_load", "buy from", lambda row: _load_text(row.get("break_even_load", "")), True)
    months = Field("break_even_months", "pays back", lambda row: _months_text(row.get("break_even_months")), True)
    return [
        *found,
        load._replace(meaning="load from which owning is cheaper"),
        months._replace(meaning="months of this rent at this load that pay for the machines, interest left out"),
    ]


def _load_text(load: float | str | None) -> str:
    if isinstance(load, str):
        return load
    return "-" if load is None else percent(load) if load <= 1 else "never"


def _months_text(months: float | None) -> str:
    if months is None:
        return ""
    return f"{months:.0f} months" if isfinite(months) else "never"


def _parts_table(choice: RentOrBuy) -> Table:
    """The cost of owning by parts."""
    yearly = choice.owned.yearly
    years, hours = ({**parts, "total": sum(parts.values())} for parts in (yearly._asdict(), choice.parts_USD))
    fields = (
        Field("part", "owning"),
        Field("year", "USD per year", usd),
        Field("hour", "USD/h", usd),
        Field("share", "share", percent),
    )
    rows = [
        {"part": part, "year": year, "hour": hours[part], "share": year / yearly.total} for part, year in years.items()
    ]
    return Table(fields, rows)


def sentences(choice: RentOrBuy) -> list[str]:
    """Return the answer in words, each figure computed."""
    own, load = choice.owned, percent(choice.owned.load)
    told = [
        f"At a load of {load}, an hour in which an accelerator works costs {usd(own.used_hour_USD)} USD owned.",
        f"Owned, {' and '.join(f'a {cost.of} cost {cost.text}' for cost in choice.costs(own.used_hour_USD))}.",
    ]
    if not choice.named:
        told.append(f"No rent of {choice.work.chip} is known to compare with.")
    for who, rent in choice.named.items():
        told.append(_against(choice, who, rent))
    if choice.rents:
        beaten = sum(own.used_hour_USD < each.used_USD(own.load) for each in choice.rents)
        told.append(f"At this load owning is cheaper than {beaten} of {count_of(len(choice.rents), 'rent')}.")
    parts = own.yearly
    power = f"{percent(parts.power / parts.total)} is energy, {usd(choice.parts_USD['power'])} USD/h"
    told.append(f"Of the cost of owning, {percent(parts.capital / parts.total)} is capital and {power}.")
    if (grams := choice.grams_per_used_hour) is not None:
        told.append(f"That energy is {si(grams)} g of CO2 for an hour in which an accelerator works.")
    return told


def _against(choice: RentOrBuy, who: str, rent: Quote) -> str:
    """Compare owning with one rent."""
    even, name = choice.even_load(rent), "" if rent.name == YOURS else f" ({rent.name})"
    told = f"The {WORDS[who]} is {usd(rent.used_USD(choice.owned.load))} USD{name}"
    if even is None:
        return f"{told}, since it is paid for all hours."
    if even > 1:
        return f"{told}: owning is dearer at any load."
    return f"{told}: owning is cheaper from a load of {percent(even)}."


def _noted(choice: RentOrBuy) -> Iterator[str]:
    """Yield limits of the answer."""
    if choice.price.note:
        yield choice.price.note
    if not choice.work.at_wall and choice.owning.power is None:
        yield "The simulated power is that of the accelerators: the spec does not state what their host draws."
    if old := [each.name for each in choice.rents if each.old]:
        yield f"Over a year older than the newest price: {', '.join(old)}."
    yield "Rent is paid for the hours in which accelerators work; reserved time for all hours."


def _picture(choice: RentOrBuy) -> Picture:
    """Cost of an hour over load; below, the break-even load over the years in use, where a rent has one."""
    panels = [_over_load(choice), *_over_years(choice)]
    return Picture(1.0 + 2.9 * len(panels), panels, legend=2)


def _over_load(choice: RentOrBuy) -> Panel:
    own, named = choice.owned, choice.named
    marks: list[Mark] = [
        line(LOADS, [each.used_USD(load) for load in LOADS], "other rents", FAINT, linewidth=0.7)
        for each in choice.rents
        if each not in named.values()
    ]
    for who, each in named.items():
        label = f"{WORDS[who]}: {'' if each.name == YOURS else f'{each.name}, '}{usd(each.hour_USD)} USD/h"
        marks.append(line(LOADS, [each.used_USD(load) for load in LOADS], label, COLORS[who], linewidth=1.4))
        if (even := choice.even_load(each)) is not None and even <= 1:
            marks += [
                points([even], [each.hour_USD], "", COLORS[who]),
                note(even, each.hour_USD, percent(even), (4, 7)),
            ]
    curve = [replace(own, load=float(load)).used_hour_USD for load in LOADS]
    marks += [line(LOADS, curve, f"owned {choice.work.job.on}", BLUE, linewidth=2)]
    marks += [points([own.load], [own.used_hour_USD], "asked for", INK, "*", markersize=9)]
    high = 1.2 * max([own.used_hour_USD, *(each.used_USD(own.load) for each in (*choice.rents, *choice.own))])
    return Panel(
        f"Rent or buy {choice.work.job.on} for {choice.work.facts['model']}", marks,
        Axis("load: share of the hours in which accelerators work", low=0, high=1, text=_share),
        Axis("USD per accelerator-hour at work", low=0, high=high), grid="both",
    )  # fmt: skip


def _over_years(choice: RentOrBuy) -> Iterator[Panel]:
    own, named = choice.owned, choice.named
    years = np.linspace(1.0, max(MOST_YEARS, own.years), 71)
    marks: list[Mark] = []
    for who, each in named.items():
        if choice.even_load(each) is not None:
            loads = [replace(own, years=float(each_year)).break_even_load(each.hour_USD) for each_year in years]
            marks.append(line(years, [min(load, OFF) for load in loads], "", COLORS[who], linewidth=1.4))
    if marks:
        marks.append(points([own.years], [own.load], "", INK, "*", markersize=9))
        title = "Break-even over years: owning is cheaper above a line"
        yield Panel(title, marks, Axis("years in use"), Axis("load", low=0, high=1, text=_share), grid="both")


def _share(value: float) -> str:
    return f"{value:.0%}"
