"""Stages of a replica: batches that follow each other, times by stage, room for keys and values, wrong plans."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.step import Layout, step
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import transformer_of
from accelsim.errors import UsageError
from accelsim.report.service import facts
from accelsim.serving.asked import Question, served
from accelsim.serving.blocks import Pool
from accelsim.serving.measures import tpot_s
from accelsim.serving.replica import Line
from accelsim.serving.requests import Request, Sequence
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.service import ROUTERS, simulate
from accelsim.serving.times import StepTimes
from accelsim.spec.yaml.clusters import load_devices

SMALL = "llama3-8b?layers=5,hidden=512,heads=4,kv_heads=4,ffn=1024,vocab=1000"
ASKED = Question(SMALL, "dgx-h100?devices=2", "closed:2", "fixed:64,24", 4, plan="pp=2")
MODEL = transformer_of(SMALL)
FLEET = fleet_of(load_devices("dgx-h100?devices=4"))


def test_batches_follow_each_other_through_the_stages() -> None:
    """Stages of 1 and 2 s, behind 0.5 s of the host: the second batch waits for both."""
    line = Line(lambda batch: [1.0, 2.0])
    batch = Batch((), 1, 4)
    assert [line.end_s(0.0, batch, 3.5), line.end_s(0.0, batch, 3.5)] == [3.5, 5.5]
    assert line.end_s(10.0, batch, 3.0) == 13.0


@pytest.mark.parametrize(("stages", "period_s"), [([1.0, 2.0], 4.0), ([2.0, 1.0], 4.0), ([1.0, 1.0, 1.0], 3.0)])
def test_a_full_pipeline_has_the_pace_of_its_slowest_stage(stages: list[float], period_s: float) -> None:
    """As many schedulers as stages, each with a request of 21 tokens."""
    requests = [Request(0.0, 4, 21) for _ in stages]
    schedulers = [Vllm(Pool(100)) for _ in stages]
    found = simulate(
        requests, schedulers, lambda batch: (sum(stages), 1.0), ROUTERS["round-robin"](),
        lines=[Line(lambda batch: stages)],
    )  # fmt: skip
    ends = [steps.column("end_s").tolist() for steps in found.steps]
    assert all(b - a == pytest.approx(period_s) for own in ends for a, b in pairwise(own[1:]))
    assert [len(own) for own in ends] == [21] * len(stages)
    assert sum(sum(steps.column("joules")) for steps in found.steps) == 21 * len(stages)


@pytest.mark.parametrize("text", ["pp=2", "tp=2,pp=2", "pp=4"])
def test_stages_add_up_to_a_call(text: str) -> None:
    assert MODEL is not None
    plan, devices = parse_plan(text), Devices(FLEET, FLEET.setting)
    times = StepTimes(MODEL, devices, plan)
    batch = Batch(((Sequence(0, Request(0.0, 256, 8)), 256),))
    call = step(devices, Layout(MODEL, plan, 1), 256, 0)
    found = times.stages_s(1.0, batch)
    assert len(found) == plan.pp and times.cost(batch)[0] == pytest.approx(sum(found))
    assert found == pytest.approx([stage.seconds for stage in call.stages], rel=0.05)
    assert times.cost(batch)[1] == pytest.approx(call.energy_J + call.links_J, rel=0.1)
    assert {name.rpartition(" ")[2] for name in times.tables} == {str(at) for at in range(plan.pp)}


def test_a_service_has_the_pace_of_a_generation_and_the_room_of_its_fullest_stage() -> None:
    assert MODEL is not None
    found = served(ASKED)
    (group,), done = found.groups, found.service.done
    assert len(done) == 4 and len(found.service.steps) == group.schedulers == 2 and facts(found, {})["replicas"] == 1
    call = step(found.devices, Layout(MODEL, Plan(pp=2), 2), 1, 76)
    assert float(tpot_s(found.service).mean()) == pytest.approx(call.period_s, rel=0.05)
    alone = served(replace(ASKED, on="h100-sxm", plan="")).groups[0]
    layers = [len(Layout(MODEL, Plan(pp=2), 1).layers(stage)) for stage in range(2)]
    assert layers == [2, 3] and group.block_B == pytest.approx(alone.block_B * 3 / 5)
    assert group.blocks == pytest.approx(alone.blocks * 5 / 3, rel=0.02)


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (replace(ASKED, speculate="cost=0.1,tokens=4,accept=0.7"), "--speculate with pp=2"),
        (replace(ASKED, on="dgx-h100?devices=6", plan="pp=6"), "pp=6 of 5 layers"),
        (replace(ASKED, plan="dp=2"), "tp=N, ep=N, pp=N"),
    ],
)
def test_what_cannot_be_is_refused(question: Question, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        served(question)
    assert told in str(caught.value)
