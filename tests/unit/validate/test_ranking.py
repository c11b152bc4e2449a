"""Pairs of chips: how they are made, what the correlation of their errors is, how many are right where 90 % is said."""

from __future__ import annotations

import re
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from accelsim.account.odds import SHARED, Belief
from accelsim.seeds import generator
from accelsim.spec.yaml.instances import load_providers, named
from tests.validation.gpu_rows import rows_of
from tests.validation.money import CLAIMS, GROUPS, Line
from tests.validation.ranking import (
    GRID,
    Pair,
    Source,
    belief,
    classes,
    crossed,
    fitted,
    in_dollars,
    ordered,
    pairs,
    right_at,
)
from tests.validation.whole_rows import Row

FACTOR = 1.5


def drawn(many: int, shared: float) -> list[Pair]:
    """Pairs whose errors have that correlation and the spread that is believed."""
    sigma = Belief(1, 1 / FACTOR, FACTOR).sigma
    rng, found = generator(3), []
    for at in range(many):
        common, *own = rng.standard_normal(3)
        predicted = (1.0, float(exp(rng.uniform(-0.8, 0.8))))
        errors = (sigma * (shared**0.5 * common + (1 - shared) ** 0.5 * each) for each in own)
        measured = tuple(each * exp(error) for each, error in zip(predicted, errors, strict=True))
        beliefs = tuple(Belief(each, each / FACTOR, each * FACTOR) for each in predicted)
        workload = ("ResNet-50", "BERT")[at % 2]
        found.append(ordered(Pair("drawn", workload, ("a100-80-sxm", "t4"), beliefs, measured)))  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("shared", [0.2, 0.7])
def test_the_correlation_of_drawn_pairs_is_found_and_calibrates_them(shared: float) -> None:
    found = drawn(2000, shared)
    assert fitted(found) == pytest.approx(shared, abs=0.06)
    assert right_at(found, 0.9, shared) == pytest.approx(0.9, abs=0.015)
    assert all(each.ends[0] <= each.said <= each.ends[1] for each in classes([(found, shared)]) if each.pairs > 100)
    assert right_at(found, 0.9, GRID[-1]) < 0.8  # said to be far surer than it is
    assert Source("drawn", [(found, shared)]).agrees and not Source("drawn", [(found, GRID[-1])]).agrees


def test_each_part_has_the_correlation_of_the_other() -> None:
    found = drawn(400, 0.5)
    images, texts = ([each for each in found if each.workload == name] for name in ("ResNet-50", "BERT"))
    assert crossed(found) == [(images, fitted(texts)), (texts, fitted(images))]


def row(chip: str, measured: float, predicted: float, batch: int = 8, kernels: float = 1.0) -> Row:
    return Row(
        "network", "MLPerf, here", "encoders", chip, f"bert, batch {batch}, {chip}", measured, predicted, kernels
    )


def test_pairs_have_a_workload_in_common_and_the_faster_in_front() -> None:
    rows = [row("t4", 4, 3), row("t4", 6, 3), row("l4", 1, 2), row("h100-sxm", 1, 1, batch=1)]
    (found,) = pairs(rows)
    assert (found.source, found.chips, found.measured, found.right) == ("MLPerf", ("l4", "t4"), (1, 5), True)
    assert found.said(SHARED) > 0.5


def test_a_price_may_turn_a_pair() -> None:
    found = pairs([row("t4", 4, 3), row("l4", 1, 2)])
    assert in_dollars(found, {"t4": 1.0}) == []
    (turned,) = in_dollars(found, {"t4": 1.0, "l4": 5.0})
    assert (turned.chips, turned.measured, turned.right) == (("t4", "l4"), (4, 5), True)
    assert turned.beliefs[1].value == 10


def test_a_belief_has_the_wider_interval() -> None:
    wide, narrow = belief(row("t4", 1, 2, kernels=3.0)), belief(row("t4", 1, 2))
    assert (wide.low, wide.high) == pytest.approx((2 / 3, 6))
    assert 2 / 3 < narrow.low < 2 < narrow.high < 6


def test_chips_of_one_design_are_kin() -> None:
    pair = drawn(1, 0.5)[0]
    assert [
        pair._replace(chips=chips).kin
        for chips in (("a30", "a100-80-sxm"), ("h100-pcie", "h200-sxm"), ("l4", "t4"), ("a40", "a30"))
    ] == [True, True, False, False]


def test_published_costs_name_instances_and_sources() -> None:
    lines, providers = rows_of(CLAIMS), load_providers()
    for each in lines:
        assert each["source"] and each["trust"] == "vendor" and float(each["published"]) > 0
        for name in filter(None, (each["instance"], each["against"])):
            assert named(name, providers)[1].prices
    assert {each["unit"] for each in lines} == {"cost ratio", "per s"}
    assert Line("", 2.0, 3.0).error == 0.5 and len(GROUPS) == 4
    assert np.isfinite([log(float(each["published"])) for each in lines]).all()


def test_the_page_has_the_figures_of_the_report() -> None:
    root = Path(__file__).parents[3]
    report = (root / "reports" / "accuracy.md").read_text(encoding="utf-8").split("\n## ranking:")[1].split("\n## ")[0]
    page = " ".join((root / "docs" / "gpu-networks.md").read_text(encoding="utf-8").split())
    right = dict(re.findall(r"- (MLPerf \w+): .*?(\d+)% where 90% is said", report))
    assert f"said to be 90 % sure, {right['MLPerf Offline']} % are right. The correlation, {SHARED}, comes of" in page
    assert f"(MLPerf SingleStream), {right['MLPerf SingleStream']} % are right where 90 % is said" in page
    unsure = re.findall(r"all sources: faster \| [67]0% to [78]0% \| (\d+) \| [\d.]+% \| ([\d.]+)%", report)
    many = sum(int(pairs) for pairs, _ in unsure)
    kept = round(sum(int(pairs) * float(share) / 100 for pairs, share in unsure))
    assert f"of {many} pairs in all sources said to be 60 to 80 % sure, {kept} are right" in page
    pairs = re.search(r"MLPerf Offline: (\d+) pairs", report)
    design = re.search(r"dies of one design ([\d.]+) ", report)
    assert pairs and f"Tested on {pairs[1]} pairs of chips" in page
    assert design and float(design[1]) > SHARED and f"errors go together more ({design[1]})" in page
