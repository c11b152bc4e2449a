"""Answers of saved studies: each sentence against figures that would refute it, recomputed here from kept results."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.explore.saved import money, results
from accelsim.explore.saved.results import Result
from accelsim.report.answer import Answer, Table
from accelsim.report.prices import usd
from accelsim.report.saved import STUDIES
from accelsim.report.saved.fleets import _fleets
from accelsim.report.text import si
from accelsim.spec.yaml.chips import load_chip
from accelsim.spec.yaml.instances import OLD_DAYS, Offer, load_providers, offers

PRICES = offers(load_providers())


def answered(name: str, found: Sequence[Result] | None = None) -> Answer:
    return STUDIES[name].report(results.kept(name) if found is None else found, PRICES)


def told(name: str, found: Sequence[Result] | None = None) -> str:
    return " ".join(answered(name, found).to_dict()["sentences"])


def costs(found: Sequence[Result]) -> dict[str, float]:
    """USD of a million samples by chip, by the definition."""
    newest = max(each.day for each in PRICES)
    last = {(each.full_name, each.region): each for each in sorted(PRICES, key=lambda each: each.day) if hourly(each)}
    made: dict[str, float] = {}
    for each in found:
        for offer in last.values():
            if offer.instance.chip == each.on and (newest - offer.day).days <= OLD_DAYS:
                hour = offer.price.hour_USD / (offer.instance.count * offer.instance.share)
                cost = hour / 3600 * each.seconds / each.batch * 1e6
                made[each.on] = min(cost, made.get(each.on, cost))
    return made


def hourly(offer: Offer) -> bool:
    return offer.price.term == "on-demand"


def test_the_cheapest_image_is_that_of_a_search() -> None:
    found = results.kept("cost-by-year")
    known = costs([each for each in found if each.low_s is not None])
    first, second = sorted(known, key=lambda name: known[name])[:2]
    text = told("cost-by-year")
    assert f"cost least on {first} in " in text and f": {usd(known[first])} USD" in text
    assert f"{second} is next, at {known[second] / known[first]:.2f} times that" in text
    slower = [each._replace(seconds=each.seconds * 1000) if each.on == first else each for each in found]
    assert f"cost least on {first} " not in told("cost-by-year", slower)


def test_the_fall_by_year_is_that_of_a_fit() -> None:
    kept = results.kept("cost-by-year")
    narrow = [each for each in kept if each.dtype == "fp32"]
    for found, before in ((kept, "prices the cost changes by"), (narrow, "In FP32 alone the cost changes by")):
        known = costs(found)
        years = [load_chip(name).year for name in known]
        slope = np.polyfit(np.array(years, dtype=float), np.log(list(known.values())), 1)[0]
        assert f"{before} {np.exp(slope) - 1:+.0%} " in told("cost-by-year")


def test_dearer_prices_change_costs_and_no_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    found = results.kept("cost-by-year")
    twice = [each._replace(price=each.price.model_copy(update={"price": 2 * each.price.price})) for each in PRICES]
    twice = [each._replace(price=each.price.model_copy(update={"beside": 2 * each.price.beside})) for each in twice]
    one, two = (STUDIES["cost-by-year"].report(found, some).to_dict()["sentences"] for some in (PRICES, twice))
    assert two[0] != one[0] and two[1:4] == one[1:4]


def test_winners_of_each_batch_are_named() -> None:
    found = money.ranked(results.kept("bus-or-sports-car"))
    known = {each.on: costs([each])[each.on] * each.batch / each.seconds for each in found if each.batch == 1}
    measures = {
        "Fastest": lambda each: each.seconds,
        "Least energy": lambda each: each.joules,
        "Cheapest": lambda each: known[each.on] * each.seconds,
    }
    text = told("bus-or-sports-car")
    for title, value in measures.items():
        (parts,) = re.findall(rf"{title}: (.*?)\.(?: |$)(?=[A-Z])", text)
        for chip, first, last in re.findall(r"([\w-]+) at batch (\d+)(?: to (\d+))? \(", parts):
            for batch in {each.batch for each in found if int(first) <= each.batch <= int(last or first)}:
                assert min((each for each in found if each.batch == batch), key=value).on == chip


def test_unranked_chips_win_nothing() -> None:
    text = told("bus-or-sports-car")
    assert text.endswith("no interval: tpu-v3, gaudi.") and text.count("gaudi") == text.count("tpu-v3 at") + 1


@pytest.mark.parametrize("model", ["resnet50", "bert-base"])
def test_cpus_are_cheaper_up_to_the_edge(model: str) -> None:
    found = [each for each in results.kept("cpu-or-gpu") if each.model == model]
    cpus, gpus = _fleets(found, PRICES)
    edge = money.break_even(cpus, gpus)
    assert edge and f"Up to {si(edge)} requests a day" in told("cpu-or-gpu", found)
    for load in np.geomspace(edge * 1.0001, edge * 50, 200):
        assert money.day_USD(cpus, load) > money.day_USD(gpus, load)
    assert money.day_USD(cpus, edge) <= money.day_USD(gpus, edge)


def test_slow_cpus_lose_and_slow_gpus_win() -> None:
    found = [each for each in results.kept("cpu-or-gpu") if each.model == "resnet50"]
    slow = [each._replace(seconds=each.seconds * (1e6 if each.on == "t4" else 1)) for each in found if each.on != "l4"]
    none = [each for each in slow if each.on != "a10g"]
    assert "CPUs are cheaper at every load" in told("cpu-or-gpu", none)


def test_the_training_of_25_days_costs_what_is_known() -> None:
    text = told("gpt3-then-and-now")
    assert "4,719,254 USD at the price of 2022-06-23 and 3,161,900 USD at the price of 2026-07-20" in text


def test_25_days_lie_in_an_interval_that_holds_them() -> None:
    found = results.kept("gpt3-then-and-now")
    days = 86400.0
    slow = max((each for each in found if each.on == "240x-aws:p4d.24xlarge"), key=lambda each: each.seconds)
    inside, outside = (20 * days, 30 * days), (5 * days, 24 * days)
    for others, own, where in (
        (inside, inside, "inside both intervals"),
        (outside, outside, "outside both intervals"),
        (inside, outside, "only inside the interval of the best plan"),
        (outside, inside, "only inside the interval of the slowest plan"),
    ):
        ends = [own if each is slow else others for each in found]
        moved = [each._replace(low_s=low, high_s=high) for each, (low, high) in zip(found, ends, strict=True)]
        assert f"25 days lie {where}." in told("gpt3-then-and-now", moved)


def test_columns_are_explained() -> None:
    table = next(part for part in answered("cost-by-year").shown if isinstance(part, Table))
    assert "USD/million: a million samples at the cheapest price, no hour idle" in table.legend_lines(table.shown(120))


def test_the_cheapest_training_of_today_is_that_of_a_search() -> None:
    found = results.kept("gpt3-then-and-now")
    known = {}
    for each in found:
        many, name = each.on.split("x-", 1)
        own = [offer for offer in PRICES if offer.full_name == name and offer.price.term == "on-demand"]
        newest = {offer.region: offer for offer in sorted(own, key=lambda offer: offer.day)}
        if (max(each.day for each in PRICES) - max(offer.day for offer in own)).days > OLD_DAYS:
            continue
        hour = min(offer.price.hour_USD for offer in newest.values())
        known[each.on, each.plan] = each.seconds / 3600 * int(many) * hour
    on, plan = min(known, key=lambda key: known[key])
    assert f"it costs least on {on}: {usd(known[on, plan])} USD in " in told("gpt3-then-and-now")


@pytest.mark.parametrize("name", STUDIES)
def test_pictures_show_all_results(name: str) -> None:
    found = answered(name)
    text = repr(found.picture())
    assert all(each.on in text for each in results.kept(name))
    assert len(found.table()) == len(results.kept(name))


def test_points_that_are_no_trainings_are_refused() -> None:
    with pytest.raises(UsageError, match="no trainings"):
        answered("gpt3-then-and-now", results.kept("cpu-or-gpu"))


@pytest.mark.parametrize("name", STUDIES)
def test_what_has_no_price_is_named(name: str) -> None:
    bare = [Result("m", "edu-4x4", "dp=1", "fp16", batch, 1.0, None, None, 1.0, 0.0) for batch in (1, 8)]
    for found, lost in ((bare, True), ([*results.kept(name), *bare], False)):
        made = answered(name, found)
        assert "No price by the hour: edu-4x4. 'accelsim prices' lists" in made.to_dict()["sentences"][-1]
        assert all(part.records for part in made.shown if isinstance(part, Table)) and made.shown[0]
        if lost and name != "bus-or-sports-car":
            with pytest.raises(UsageError, match="no picture to draw"):
                made.picture()
        else:
            assert len(made.picture().panels) == (2 if lost else len(answered(name).picture().panels))


def test_an_instance_has_its_own_price() -> None:
    (kept,) = (each for each in results.kept("bus-or-sports-car") if (each.on, each.batch) == ("t4", 1))
    rented = [kept._replace(on=on) for on in ("aws:g4dn.xlarge", "azure:nc4as-t4-v3", "aws:p4d.24xlarge")]
    made = answered("bus-or-sports-car", rented)
    prices = {each.full_name: each.price.hour_USD for each in sorted(PRICES, key=lambda each: each.day) if hourly(each)}
    for row, each in zip(made.rows[:2], rented, strict=False):
        assert row["million_usd"] == pytest.approx(prices[each.on] / 3600 * each.seconds * 1e6)
    assert "No price by the hour: aws:p4d.24xlarge." in " ".join(made.to_dict()["sentences"])  # of a machine of eight
    assert (
        {row["chip"] for row in answered("cost-by-year", rented[:2]).shown[0].records}
        == {  # type: ignore[union-attr, index]
            each.on for each in rented[:2]
        }
    )


def test_one_chip_is_compared_with_no_other() -> None:
    text = told("bus-or-sports-car", [each for each in results.kept("bus-or-sports-car") if each.on == "l4"])
    assert text.count("times cheaper on l4") == 1 and "times on l4" not in text
