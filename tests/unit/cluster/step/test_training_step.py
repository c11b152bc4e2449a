"""A training step on a cluster: what it is made of, what it refuses, what would help."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from accelsim.cluster.buckets import Fusion
from accelsim.cluster.network.topology import Topology, Wire
from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.step.asked import Asked, ready
from accelsim.cluster.step.costs import Costs, Setting
from accelsim.cluster.step.energy import wire_bytes
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.cluster.step.memory import OutOfMemory, bandwidth_Bps
from accelsim.cluster.step.ops import EXPOSED, FSDP, FUSED, Options, Planned, awaited, beside
from accelsim.cluster.step.search import Found, legal_plans, what_ifs
from accelsim.cluster.step.segments import Split, block
from accelsim.cluster.step.step import train_step
from accelsim.cluster.step.transformer import transformer_of
from accelsim.cluster.step.work import DecoderWork, stash_B
from accelsim.errors import UsageError
from accelsim.kernels.whole import PLANS as PAIRS
from accelsim.kernels.whole import shipped
from accelsim.report.plan import best_plans
from accelsim.report.step import summary_rows
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.spec.yaml.load import load_chip
from accelsim.time import FS_PER_S
from tests.helpers.closed_sizes import Transformer as Sizes
from tests.helpers.transformer_sizes import first_stage_activation_B

CHIP = load_chip("a100-80-sxm")
MODEL = transformer_of("gpt?layers=4,hidden=64,heads=4,kv_heads=4,ffn=256,vocab=256,seq=32")
assert MODEL is not None
WORK = DecoderWork(MODEL)
FREE = Options(overlap=False, ignore_capacity=True)


def network(devices: int, rate: int = 10**9) -> Topology:
    """Devices at one switch."""
    wires = []
    for device in range(devices):
        for a, b in ((device, devices), (devices, device)):
            wires.append(Wire(a, b, 10**9, Fraction(rate), 1e-12, "link"))
    labels = (*(f"gpu{i}" for i in range(devices)), "switch")
    return Topology("test", devices, labels, tuple(wires), (0,) * devices)


def fleet(devices: int, speeds: tuple[float, ...] = ()) -> Fleet:
    """As many A100."""
    made = Fleet("test", "test", network(devices), (CHIP,) * devices, speeds or (1.0,) * devices)
    vars(made)["_costs"] = {id(CHIP): COSTS}
    return made


COSTS = Costs(CHIP)
PLANS = ("dp=1,microbatches=4", "pp=2,microbatches=4", "tp=2,microbatches=2", "tp=2,sp,microbatches=2",
         "dp=2,microbatches=2,zero=1", "pp=2,chunks=2,microbatches=4,schedule=interleaved", "pp=2,microbatches=4,schedule=zb-h1",
         "dp=2,pp=2,microbatches=2,recompute=full", "dp=2,microbatches=2,zero=3")  # fmt: skip


@pytest.mark.parametrize("text", PLANS)
def test_a_step_adds_up(text: str) -> None:
    plan = parse_plan(text)
    result = train_step(WORK, fleet(plan.devices), plan, 4, FREE)
    assert result.check() == []
    assert result.time_fs >= max(device.spent_fs["compute"] for device in result.devices)
    assert 0 < result.mfu <= result.hfu < 1
    assert set(result.as_dict()["parts_s"]) == set(result.parts_fs)


def test_one_device_has_no_bubble_and_sends_nothing() -> None:
    result = train_step(WORK, fleet(1), Plan(microbatches=4), 4, FREE)
    assert {name for name, fs in result.parts_fs.items() if fs} == {"compute", "optimiser"}
    assert result.by_link_B == {}


def test_equal_requests_cost_one_simulation() -> None:
    split = Split(MODEL, 1)
    found, known = COSTS.block(split), len(COSTS.graphs)
    assert COSTS.block(split) == found and len(COSTS.graphs) == known


def test_sequence_parallelism_leaves_products_as_they_are() -> None:
    plain, shared = ({s.name: s.graph for s in block(Split(MODEL, 1, 2, sp))} for sp in (False, True))
    for name in ("qkv", "attention", "out", "feed-forward"):
        assert plain[name].tensors["x"].shape == shared[name].tensors["x"].shape
    assert plain["norm"].tensors["x"].shape[1] == 2 * shared["norm"].tensors["x"].shape[1]


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("sp", [False, True])
def test_stashes_are_those_of_the_closed_form(recompute: str, sp: bool) -> None:
    """The closed form is one of GPT with dropout."""
    found = transformer_of("gpt3?layers=8")
    assert found is not None
    model = replace(found, dropout=True)
    sizes = Sizes(8, model.hidden, model.heads, model.seq, model.vocab)
    whole = first_stage_activation_B(sizes, tp=8, pp=4, sp=sp, recompute=recompute)  # type: ignore[arg-type]
    assert 8 * stash_B(Split(model, 1, 8, sp), recompute) == whole  # type: ignore[arg-type]


def test_gpt3_has_175_billion_parameters() -> None:
    model = transformer_of("gpt3")
    assert model is not None
    assert model.seq == 2048
    assert model.parameters == pytest.approx(174.6e9, rel=1e-3)
    h, s, layers, vocab = model.hidden, model.seq, model.layers, model.vocab
    exact = 72 * s * layers * h * h * (1 + s / (6 * h) + vocab / (12 * layers * h))
    assert model.sequence_flops == pytest.approx(exact, rel=1e-12, abs=0)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    plan = Plan(dp=3, tp=3, pp=8, chunks=2, microbatches=5, schedule="interleaved", zero=1, sp=True)
    with pytest.raises(UsageError) as told:
        train_step(WORK, fleet(4), plan, 7, FREE)
    text = str(told.value)
    for part in ("72 devices", "heads=4", "4 layers", "a batch of 7 on 3 replicas", "microbatches"):
        assert part in text


def test_what_does_not_fit_names_terms_and_devices() -> None:
    big = transformer_of("gpt3?layers=8")
    assert big is not None
    with pytest.raises(OutOfMemory) as told:
        train_step(DecoderWork(replace(big, layers=48, seq=16)), fleet(2), Plan(pp=2, microbatches=2), 2, Options())
    text = str(told.value)
    assert "of optimiser" in text and "of 80 GiB, and 1 more stage; expected" in text and "\n" not in text


def test_what_a_plan_leaves_open_is_computed_again_until_it_fits() -> None:
    """On 8 A100 twelve blocks of GPT-3 fit if attention is computed again, and not on one each."""
    many = Asked(
        "gpt3?layers=12", "dgx-a100", "tp=8,microbatches=1", batch=16, setting=Setting("fp16", attention="plain")
    )
    made, found = ready(many).fitted()
    kept = found.refused
    assert made.plan.recompute == found.plan.recompute != "none" and kept is not None
    assert kept.needed_B > kept.capacity_B >= found.fullest.memory.peak_B
    with pytest.raises(OutOfMemory) as told:
        ready(replace(many, plan="tp=8,microbatches=1,recompute=none")).fitted()
    assert told.value.needed_B == kept.needed_B
    few = replace(many, model="gpt3?layers=1")
    assert ready(few).fitted()[1].refused is None
    with pytest.raises(OutOfMemory, match=r"device 0 .* of 80 GiB"):
        ready(replace(many, plan="dp=8,microbatches=1")).fitted()


def test_a_straggler_is_waited_for() -> None:
    plan = Plan(dp=2, microbatches=2)
    even = train_step(WORK, fleet(2), plan, 4, FREE)
    slow = train_step(WORK, fleet(2, (1.0, 0.5)), plan, 4, FREE)
    assert slow.parts_fs["stragglers"] > 0 and slow.time_fs > even.time_fs
    waits = {device.ranks: device.spent_fs.get("wait", 0) for device in slow.devices}
    assert waits[(0,)] > waits[(1,)]


def test_changes_are_simulated_before_they_are_told() -> None:
    made = ready(Asked("gpt?layers=4", "4x-edu", "dp=2,pp=2", 4))
    result = made.step()
    helps = what_ifs(made, result)
    assert [each.saved for each in helps] == sorted((each.saved for each in helps), reverse=True)
    assert any(each.change.startswith("links") for each in helps)
    assert any(each.change.endswith("interleaved with chunks=2") and "chunks=2" in each.option for each in helps)
    assert made.step().as_dict() == result.as_dict()


def data_fs(fusion: Fusion, overlap: bool = True) -> int:
    options = replace(FREE, overlap=overlap, gradients=fusion, gradient_B=4)
    result = train_step(WORK, fleet(2), Plan(dp=2, microbatches=2), 4, options)
    assert result.check() == []
    return result.parts_fs["data"]


def test_gradients_go_in_buckets_beside_the_backward_pass() -> None:
    """Four blocks, the embedding and the last norm: DDP's threshold is more than all; nothing fused pays latencies."""
    each, whole, behind = data_fs(Fusion("each")), data_fs(Fusion("whole")), data_fs(Fusion(), overlap=False)
    assert each < whole and data_fs(Fusion("ddp", 1)) == each
    free = Fusion("whole", memory_Bps=10**24)
    assert data_fs(free) == pytest.approx(behind, abs=2) and data_fs(FUSED) == pytest.approx(behind, abs=2)
    result = train_step(
        WORK, fleet(2), Plan(dp=2, microbatches=2), 4, replace(FREE, overlap=True, gradients=Fusion("each"))
    )
    sent = [piece for piece in result.devices[0].slices if piece.label == "all_reduce"]
    assert sent and sent[0].start_fs < result.devices[0].slices[-1].start_fs


def test_copies_take_the_memory_of_the_device_and_fp16_halves_what_is_sent() -> None:
    parameters = WORK.piece(0, Plan(), 1, COSTS).parameters
    copies = 2 * 4 * sum(parameters) * FS_PER_S // bandwidth_Bps(CHIP)
    assert data_fs(Fusion("whole")) - data_fs(FUSED) == pytest.approx(copies, abs=2)
    assert data_fs(Fusion("whole", compression="fp16")) < data_fs(Fusion("whole"))


def test_a_policy_that_is_not_there_is_refused_with_the_model_that_is_not_either() -> None:
    with pytest.raises(UsageError, match=r"(?s)gptt.*did you mean 'horovod'"):
        ready(Asked("gptt", "4x-edu", "dp=4", options=Options(gradients=Fusion("horovot"))))


def test_a_step_is_as_far_off_as_its_kernels() -> None:
    """What is no kernel is taken to be exact, so that the more of it there is the narrower the interval."""
    alone = train_step(WORK, fleet(1), Plan(), 1, FREE)
    shared = train_step(WORK, fleet(2), Plan(tp=2), 1, FREE)
    assert alone.interval is not None and shared.interval is not None
    assert alone.interval.low_s < alone.time_s < alone.interval.high_s
    assert shared.interval.high_s / shared.time_s < alone.interval.high_s / alone.time_s
    assert alone.as_dict()["interval_s"] == [alone.interval.low_s, alone.interval.high_s]
    assert ready(Asked("gpt?layers=2", "4x-edu", "dp=4", 4)).step().interval is None


def test_zero_sends_the_gradients_of_every_microbatch() -> None:
    """ZeRO 2 reduces and scatters once per microbatch, ZeRO 3 gathers twice per microbatch too; both hold units whole."""
    count = sum(WORK.piece(0, Plan(dp=2), 1, COSTS).parameters)
    ring = 2 * 2 * 1 * count // 2  # two devices, two wires each, half of the bytes: one pass of a ring
    for zero, passes in ((0, 2), (1, 2), (2, 4 + 1), (3, 3 * 4)):
        result = train_step(WORK, fleet(2), Plan(dp=2, microbatches=4, zero=zero), 8, FREE)
        assert result.by_link_B["link"] == pytest.approx(2 * passes * ring, rel=1e-2)
        held = result.devices[0].memory.static_B["gathered"]
        assert held == {2: 4, 3: 8}.get(zero, 0) * count  # all layers are one unit here
    for zero in (2, 3):
        plan = Plan(dp=2, microbatches=4, zero=zero)
        every = wire_bytes(WORK, fleet(2), plan, 8, FREE).sum()
        assert every == pytest.approx(train_step(WORK, fleet(2), plan, 8, FREE).by_link_B["link"], rel=1e-3)


def test_collectives_of_zero_make_the_passes_that_hide_them_longer() -> None:
    assert beside(10, 0, FSDP) == 10 and beside(10, 4, FSDP) == 6 + round(4 * FSDP) and beside(0, 4, FSDP) == 0
    hidden = Options(ignore_capacity=True)
    plan = Plan(dp=2, microbatches=2, zero=3)
    quick, slow = (train_step(WORK, fleet(2), plan, 4, options) for options in (hidden, FREE))
    assert 0 < quick.parts_fs["data"] < slow.parts_fs["data"]


def test_collectives_take_multiprocessors_whatever_the_stage_of_zero() -> None:
    """Reduce-scatters of stages 1 and 2 keep as much from the pass that hides them where there is one microbatch."""
    devices = replace(fleet(2), software=fleet(2).software.model_copy(update={"channels": 27}))
    taken = Planned(WORK, devices, Plan(dp=2), 4, FREE).taken(0)
    assert taken == 27 / 108 and Planned(WORK, fleet(2), Plan(dp=2), 4, FREE).taken(0) == 1 / 108
    large = transformer_of("llama2-7b?layers=4,seq=2048")
    assert large is not None
    quick = replace(devices, topology=network(2, 10**12))
    first, second = (
        train_step(DecoderWork(large), quick, Plan(dp=2, zero=zero), 2, Options(ignore_capacity=True))
        for zero in (1, 2)
    )
    assert second.time_fs == pytest.approx(first.time_fs, rel=0.02)
    plain = train_step(DecoderWork(large), replace(quick, software=fleet(2).software), first.plan, 2)
    assert first.parts_fs["data"] > plain.parts_fs["data"] and first.parts_fs["compute"] == plain.parts_fs["compute"]


def test_a_host_is_exposed_however_long_kernels_take() -> None:
    assert awaited(100, 40) == 60 and awaited(100, 900) == round(100 * EXPOSED) and awaited(0, 5) == 0


def test_new_weights_may_come_while_the_next_step_begins() -> None:
    """Layers of a large model come one after the other; those of a small one are one unit, which hides nothing."""
    plan, large = Plan(dp=2, microbatches=2, zero=1), transformer_of("llama2-7b?layers=2,seq=128")
    assert large is not None
    plain, ahead = (
        train_step(DecoderWork(large), fleet(2), plan, 4, replace(FREE, overlap_gather=on)) for on in (False, True)
    )
    assert ahead.time_fs < plain.time_fs and ahead.by_link_B == plain.by_link_B
    with pytest.raises(UsageError, match="zero=1 or 2"):
        train_step(WORK, fleet(2), replace(plan, zero=3), 4, replace(FREE, overlap_gather=True))


def test_attention_in_one_kernel_keeps_no_scores_and_takes_less() -> None:
    model = transformer_of("llama2-7b?layers=1,seq=4096")
    assert model is not None
    flash, plain = (Costs(CHIP, Setting("bf16", attention=kind)) for kind in ("", "plain"))
    assert flash.flash and not plain.flash and not Costs(load_chip("v100-sxm2-16"), Setting("fp16")).flash
    segments = [block(Split(model, 1, flash=costs.flash))[2] for costs in (flash, plain)]
    one, other = (costs.piece(each) for costs, each in zip((flash, plain), segments, strict=True))
    assert one.forward.kernels == one.inputs.kernels == 1
    assert 2 * one.inputs.macs == 5 * one.forward.macs
    assert 2 * one.forward.time_fs < other.forward.time_fs and one.inputs.time_fs < other.inputs.time_fs
    scores = 2 * model.heads * model.seq**2  # the softmax, in 16 bits
    kept = [stash_B(Split(model, 1, flash=on), "none") for on in (True, False)]
    assert kept[1] - kept[0] == scores - 4 * model.heads * model.seq


def test_microbatches_are_found() -> None:
    """As large as fits and makes the step shorter, and the output says so."""
    asked = Asked("llama2-7b?layers=2,seq=512", "dgx-a100", "fsdp=8", batch=64, setting=Setting("bf16"))
    made, found = ready(asked).fitted()
    assert found.tried == (1, 2, 4, 8) and found.microbatch == 8 and made.plan.zero == 3
    smaller = ready(replace(asked, plan="dp=8,zero=3,microbatches=8")).fitted()[1]
    assert smaller.tried == () and found.time_fs < smaller.time_fs


def test_plans_are_sought_with_chunks_that_leave_layers_over() -> None:
    """Seven layers on two stages: three chunks of a device; all stages of ZeRO; microbatches of up to 64 sequences."""
    model = transformer_of("gpt?layers=7,hidden=64,heads=4,kv_heads=4,ffn=256,vocab=256,seq=32")
    assert model is not None
    found = list(legal_plans(DecoderWork(model), 4, 256, 1, flash=True))
    assert {plan.chunks for plan in found if plan.pp == 2} == {1, 2, 3}
    assert {plan.zero for plan in found} == {0, 1, 2, 3} and {plan.recompute for plan in found} == {"none", "full"}
    assert {256 // plan.dp // plan.microbatches for plan in found} == {1, 2, 4, 8, 16, 32, 64}


@pytest.mark.parametrize("plan", ["tp=2,microbatches=2", "dp=2,zero=1", "dp=2,zero=3", "tp=2,dp=2"])
def test_times_of_collectives_and_rates_have_intervals(plan: str) -> None:
    node = fleet_of(load_cluster("dgx-a100"), Setting("fp16")).first(parse_plan(plan).devices)
    found = train_step(WORK, node, parse_plan(plan), 4, FREE)
    sent = {name for name in ("tensor", "data") if found.parts_fs.get(name)}
    assert sent and set(found.parts_ends_s) == sent
    for name, (low, high) in found.parts_ends_s.items():
        assert 0 <= low < found.parts_fs[name] / FS_PER_S < high
    assert found.interval is not None
    rates = (4 * 32 / found.interval.high_s, 4 * 32 / found.interval.low_s)
    assert found.tokens_ends_per_s == pytest.approx(rates)
    assert found.as_dict()["tokens_interval_per_s"] == list(found.tokens_ends_per_s or ())
    shown = dict(summary_rows(found))
    assert " (90 %: " in shown["tokens per second"] and all(" (90 %: " in shown[f"  {name}"] for name in sent)


def test_between_nodes_no_interval_of_a_collective_is_known() -> None:
    nodes = fleet_of(load_cluster("2x-dgx-a100"), Setting("fp16"))
    found = train_step(WORK, nodes, parse_plan("dp=8,tp=2"), 16, FREE)
    assert found.parts_fs["data"] and set(found.parts_ends_s) == {"tensor"}


def test_plans_whose_order_is_uncertain_are_named() -> None:
    step = train_step(WORK, fleet(1), Plan(microbatches=4), 4, FREE)
    near = shipped().wholes[f"{PAIRS}: one node"].below
    times = [round(step.time_fs * factor) for factor in (1, near - 0.01, near + 0.01)]
    best = tuple(replace(step, time_fs=time) for time in times)
    assert Found(best, (), {}).alike == (1, 1.0)
    told = best_plans(Found(best, (), {}, f"{PAIRS}: one node")).facts
    assert (told["alike"], told["alike_within"]) == (2, pytest.approx(near))
    assert any(text.startswith("Plans 1 to 2 cannot be told apart: ") for text in told["sentences"])
