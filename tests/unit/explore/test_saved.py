"""Saved studies: their arithmetic against brute force, and kept results against what runs give."""

from __future__ import annotations

from math import exp
from pathlib import Path

import numpy as np
import pytest

import accelsim
from accelsim.errors import UsageError
from accelsim.explore.saved import money, results
from accelsim.explore.saved.money import Fleet, Win
from accelsim.explore.saved.results import Result
from accelsim.explore.sweep.point import outcome
from accelsim.explore.sweep.space import Sweep, points_of
from accelsim.explore.sweep.store import Member
from accelsim.report.saved import STUDIES
from accelsim.spec.yaml.instances import load_providers, offers

PRICES = offers(load_providers())


def result(on: str = "t4", batch: int = 1, seconds: float = 1.0, low_s: float | None = None) -> Result:
    return Result("m", on, "", "fp16", batch, seconds, low_s, None if low_s is None else seconds / low_s, 1.0, 0.0)


def test_a_line_through_exact_powers_is_found() -> None:
    years = [2014, 2016, 2021, 2024]
    found = money.trend(years, [3 * exp(-0.25 * (year - 2014)) for year in years])
    assert found.slope == pytest.approx(-0.25) and found.low == pytest.approx(found.high)
    assert found.at(2018) == pytest.approx(3 * exp(-1.0)) and found.points == 4


def test_a_scattered_line_is_that_of_numpy() -> None:
    random = np.random.default_rng(1)
    years, logs = np.arange(2014.0, 2026.0), random.normal(size=12)
    (slope, start), matrix = np.polyfit(years, logs, 1, cov=True)
    found = money.trend(list(years), list(np.exp(logs)))
    assert (found.slope, found.start) == pytest.approx((slope, start))
    assert found.high - found.slope == pytest.approx(1.645 * np.sqrt(matrix[0, 0]), rel=1e-3)


def test_price_cuts_count_each_chip_once_at_each_provider() -> None:
    own = [each for each in PRICES if each.full_name in ("aws:p4d.24xlarge", "aws:g4dn.xlarge", "aws:g4dn.2xlarge")]
    found = money.price_cuts(own, ["a100-40-sxm", "t4"])
    years = 1488 / 365.25  # 2022-06-23 to 2026-07-20
    assert (found.instances, found.unchanged) == (3, 2)
    assert found.slope == pytest.approx(np.log(21.957642 / 32.7726) / years / 2)


def test_winners_by_batch_are_the_smallest() -> None:
    values = {("a", 1): 1.0, ("b", 1): 2.0, ("a", 2): 3.0, ("b", 2): 2.0, ("a", 4): 3.0, ("b", 4): 1.0}
    assert money.wins(values) == [Win("a", 1, 1), Win("b", 2, 4)]


def fleet(hour_USD: float, per_day: float, at: int = 0) -> Fleet:
    offer = PRICES[at]
    price = offer.price.model_copy(update={"price": hour_USD, "beside": 0.0})
    return Fleet(offer._replace(price=price), result(), per_day)


@pytest.mark.parametrize("seed", range(20))
def test_break_even_is_that_of_a_scan(seed: int) -> None:
    random = np.random.default_rng(seed)
    slow = [fleet(float(random.integers(1, 9)), float(random.integers(1, 9))) for _ in range(2)]
    fast = [fleet(float(random.integers(5, 40)), float(random.integers(20, 90)))]
    found = money.break_even(slow, fast)
    top = 10 * max(each.per_day for each in (*slow, *fast))
    loads = np.arange(0, top, 0.5)  # all steps are at whole loads
    lost = [load for load in loads if money.day_USD(slow, load) <= money.day_USD(fast, load)]
    if found is None:
        assert lost[-1] >= loads[-2]
    else:
        assert found == (lost[-1] if lost else 0.0)


def test_a_day_costs_its_hours_used_or_not() -> None:
    one = fleet(0.5, 100.0)
    assert [one.day_USD(load) for load in (0, 1, 100, 101, 1000)] == [12, 12, 12, 24, 120]


def test_an_instance_has_the_rate_of_its_share() -> None:
    found = [result("xeon-8375c", 1, 0.01), result("xeon-8375c", 32, 0.16)]
    small = next(each for each in money.fleets(found, PRICES) if each.offer.full_name == "aws:c6i.large")
    assert small.per_day == pytest.approx(32 / 0.16 / 32 * 86400)


def test_a_million_costs_time_times_price_of_a_share() -> None:
    offer = next(each for each in PRICES if each.full_name == "aws:p4d.24xlarge" and each.price.as_of == "2022-06-23")
    assert money.million_USD(result("a100-40-sxm", 4, 0.001), offer) == pytest.approx(32.7726 / 8 * 1e6 / 4000 / 3600)


def test_old_and_new_prices_are_told_apart() -> None:
    (found,) = money.chip_costs([result("k80")], PRICES)
    assert found.now is not None and found.then is not None
    assert found.now.full_name == "azure:nc6" and found.now.day > found.then.day
    assert found.now.each_USD == 0.396 and found.then.each_USD == 0.9


def test_chips_without_interval_do_not_rank() -> None:
    known, unknown = result(low_s=0.5), result("gaudi")
    assert money.ranked([known, unknown]) == [known] and money.ranked([unknown]) == [unknown]


@pytest.mark.parametrize("name", STUDIES)
def test_kept_results_are_points_of_the_sweep(name: str) -> None:
    asked = {(point.model, point.on) for point in points_of(results.sweep_of(name))}
    found = results.kept(name)
    assert {(each.model, each.on) for each in found} == asked
    assert all(each.seconds > 0 and each.joules > 0 for each in found)


@pytest.mark.parametrize("name", STUDIES)
def test_kept_results_are_those_of_runs(name: str) -> None:
    """If this fails since the mechanism changed: accelsim study NAME --store s.db --csv reports/studies/NAME.csv."""
    found = {(each.model, each.on, each.dtype, each.batch, each.plan): each for each in results.kept(name)}
    tried = list(points_of(results.sweep_of(name)))[:: 37 if name == "cost-by-year" else 11][:2]
    members = [Member(0, point, outcome(point)) for point in tried]
    fresh = list(results.results(iter(members)))
    assert fresh
    for each in fresh:
        old = found[each.model, each.on, each.dtype, each.batch, each.plan]
        assert each.seconds == pytest.approx(old.seconds, rel=0.02) and each.joules == pytest.approx(
            old.joules, rel=0.05
        )


def test_a_sweep_without_figures_says_why(tmp_path: Path) -> None:
    sweep = Sweep(model="mlp?hidden=16", on=["edu-4x4"], axes={"dtype": ["fp16"]})
    with pytest.raises(UsageError, match=r"no point gave figures; the first: .*does not compute in 'fp16'"):
        results.run("x", sweep, tmp_path / "s.db", 1, lambda done, every: None)


def test_a_sweep_that_lacks_what_its_study_compares_is_refused_before_it_runs() -> None:
    sweep = Sweep(model="mlp?hidden=16", on=["t4"], axes={"plan": ["dp=1"]})
    with pytest.raises(UsageError, match=r"without 'train'.*\n.*without 'tokens'"):
        results.check("x", sweep, STUDIES["gpt3-then-and-now"].needs)
    with pytest.raises(UsageError, match=r"1,000,000 points take about"):
        results.check("x", sweep.model_copy(update={"axes": {"batch": list(range(1, 10**6 + 1))}}), ())
    for name, each in STUDIES.items():
        results.check(name, results.sweep_of(name), each.needs)


def test_a_study_runs_what_its_store_lacks(tmp_path: Path) -> None:
    sweep = Sweep(model="mlp?hidden=16", on=["edu-4x4", "t4"], axes={"batch": [1, 2]})
    seen: list[int] = []
    found = [results.run("x", sweep, tmp_path / "s.db", 1, lambda done, every: seen.append(done)) for _ in range(2)]
    assert found[0] == found[1] and len(found[0]) == 4 and seen[-1] == 4 and seen.count(1) == 1
    run = accelsim.run("mlp?hidden=16", on="t4", batch=2, values="off")
    last = found[0][-1]
    assert (last.on, last.batch, last.seconds) == (
        "t4",
        2,
        pytest.approx(run.seconds),
    ) and 0 < last.link_s < last.seconds
