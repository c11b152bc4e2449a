"""A training on a cluster in one call: the digits are learnt under every kind of plan; what a step costs."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.cluster.step.step import train_step
from accelsim.cluster.values.work import GraphWork
from accelsim.cluster_training import COMPARED, train_on_cluster
from accelsim.errors import UsageError
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.workload.sources.load import load_model

PLANS = ("dp=4", "pp=2,dp=2,microbatches=4", "tp=2,pp=2,microbatches=2,schedule=zb-h1")


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return fleet_of(load_cluster("4x-edu"))


@pytest.mark.parametrize("plan", PLANS)
def test_the_digits_are_learnt_to_the_same_accuracy(plan: str) -> None:
    pytest.importorskip("sklearn")
    result = train_on_cluster("digits-mlp?hidden=16", on="4x-edu", plan=plan, steps=80)
    assert result.trained.test_accuracy == pytest.approx(result.alone.test_accuracy, abs=1 / 360)
    assert result.trained.test_accuracy > 0.8
    assert result.difference < 1e-4 and result.step is not None and result.step.check() == []
    np.testing.assert_allclose(result.trained.losses, result.alone.losses, rtol=1e-3, atol=1e-5)


def test_what_sees_other_weights_learns_too() -> None:
    pytest.importorskip("sklearn")
    result = train_on_cluster("digits-mlp?hidden=32", on="4x-edu", plan="dp=2,pp=2", steps=80, compare=[*COMPARED])
    assert set(result.curves) == {"dp=2,pp=2", "one device", *COMPARED}
    plans = {name: str(curve.plan) for name, curve in result.others.items()}
    assert plans == {
        "plain": "dp=1", "local-sgd": "dp=2,period=8", "pipedream": "pp=2,schedule=pipedream",
        "pipedream-vertical": "pp=2,schedule=pipedream-vertical",
    }  # fmt: skip
    for name, curve in result.others.items():
        assert curve.losses[-10:].mean() < 0.5 * curve.losses[0], name
        assert curve.test_accuracy > 0.6, name


def test_the_cluster_is_that_of_its_spec() -> None:
    with pytest.raises(UsageError, match="are 4 devices; expected 6"):
        train_on_cluster("digits-mlp", on="4x-edu", plan="dp=4", set=["chip.count=6"])


@pytest.fixture(scope="module")
def work() -> GraphWork:
    return GraphWork("digits-cnn", lambda batch: load_model("digits-cnn?channels=4", batch=batch), {"channels": 4})


def test_a_step_of_any_network_is_made_of_its_graphs(work: GraphWork, fleet: Fleet) -> None:
    one = train_step(work, fleet.first(1), Plan(), 16)
    assert one.parts_fs["compute"] > 0 and one.check() == []
    assert one.flops == work.sample_flops() * 16
    macs = {"conv1": 8 * 8 * 4 * 9, "conv2": 8 * 8 * 8 * 4 * 9, "fc": 128 * 10}
    # backward: no gradient of the input of conv1, all others twice
    assert work.sample_flops() == 2 * (2 * macs["conv1"] + 3 * macs["conv2"] + 3 * macs["fc"])
    assert work.depth() == 3 and work.widths() == {"channels": 4} and work.shared_B(Plan(pp=2)) == 0


@pytest.mark.parametrize(
    "text", ["dp=2,pp=2,microbatches=2", "tp=2,dp=2", "pp=2,tp=2,recompute=full", "dp=4,zero=3", "dp=4,period=3"]
)
def test_a_step_under_a_plan_keeps_its_laws(work: GraphWork, fleet: Fleet, text: str) -> None:
    plan = parse_plan(text)
    step = train_step(work, fleet, plan, 16)
    assert step.check() == [] and step.total_J > 0
    assert (step.parts_fs["tensor"] > 0) == (plan.tp > 1)
    assert (step.parts_fs["recompute"] > 0) == (plan.recompute == "full")


def test_pieces_hold_what_the_cut_says(work: GraphWork, fleet: Fleet) -> None:
    costs = fleet.costs(0)
    pieces = [work.piece(index, Plan(pp=3), 2, costs) for index in range(3)]
    assert [sum(piece.parameters) for piece in pieces] == [40, 296, 1290]
    assert [piece.result_B for piece in pieces] == [2 * 4 * 64 * 4, 2 * 8 * 16 * 4, 0]
    halves = work.piece(0, Plan(tp=2), 2, costs)
    assert sum(halves.parameters) == (40 + 288 + 1290) // 2 + 8  # the bias behind a sum lies whole
    assert [call.kind for call in halves.calls[0]] == ["all_reduce"] * len(halves.calls[0])
