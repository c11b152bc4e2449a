"""A training on clusters for rent: days and dollars by plan, at old and at today's prices, against the facts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from accelsim.account.odds import Belief
from accelsim.account.price import HOUR_S
from accelsim.explore.saved import money
from accelsim.explore.saved.results import Result
from accelsim.report.answer import Answer, Field, Table
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, points
from accelsim.report.prices import usd
from accelsim.report.saved.common import answer, row, surely
from accelsim.report.style import BLUE, GREY, ORANGE
from accelsim.report.text import Facts
from accelsim.spec.yaml.instances import INSTANCE, Offer

FACT_ON, FACT_DAYS = "240x-aws:p4d.24xlarge", 25
"""Amazon's own figure for GPT-3 (175 billion weights, 300 billion tokens): about 25 days on 240 p4d."""
FIELDS = (
    Field("on", "cluster"),
    Field("plan", "plan"),
    Field("days", "days", "{:.3g}".format),
    Field("ends", "90 %"),
    Field("then_usd", "USD then", usd, meaning="at the earliest price by the hour in the provider's region"),
    Field("now_usd", "USD now", usd, meaning="at the newest one"),
)


def gpt3_then_and_now(found: Sequence[Result], offers: Sequence[Offer]) -> Answer:
    """Report days and dollars of a training on each cluster and plan."""
    rows = [_row(each, offers) for each in found]
    best = [min((each for each in rows if each["on"] == on), key=_days) for on in dict.fromkeys(r["on"] for r in rows)]
    told = training_sentences(rows, best, offers)
    return answer(rows, Table(FIELDS, sorted(rows, key=_days)), told, partial(_picture, rows))


def _days(each: Facts) -> float:
    return float(each["days"])


def ends_of(on: str, offers: Sequence[Offer]) -> tuple[int, Offer, Offer] | None:
    """Return how many instances a name means, and their first and last price by the hour in the provider's region."""
    named = INSTANCE.fullmatch(on)
    own = sorted(
        (
            each
            for each in offers
            if named
            and each.full_name == named[2]
            and each.price.term == "on-demand"
            and each.region == each.provider.region
        ),
        key=lambda each: each.day,
    )
    return (int(named[1] or 1), own[0], own[-1]) if named and own else None


def _row(result: Result, offers: Sequence[Offer]) -> Facts:
    prices = ends_of(result.on, offers)
    costs = [None, None] if prices is None else [_usd(result.seconds, prices[0], each) for each in prices[1:]]
    ends = None if result.low_s is None or result.high_s is None else (result.low_s, result.high_s)
    day = money.DAY_S
    return row(
        result,
        days=result.seconds / day,
        ends="-" if ends is None else f"{ends[0] / day:.3g} to {ends[1] / day:.3g}",
        then_usd=costs[0],
        now_usd=costs[1],
    )


def _usd(seconds: float, many: int, offer: Offer) -> float:
    return seconds / HOUR_S * many * offer.price.hour_USD


def training_sentences(rows: Sequence[Facts], best: Sequence[Facts], offers: Sequence[Offer]) -> list[str]:
    """Compare the prediction on 240 p4d with the facts, and the clusters by today's dollars."""
    told = []
    fact = next((each for each in best if each["on"] == FACT_ON), None)
    prices = ends_of(FACT_ON, offers)
    if fact is not None and prices is not None:
        many, then, now = prices
        seconds = FACT_DAYS * money.DAY_S
        inside = fact["low_s"] is not None and fact["low_s"] <= seconds <= fact["high_s"]
        told += [
            f"Known: about {FACT_DAYS} days on {FACT_ON}, {usd(_usd(seconds, many, then))} USD at the prices of "
            f"{then.price.as_of}, {usd(_usd(seconds, many, now))} USD at those of {now.price.as_of}.",
            f"Predicted with the best of {sum(each['on'] == FACT_ON for each in rows)} plans ({fact['plan']}): "
            f"{fact['days']:.3g} days (90 %: {fact['ends']}), {usd(fact['then_usd'])} and {usd(fact['now_usd'])} USD. "
            f"{FACT_DAYS} days lie {'in' if inside else 'outside'} the interval.",
        ]
    priced = sorted((each for each in best if each["now_usd"] is not None), key=lambda each: float(each["now_usd"]))
    if len(priced) > 1:
        first, second, last = priced[0], priced[1], priced[-1]
        told += [
            f"Today it costs least on {first['on']}: {usd(first['now_usd'])} USD in {first['days']:.3g} days "
            f"({first['plan']}). {second['on']} costs {second['now_usd'] / first['now_usd']:.2f} times as much"
            f"{surely(_belief(first), _belief(second))}",
            f"Most expensive is {last['on']}: {usd(last['now_usd'])} USD in {last['days']:.3g} days.",
        ]
    return told


def _belief(each: Facts) -> Belief | None:
    if each["low_s"] is None or each["high_s"] is None:
        return None
    per_s = each["now_usd"] / each["seconds"]
    return Belief(each["now_usd"], each["low_s"] * per_s, each["high_s"] * per_s)


def _picture(rows: Sequence[Facts]) -> Picture:
    """Dollars of each cluster and plan, at both dates."""
    order = list(dict.fromkeys(each["on"] for each in rows))
    marks: list[Mark] = []
    for each in rows:
        place = float(order.index(each["on"]))
        if each["now_usd"] is not None and (ends := _belief(each)) is not None:
            marks.append(line([ends.low / 1e6, ends.high / 1e6], [place, place], color=GREY, linewidth=0.6))
    for key, label, colour in (("then_usd", "at the first price", ORANGE), ("now_usd", "at the newest price", BLUE)):
        own = [each for each in rows if each[key] is not None]
        places = [float(order.index(each["on"])) for each in own]
        marks.append(points([each[key] / 1e6 for each in own], places, label, colour, markersize=4))
    title = "GPT-3, 300 billion tokens: dollars of the training"
    panel = Panel(title, marks, Axis("million USD"), Axis(names=order), "one mark for each plan", "x", legend=2)
    return Picture(1.6 + 0.5 * len(order), [panel])
