"""Steps of schedules that never empty their pipeline: as long as the busiest stage, with older weights in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelsim.cluster.buckets import Fusion
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.cluster.step.asked import Asked, ready
from accelsim.cluster.step.ops import Options, Planned
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.step import train_step
from accelsim.cluster.step.transformer import transformer_of
from accelsim.cluster.step.work import DecoderWork
from accelsim.errors import UsageError
from tests.unit.cluster.step.test_training_step import fleet, network

MODEL = transformer_of("llama?layers=4,hidden=64,heads=4,kv_heads=4,ffn=256,vocab=256,seq=32")
assert MODEL is not None
WORK = DecoderWork(MODEL)
FREE = Options(ignore_capacity=True)
ENDLESS = [name for name, entry in SCHEDULES.items() if not entry.synchronous]
BATCH = 8


def plan_of(name: str, **fields: int) -> Plan:
    """Four stages; of schedules that update by batches one with microbatches."""
    by_batch = SCHEDULES[name].weights.per_update == "batch"
    return replace(Plan(pp=4, schedule=name, microbatches=BATCH if by_batch else 1), **fields)


def step_of(plan: Plan, speeds: tuple[float, ...] = ()) -> StepResult:
    return train_step(WORK, fleet(plan.devices, speeds), plan, BATCH * plan.dp, FREE)


@pytest.mark.parametrize("name", ENDLESS)
def test_a_step_takes_what_the_busiest_stage_takes(name: str) -> None:
    """max over s of f_s + b_s + update (PipeDream, section 3.3), where transfers do not bind."""
    plan = plan_of(name)
    quick = fleet(4).with_topology(network(4, 10**13))
    found = train_step(WORK, quick, plan, BATCH, FREE)
    busy = [
        plan.microbatches * sum(part.time_fs for part in stage[0]) for stage in Planned(WORK, quick, plan, BATCH).ops(0)
    ]
    assert found.check() == []
    assert found.parts_fs["compute"] == max(busy)
    waits = found.parts_fs["bubble"] + found.parts_fs["pipeline"]
    assert found.time_fs == max(busy) + found.parts_fs["optimiser"] + waits and waits <= found.time_fs // 50


@pytest.mark.parametrize("name", ENDLESS)
def test_it_is_shorter_than_one_that_flushes_and_keeps_older_weights(name: str) -> None:
    found = step_of(plan_of(name))
    flushed = step_of(Plan(pp=4, schedule="gpipe", microbatches=plan_of(name).microbatches))
    assert found.time_fs < flushed.time_fs
    kept = [SCHEDULES[name].weights.kept(p, 4) for p in range(4)]
    for device, versions in zip(found.devices, kept, strict=True):
        parts = device.memory.parts_B()
        assert parts["older weights"] == (versions - 1) * parts["weights"]
        assert device.memory.times_fs[0] == 0 and device.memory.times_fs[-1] < found.time_fs


@pytest.mark.parametrize("name", ENDLESS)
def test_replicas_and_stragglers(name: str) -> None:
    plan = plan_of(name, dp=2)
    even, slow = step_of(plan), step_of(plan, (1.0,) * 7 + (0.25,))
    assert even.check() == [] and slow.check() == []
    assert even.by_link_B and even.parts_fs["stragglers"] == 0 < slow.parts_fs["stragglers"]
    fast = step_of(plan, (2.0,) * 8)
    assert fast.time_fs < even.time_fs


def test_minibatches_are_whole_batches_without_being_asked() -> None:
    made = ready(Asked("resnet50", "4x-a100-nvlink", "pp=4,schedule=pipedream"))
    assert (made.plan.microbatches, made.batch) == (1, 32)


def test_what_needs_a_flush_is_refused_at_once() -> None:
    tied = transformer_of("gpt?layers=4,hidden=64,heads=4")
    assert tied is not None
    plan = Plan(pp=2, dp=2, schedule="pipedream", microbatches=2, zero=1, period=2)
    with pytest.raises(UsageError) as told:
        train_step(DecoderWork(tied), fleet(4), plan, 4, Options(gradients=Fusion("each")))
    for part in ("2 microbatches with pipedream", "zero=1", "period=2", "share weights", "gradients by each"):
        assert part in str(told.value)
