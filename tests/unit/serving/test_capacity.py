"""Capacity: bisection on a known service, sentences against simulations just above and below, loads by rates."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from accelsim.cli import main
from accelsim.errors import UsageError
from accelsim.report.capacity import answer, facts, sentences
from accelsim.serving.asked import Question, served
from accelsim.serving.capacity import CLOSE, CURVE, Probe, fewest, search
from accelsim.serving.items.asked import Question as OfItems
from accelsim.serving.items.asked import read
from accelsim.serving.items.asked import served as served_items
from accelsim.serving.items.measures import probe, within
from accelsim.serving.loads import arrivals, read_load
from accelsim.serving.measures import probe as probe_tokens
from accelsim.serving.measures import within as within_tokens

ITEMS = OfItems("mlp?hidden=64", "t4", scheduler="dynamic:max=8,delay=1ms", before="2ms", cores=4, requests=400)
LIMITS = {"e2e": 5e-3}
DAY = "time_s,rate\n0,1\n100,3\n200,0\n300,4\n"


@pytest.mark.parametrize("first", [0.01, 3.0, 700.0])
def test_the_search_finds_a_known_capacity_from_any_rate(first: float) -> None:
    """M/M/1 of 10 items a second: 1 - e^{-(10 - rate) t} of them leave within t."""

    def at(rate: float) -> Probe:
        return Probe(rate, 1 - np.exp(-max(0.0, 10 - rate)), rate < 10, {}, {})

    found = search(at, 0.9, first)
    capacity = 10 - np.log(10)
    assert found.below is not None
    assert capacity / CLOSE <= found.below.rate <= capacity < found.above.rate <= found.below.rate * CLOSE
    tried = {each.rate for each in found.probes}
    assert all(any(rate == pytest.approx(part * found.below.rate) for rate in tried) for part in CURVE)


@pytest.mark.parametrize("near", [1, 5, 40, 1000])
@pytest.mark.parametrize("least", [1, 2, 7, 39, 40])
def test_the_fewest_replicas_are_found_from_anywhere(near: int, least: int) -> None:
    asked = []

    def good(count: int) -> bool:
        asked.append(count)
        return count >= least

    assert fewest(good, 40, near) == least
    assert len(asked) == len(set(asked)) <= 12
    assert fewest(lambda count: count >= 41, 40, near) is None


def test_a_limit_that_no_rate_keeps_is_said() -> None:
    asked = read(ITEMS)
    found = search(partial(probe, asked, {"e2e": 1e-3}), 0.99, 100.0)
    assert found.below is None
    assert sentences(found, {"e2e": 1e-3})[0].startswith("No rate is low enough")


def test_limits_that_any_rate_keeps_end_the_search() -> None:
    with pytest.raises(UsageError, match="kept at any rate"):
        search(lambda rate: Probe(rate, 1.0, True, {}, {}), 0.9, 1.0)


def test_items_keep_their_limit_just_below_the_capacity_and_not_above() -> None:
    asked = read(ITEMS)
    found = search(partial(probe, asked, LIMITS), 0.95, asked.bounds.rate)
    assert found.below is not None and found.below.rate < asked.bounds.rate
    for end, good in ((found.below, True), (found.above, False)):
        flow = served_items(replace(ITEMS, load=f"poisson:{end.rate!r}/s")).flow
        assert (within(flow, LIMITS["e2e"]) >= 0.95) is good
    told = answer(found, LIMITS, facts(ITEMS)).facts
    assert isinstance(told, dict) and told["capacity_per_s"] == found.below.rate and told["on"] == "t4"
    assert told["sentences"][0].startswith("Up to ") and "95.0% of them keep e2e <= 5 ms" in told["sentences"][0]


def test_a_language_model_keeps_its_limits_just_below_the_capacity_and_not_above() -> None:
    limits = {"ttft": 0.5e-3, "e2e": 1e-3}
    question = Question(
        "llama?layers=2,hidden=64", "t4", "poisson:500/s", "fixed:64,3", requests=60, scheduler="vllm:most=2"
    )
    made = served(question)
    assert made.at_rate(500.0).service.sequences[-1].last_s == made.service.sequences[-1].last_s
    found = search(lambda rate: probe_tokens(made.at_rate(rate).service, limits, rate), 0.9, 500.0, curve=False)
    assert found.below is not None
    for end, good in ((found.below, True), (found.above, False)):
        assert within_tokens(made.at_rate(end.rate).service, limits) == end.within
        assert (end.within >= 0.9 and end.steady) is good


def test_the_command_answers_and_refuses() -> None:
    given = ["serve", ITEMS.model, "--on", "t4", "--requests", "50", "--capacity"]
    done = CliRunner().invoke(main, [*given, "90%", "--limit", "e2e=5ms", "--json"])
    assert done.exit_code == 0 and json.loads(done.stdout)["share"] == 0.9
    tokens = ["serve", "llama?layers=2,hidden=64", "--on", "t4", "--lengths", "fixed:16,2", "--requests", "30", "--scheduler",
              "vllm:most=2"]  # fmt: skip
    done = CliRunner().invoke(
        main, [*tokens, "--load", "poisson:500/s", "--limit", "ttft=500us", "--capacity", "--json"]
    )
    found = json.loads(done.stdout)
    assert found["capacity_if_slow_per_s"] < found["capacity_per_s"], "slower steps serve fewer"
    done = CliRunner().invoke(main, [*given, "90%", "--limit", "e2e=1ns"])
    assert done.exit_code == 2 and "No rate is low enough" in done.stderr and "come one by one" in done.stderr
    done = CliRunner().invoke(main, [*given, "no", "--load", "closed:3"])
    assert done.exit_code == 2
    for text in ("no limit", "at no rate", "'no'"):
        assert text in done.stderr


def test_rates_over_time_pass_once_with_as_many_requests(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text(DAY)
    load = read_load(f"rates:{path}")
    assert load.rate == 2.0 and load.note(8000) == (
        "The profile of rates is 400 s long and passes in 4 ks, with 8,000 requests."
    )
    times = arrivals(load, 8000, seed=1)
    counts = np.histogram(times, bins=np.arange(5) * 1000.0)[0]
    assert counts[2] == 0 and counts[[0, 1, 3]] == pytest.approx([1000, 3000, 4000], abs=4 * 4000**0.5)
    assert arrivals(load._replace(rate=4.0), 8000, seed=1) == pytest.approx(times / 2)
    assert (np.diff(times) > 0).all() and (arrivals(load, 8000, seed=1) == times).all()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time,rate\n1,2\n", ["day.csv:1: no column time_s"]),
        ("time_s,rate\n0,-1\nx,2\n", ["day.csv:2: 0, -1", "day.csv:3: x, 2"]),
        ("time_s,rate\n5,1\n5,1\n", ["day.csv:3: time_s 5 is not after"]),
        ("time_s,rate\n5,1\n", ["no rates"]),
        ("time_s,rate\n5,0\n6,0\n", ["no rates"]),
    ],
)
def test_what_is_wrong_with_rates_is_told(tmp_path: Path, text: str, expected: list[str]) -> None:
    path = tmp_path / "day.csv"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        read_load(f"rates:{path}")
    assert len(error.value.problems) == len(expected)
    for part in expected:
        assert part in str(error.value)
