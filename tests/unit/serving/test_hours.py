"""What services pay for an hour of their devices: instances as a whole, the user's prices first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from accelsim.account.price import HOUR_S
from accelsim.cluster.step.fleet import fleet_of
from accelsim.errors import UsageError
from accelsim.report.service import facts
from accelsim.report.service_cost import hour_of
from accelsim.report.service_items import facts as facts_of_items
from accelsim.serving.asked import Question, served
from accelsim.serving.items.asked import Question as Items
from accelsim.serving.items.asked import served as served_items
from accelsim.spec.yaml.clusters import load_devices
from accelsim.spec.yaml.instances import one_of, stands_for

OWN = """
name: aws
title: What we pay
source: our contract
as_of: 2026-10
sources: {contract: {text: our contract, confidence: high}}
instances:
  p5.48xlarge: {chip: h100-sxm, count: 8, prices: [{price: 31.5 USD/h, as_of: 2026-10-01, source: contract}]}
"""
P5 = 55.04
"""USD an hour of aws:p5.48xlarge, with eight H100."""
FEW = Question("llama?layers=1,hidden=64", "aws:p5.48xlarge?devices=1", lengths="fixed:8,2", requests=3)


@pytest.mark.parametrize(("on", "replicas", "instances", "each_USD"), [
    ("aws:p5.48xlarge?devices=1", [(9, 1)], 2, 2 * P5 / 9),
    ("aws:p5.48xlarge", [(2, 8)], 2, P5 / 8),
    ("aws:p5.48xlarge?devices=3", [(3, 3)], 2, 2 * P5 / 9),
    ("2x-aws:p5.48xlarge", [(1, 16)], 2, P5 / 8),
    ("aws:p5.48xlarge", [(1, 4), (2, 2)], 1, P5 / 8),
])  # fmt: skip
def test_instances_are_paid_for_as_a_whole(
    on: str, replicas: list[tuple[int, int]], instances: int, each_USD: float
) -> None:
    found = hour_of(on, "h100-sxm", replicas)
    assert found is not None and found.instances == instances
    assert found.each_USD == pytest.approx(each_USD)


def test_own_prices_go_first(tmp_path: Path) -> None:
    """Of an instance, and of its chip: 31.50 USD an hour of eight."""
    (file := tmp_path / "mine.yaml").write_text(OWN, encoding="utf-8")
    for on in ("aws:p5.48xlarge", "h100-sxm"):
        found = hour_of(on, "h100-sxm", [(1, 8)], file)
        assert found is not None and (found.each_USD, found.name) == (31.5 / 8, "aws:p5.48xlarge")
    other = hour_of("t4", "t4", [(1, 1)], file)
    assert other is not None and other.name != "aws:p5.48xlarge"


def test_tokens_pay_for_the_idle_rest_of_their_instance() -> None:
    whole = facts(served(FEW), {})
    paid = sum(
        whole[f"million_tokens_{way}_usd"] * whole[f"{kind}_tokens"]
        for way, kind in (("in", "prompt"), ("out", "output"))
    )
    assert paid / 1e6 == pytest.approx(P5 * whole["span_s"] / HOUR_S)


def test_a_thousand_answers_cost_the_rent_of_their_time() -> None:
    """Two of the four T4 of an instance serve."""
    found = served_items(Items("mlp?hidden=64", "aws:g4dn.12xlarge", "poisson:100/s", requests=50, replicas=2))
    whole = facts_of_items(found, {})
    hour_USD = whole["usd_per_device_hour"] * 2
    assert whole["instances"] == 1
    assert whole["thousand_answers_usd"] == pytest.approx(hour_USD / HOUR_S / whole["answered_per_s"] * 1e3)


def test_counts_may_follow_an_instance() -> None:
    assert stands_for("2x-aws:p5.48xlarge?devices=4") == "dgx-h100?nodes=2,devices=4"
    assert one_of("aws:g4dn.12xlarge") == "t4"
    with pytest.raises(UsageError, match="no cluster"):
        stands_for("aws:g4dn.xlarge?devices=2")


def test_a_hint_for_an_instance_can_be_pasted() -> None:
    """A plan of one device on eight is told of one device of the same instance."""
    with pytest.raises(UsageError) as told:
        served(replace(FEW, on="aws:p4d.24xlarge"))
    (problem,) = told.value.problems
    hint = str(problem.expected).rpartition("--on ")[2].strip("'")
    assert hint == "aws:p4d.24xlarge?devices=1"
    assert fleet_of(load_devices(hint), FEW.setting).size == 1
