"""A training on clusters for rent: days and dollars by plan, at old and at today's prices, against the facts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from accelsim.account.odds import Belief
from accelsim.account.price import DAY_S, HOUR_S
from accelsim.errors import UsageError
from accelsim.explore.saved.results import Result
from accelsim.report.answer import Answer, Field, Table
from accelsim.report.picture import Axis, Mark, Panel, Picture, line, points
from accelsim.report.prices import usd
from accelsim.report.saved.common import answer, row, surely
from accelsim.report.style import BLUE, FAINT, GREY, INK, ORANGE
from accelsim.report.text import Facts
from accelsim.spec.yaml.instances import INSTANCE, OLD_DAYS, Offer, latest

FACT_ON, FACT_DAYS = "240x-aws:p4d.24xlarge", 25
"""Amazon's own figure for GPT-3 (175 billion weights, 300 billion tokens): about 25 days on 240 p4d."""
FIELDS = (
    Field("on", "cluster"),
    Field("days", "days", "{:.3g}".format, meaning="with the fastest plan of those tried"),
    Field("ends", "90 %"),
    Field("then_usd", "USD then", usd, meaning="at the first price by the hour, if that is not today's"),
    Field("now_usd", "USD now", usd, meaning="at the newest one, if not old"),
)


def gpt3_then_and_now(found: Sequence[Result], offers: Sequence[Offer]) -> Answer:
    """Report days and dollars of a training on each cluster and plan."""
    if any(not each.plan for each in found):
        raise UsageError(
            "points that are no trainings on a plan", expected="'train: true', 'tokens:' and a plan for all"
        )
    rows = [_row(each, offers) for each in found]
    best = [min((each for each in rows if each["on"] == on), key=_days) for on in dict.fromkeys(r.on for r in found)]
    told = training_sentences(rows, best, offers)
    bare = [each["on"] for each in best if each["then_usd"] is None and each["now_usd"] is None]
    return answer(rows, Table(FIELDS, best), told, partial(_picture, rows, best, _known(offers)), bare)


def _days(each: Facts) -> float:
    return float(each["days"])


def ends_of(on: str, offers: Sequence[Offer]) -> tuple[int, Offer | None, Offer | None]:
    """Return how many instances a name means, their first price by the hour and their newest one in the region that is
    the cheapest now; None for a first one that is the newest, and for a newest one that is old (``OLD_DAYS``)."""
    named = INSTANCE.fullmatch(on)
    own = [each for each in offers if named and each.full_name == named[2] and each.price.term == "on-demand"]
    if named is None or not own:
        return 1, None, None
    region = min(latest(own), key=lambda each: each.price.hour_USD).region
    dated = sorted((each for each in own if each.region == region), key=lambda each: each.day)
    old = (max(each.day for each in offers) - dated[-1].day).days > OLD_DAYS
    return int(named[1] or 1), dated[0] if old or len(dated) > 1 else None, None if old else dated[-1]


def _row(result: Result, offers: Sequence[Offer]) -> Facts:
    many, *prices = ends_of(result.on, offers)
    then, now = (each and _usd(result.seconds, many, each) for each in prices)
    known = result.low_s is not None and result.high_s is not None
    ends = f"{(result.low_s or 0) / DAY_S:.3g} to {(result.high_s or 0) / DAY_S:.3g}" if known else "-"
    return row(result, days=result.seconds / DAY_S, ends=ends, then_usd=then, now_usd=now)


def _usd(seconds: float, many: int, offer: Offer) -> float:
    return seconds / HOUR_S * many * offer.price.hour_USD


def _known(offers: Sequence[Offer]) -> list[tuple[float, Offer]]:
    """Dollars of the training of which the days are known, at the first and at the newest price."""
    many, *prices = ends_of(FACT_ON, offers)
    return [(_usd(FACT_DAYS * DAY_S, many, each), each) for each in prices if each is not None]


def training_sentences(rows: Sequence[Facts], best: Sequence[Facts], offers: Sequence[Offer]) -> list[str]:
    """Compare the prediction on 240 p4d with what is known, and the clusters by today's dollars."""
    told = []
    fact, known = (
        next((each for each in best if each["on"] == FACT_ON and each["model"].startswith("gpt3")), None),
        _known(offers),
    )
    if fact is not None and known:
        own = [each for each in rows if each["on"] == FACT_ON]
        slow = max(own, key=_days)
        told += [
            f"Known of GPT-3 and 300 billion tokens: about {FACT_DAYS} days on {FACT_ON}; "
            + " and ".join(f"{usd(cost)} USD at the price of {each.price.as_of}" for cost, each in known)
            + ".",
            f"Predicted with the best of {len(own)} plans ({fact['plan']}): {fact['days']:.3g} days (90 %: "
            f"{fact['ends']}), {usd(fact['then_usd'])} and {usd(fact['now_usd'])} USD. The slowest ({slow['plan']}) "
            f"takes {slow['days']:.3g} days (90 %: {slow['ends']}). {_where(fact, slow)}",
        ]
    priced = sorted((each for each in best if each["now_usd"] is not None), key=lambda each: float(each["now_usd"]))
    if len(priced) > 1:
        first, second, last = priced[0], priced[1], priced[-1]
        told += [
            f"Today it costs least on {first['on']}: {usd(first['now_usd'])} USD in {first['days']:.3g} days. "
            f"{second['on']} costs {second['now_usd'] / first['now_usd']:.2f} times as much"
            f"{surely(_belief(first), _belief(second))}",
            f"Most expensive is {last['on']}: {usd(last['now_usd'])} USD in {last['days']:.3g} days.",
        ]
    return told


def _where(best: Facts, slow: Facts) -> str:
    """Say which predictions have the known days in their interval."""
    held = [each["low_s"] is not None and each["low_s"] <= FACT_DAYS * DAY_S <= each["high_s"] for each in (best, slow)]
    if held[0] == held[1]:
        return f"The known {FACT_DAYS} days lie {'inside both' if held[0] else 'outside both'} intervals."
    return f"The known {FACT_DAYS} days lie only inside the interval of the {'best' if held[0] else 'slowest'} plan."


def _belief(each: Facts) -> Belief | None:
    if each["low_s"] is None or each["high_s"] is None:
        return None
    per_s = each["now_usd"] / each["seconds"]
    return Belief(each["now_usd"], each["low_s"] * per_s, each["high_s"] * per_s)


def _picture(rows: Sequence[Facts], best: Sequence[Facts], known: Sequence[tuple[float, Offer]]) -> Picture | None:
    """Dollars on each cluster: of the fastest plan at both dates, of the other plans, of the known days."""
    if all(each["then_usd"] is None and each["now_usd"] is None for each in rows):
        return None
    order = [each["on"] for each in best]
    marks: list[Mark] = []
    for place, each in enumerate(best):
        if each["now_usd"] is not None and (ends := _belief(each)) is not None:
            marks.append(line([ends.low / 1e6, ends.high / 1e6], [place, place], color=GREY, linewidth=0.8))
    for some, key, label, colour, size in (
        (rows, "now_usd", "other plans", FAINT, 3),
        (best, "then_usd", "fastest plan, first price", ORANGE, 5),
        (best, "now_usd", "fastest plan, newest price", BLUE, 5),
    ):
        own = [each for each in some if each[key] is not None]
        places = [float(order.index(each["on"])) for each in own]
        marks.append(points([each[key] / 1e6 for each in own], places, label, colour, markersize=size))
    if FACT_ON in order and known:
        spots = [float(order.index(FACT_ON))] * len(known)
        marks.append(
            points([cost / 1e6 for cost, _ in known], spots, f"{FACT_DAYS} days, both prices", INK, "*", markersize=8)
        )
    title = f"{best[0]['model']}: dollars of the whole training"
    panel = Panel(title, marks, Axis("million USD"), Axis(names=order), "bars: 90 % interval of the time", "x")
    return Picture(1.8 + 0.32 * len(order), [panel], legend=4)
