"""Collectives beside products, activations in the memory of the host, attention of the first generation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.shapes.building import Share
from accelsim.cluster.step.asked import Asked, ready
from accelsim.cluster.step.costs import FIRST_SLOWER, Costs, Setting
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.memory import OutOfMemory, to_host
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.search import search
from accelsim.cluster.step.segments import Split, block
from accelsim.cluster.step.step import train_step
from accelsim.cluster.step.tensor import Call
from accelsim.cluster.step.transformer import transformer_of
from accelsim.cluster.step.work import DecoderWork, stash_B
from accelsim.errors import UsageError
from accelsim.time import FS, FS_PER_S
from tests.unit.cluster.step.test_training_step import CHIP, FREE, fleet

MODEL = transformer_of("llama2-7b?layers=4,hidden=1024,heads=8,kv_heads=8,ffn=4096,vocab=1024,seq=512")
assert MODEL is not None
WORK = DecoderWork(MODEL)


def with_setting(devices: int, setting: Setting) -> Fleet:
    made = replace(fleet(devices), setting=setting)
    vars(made)["_costs"] = {id(CHIP): Costs(CHIP, setting)}
    return made


def stepped(plan: Plan, setting: Setting, batch: int = 4) -> StepResult:
    result = train_step(WORK, with_setting(plan.devices, setting), plan, batch, FREE)
    assert result.check() == []
    return result


def played_fs(chunks: int, product_fs: int, transfer_fs: int) -> int:
    """A product in chunks, each of which but the first needs one more transfer; event by event."""
    free = arrived = 0
    for chunk in range(chunks):
        arrived += transfer_fs * (chunk > 0)
        free = max(free, arrived) + product_fs
    return free


@pytest.mark.parametrize("chunks", [2, 4, 8])
@pytest.mark.parametrize("sent_fs", [1, 70, 100, 130, 1000])
def test_chunks_are_a_pipeline_of_two_stages(chunks: int, sent_fs: int) -> None:
    whole, part, alone = 95 * chunks, 100, sent_fs * (chunks - 1)
    call = Call("all_gather", 1, 1, whole, chunks, part)
    assert call.exposed_fs(alone) == min(alone, played_fs(chunks, part, sent_fs) - whole)
    assert Call("all_gather", 1, 1, whole).exposed_fs(alone) == max(0, alone - whole)  # in bulk
    assert Call("all_gather", 1).exposed_fs(alone) == alone


def test_collectives_beside_products_take_less_and_move_the_same() -> None:
    plan = Plan(tp=4, microbatches=2, sp=True)
    apart, beside = (stepped(plan, Setting("bf16", overlap_tensor=on)) for on in (False, True))
    assert 0 < beside.parts_fs["tensor"] < apart.parts_fs["tensor"]
    assert beside.parts_fs["compute"] == apart.parts_fs["compute"]
    assert beside.by_link_B == apart.by_link_B
    assert beside.energy_J["links"] == pytest.approx(apart.energy_J["links"])
    whole = replace(plan, sp=False)
    assert stepped(whole, Setting("bf16", overlap_tensor=True)).time_fs == stepped(whole, Setting("bf16")).time_fs


def test_what_overlaps_with_products_leaves_less_room_for_gathers() -> None:
    """Weights of ZeRO come over the same wires as what the group of a stage sends beside its products."""
    plan, options = Plan(dp=2, tp=2, microbatches=2, sp=True, zero=3), replace(FREE, overlap=True)
    apart, beside = (
        train_step(WORK, with_setting(4, Setting("bf16", overlap_tensor=on)), plan, 4, options) for on in (False, True)
    )
    assert beside.parts_fs["data"] >= apart.parts_fs["data"] and beside.time_fs <= apart.time_fs


def test_activations_wait_in_the_memory_of_the_host() -> None:
    plan = Plan(pp=2, microbatches=4)
    here, there = (stepped(plan, Setting("bf16", offload=on)) for on in (False, True))
    kept = stash_B(Split(MODEL, 1, flash=True), "none")
    for p, (one, other) in enumerate(zip(here.devices, there.devices, strict=True)):
        assert one.memory.peak_stash_B == other.host_B == (2 - p) * 2 * kept
        assert other.memory.peak_stash_B == 0
        assert other.memory.static_B["buffers"] - one.memory.static_B["buffers"] == 2 * kept
    assert there.by_link_B["host pcie"] == 2 * 4 * 4 * kept  # out and in, microbatches, blocks
    assert there.energy_J["links"] > here.energy_J["links"]
    way = to_host(fleet(1), 0)
    assert way is not None
    assert there.time_s >= 2 * 4 * 2 * kept / way.rate_Bps > here.time_s  # more than passes hide
    assert there.time_fs - here.time_fs == pytest.approx(there.parts_fs["offload"], rel=0.5)


def test_hosts_are_shared_by_devices() -> None:
    alone = to_host(fleet(2), 0)
    shared = to_host(replace(fleet(2), hosts=(Share(1e9, 2**30),) * 2), 0)
    assert alone is not None and shared is not None
    assert shared.rate_Bps == 1e9 < alone.rate_Bps <= alone.link.bandwidth and shared.capacity_B == 2**30
    assert shared.sent_fs(10**9) * FS == pytest.approx(1.0)
    small = replace(with_setting(1, Setting("bf16", offload=True)), hosts=(Share(1e9, 2**10),))
    with pytest.raises(OutOfMemory, match="activations in the host"):
        train_step(WORK, small, Plan(), 1)
    assert FS_PER_S * FS == 1.0


def test_first_generation_of_attention_keeps_as_little_and_takes_longer() -> None:
    """Its times are those of FlashAttention 2 by published factors, in both directions."""
    first, second = (Costs(CHIP, Setting("bf16", attention=kind)) for kind in ("memory-efficient", "flash"))
    assert first.flash and second.flash
    segment = block(Split(MODEL, 2, flash=True))[2]
    slow, quick = (costs.piece(segment) for costs in (first, second))
    for name, times in zip(("forward", "inputs"), FIRST_SLOWER, strict=True):
        one, other = getattr(slow, name), getattr(quick, name)
        assert one.time_fs == pytest.approx(times * other.time_fs) and one.macs == other.macs
        assert one.parts[0].seconds == pytest.approx(times * other.parts[0].seconds)
    volta = Costs(ready(Asked("gpt2", "dgx1-v100")).fleet.chips[0], Setting("fp16", attention="memory-efficient"))
    assert volta.flash


def test_options_are_refused_in_words() -> None:
    asked = Asked("llama2-7b?layers=2", "dgx-a100", "tp=8", batch=8)
    with pytest.raises(UsageError, match="expected sp"):
        ready(replace(asked, setting=Setting(overlap_tensor=True)))
    with pytest.raises(UsageError, match="edu-4x4 has no link to the memory of a host"):
        ready(replace(asked, on="4x-edu", plan="dp=4", setting=Setting(offload=True)))
    with pytest.raises(UsageError, match="expected a decoder"):
        ready(Asked("resnet50", "dgx-a100", "dp=8", setting=Setting(offload=True)))


def test_a_search_overlaps_where_a_plan_can() -> None:
    best = search(WORK, with_setting(2, Setting("bf16", overlap_tensor=True)), 4, FREE).best
    assert {result.plan.sp for result in best} >= {False} and best[0].time_s <= best[-1].time_s


def test_as_many_devices_as_a_cluster_may_have(full: bool) -> None:
    """A step of a thousand replicas and more is played once for all of them."""
    nodes = 16_384 if full else 64
    dp = nodes * 8 // 128
    model = "llama3-70b?layers=126,hidden=16384,heads=128,kv_heads=8,ffn=53248"
    plan = f"tp=8,pp=16,dp={dp},sp,zero=1,microbatches=16,recompute=full"
    result = ready(Asked(model, f"{nodes}x-dgx-h100", plan, 16 * dp, setting=Setting("bf16"))).fitted()[1]
    assert result.plan.devices == 8 * nodes and len(result.devices) == 16 and result.check() == []
