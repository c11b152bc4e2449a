"""Experts on several devices: who holds and sends what, the fullest device, a service, illegal plans."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.serving.asked import served
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.pieces import Call, experts, router
from accelsim.cluster.serving.serve import Asked, Served, needs, serve
from accelsim.cluster.serving.step import Layout, step
from accelsim.cluster.step.costs import Setting
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.errors import UsageError
from accelsim.report.serving import facts, summary_rows
from accelsim.serving.asked import Question
from accelsim.serving.asked import served as service
from accelsim.serving.requests import Request, Sequence
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.schedulers.registry import read_scheduler
from accelsim.serving.times import StepTimes, fullest
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.workload.routing import UNIFORM, Loads, Routing, chances, reached, read_routing, shared

SMALL = "mixtral-8x7b?layers=2,hidden=512,heads=4,kv_heads=4,ffn=1024,vocab=1000"


def model(text: str = SMALL) -> Transformer:
    found = transformer_of(text)
    assert found is not None
    return found


def small(plan: str, sequences: int = 4, cluster: str = "dgx-h100?devices=4", routing: str = "") -> Served:
    setting = Setting(routing=routing)
    return serve(model(), fleet_of(load_cluster(cluster), setting), parse_plan(plan), Asked(sequences, 64, 3))


@pytest.mark.parametrize("plan", ["ep=4", "tp=2,ep=2", "dp=2,ep=2", "ep=2,pp=2"])
def test_parts_are_the_whole_and_one_copy_of_each_expert_is_there(plan: str) -> None:
    found, whole = small(plan), parse_plan(plan)
    for call in (found.prefill, *found.decode.found):
        parts = sum(call.total(key) for key in ("compute_s", "collectives_s", "transfer_s"))
        assert call.through_s == pytest.approx(parts) and call.total("collectives_s") > 0
    devices, layout = Devices(found.fleet), Layout(model(), whole, 1)
    of_experts = 2 * 8 * 3 * 512 * 1024 * 2  # layers, experts, matrices, elements, bytes
    held = whole.ep * whole.tp * sum(each["weights"] for each in needs(devices, layout, 8, 1, permanent=True))
    alone = sum(each["weights"] for each in needs(devices, Layout(model(), Plan(), 1), 8, 1, permanent=True))
    assert held - of_experts == pytest.approx(whole.ep * (alone - of_experts), rel=0.01)  # the rest in every group
    assert facts(found)["fullest"] == [*found.fuller] and "of tokens" not in dict(summary_rows(found))["experts"]


def test_ranks_of_groups() -> None:
    """Tensor parts are next to each other, then groups that share experts, replicas, stages."""
    plan = parse_plan("dp=2,ep=2,tp=2,pp=2")
    assert plan.devices == 16 and str(plan) == "dp=2,tp=2,ep=2,pp=2" == str(parse_plan(str(plan)))
    assert plan.ep_groups(1) == [(8, 10), (9, 11), (12, 14), (13, 15)]
    assert plan.tp_group(10) == (10, 11) and plan.dp_group(10) == (10, 14)
    assert all(plan.rank(*plan.place(rank)) == rank for rank in range(16))


def test_a_token_goes_once_to_each_node_and_device_that_it_needs() -> None:
    """Two nodes of two: an exchange of one copy a node between peers beside one of a copy a device inside."""
    fleet, plan = fleet_of(load_cluster("2x-dgx-h100?devices=2")), parse_plan("ep=4")
    call = Call(model(), 4, 256, 0, 1, 4, Routing(-1.0))
    piece, devices = router(call), Devices(fleet)
    there, back = devices.sent(plan, 0, piece)[:2]
    nbytes = call.rows * 512 * 2
    far = fleet.collective("all_to_all", ceil(nbytes * reached(2, 8, 2)), [(0, 2), (1, 3)])
    near = fleet.collective("all_to_all", ceil(nbytes * reached(4, 8, 2)), [(0, 1), (2, 3)])
    assert there == back and there.time_fs == max(far.time_fs, near.time_fs) == far.time_fs
    assert there.energy_J == far.energy_J + near.energy_J
    inside = Devices(fleet_of(load_cluster("dgx-h100?devices=4")))
    (one, _), group = inside.sent(plan, 0, piece)[:2], (0, 1, 2, 3)
    assert one == inside.fleet.collective("all_to_all", ceil(nbytes * reached(4, 8, 2)), [group])


def test_narrow_products_send_narrow_tokens_and_get_wide_ones_back() -> None:
    fleet, plan = fleet_of(load_cluster("dgx-h100?devices=4")), parse_plan("ep=4")
    piece = router(Call(model(), 4, 1024, 0, 1, 4))
    there, back = Devices(fleet, Setting("fp8_e4m3fn")).sent(plan, 0, piece)[:2]
    assert 1.5 < back.energy_J / there.energy_J < 2.5 and there.time_fs < back.time_fs


@pytest.mark.parametrize(
    ("parts", "experts_", "k", "groups", "kept"),
    [(2, 8, 2, 1, 1), (8, 8, 2, 1, 1), (32, 256, 8, 8, 4), (4, 256, 8, 8, 4), (8, 256, 8, 8, 4)],
)
def test_parts_that_a_token_needs(parts: int, experts_: int, k: int, groups: int, kept: int) -> None:
    rng, found = np.random.default_rng(parts), []
    for _ in range(3000):
        open_to = np.isin(np.arange(experts_) * groups // experts_, rng.permutation(groups)[:kept])
        chosen = rng.permutation(np.flatnonzero(open_to))[:k]
        found.append(len({*(chosen // (experts_ // parts)).tolist()}))
    assert reached(parts, experts_, k, groups, kept) == pytest.approx(np.mean(found), rel=0.02)


@pytest.mark.parametrize("routing", ["uniform", "even", "power:1.2", "shares:4/2/1/1"])
@pytest.mark.parametrize("tokens", [1, 16, 4096])
def test_all_choices_go_somewhere(routing: str, tokens: int) -> None:
    first, rest = shared(tokens, 2, 8, 4, read_routing(routing))
    if routing != "even" or tokens > 1:
        assert first.rows + 3 * rest.rows == pytest.approx(tokens * 2)
    assert rest.rows <= first.rows and 1 <= first.active <= min(2, max(1, first.rows))
    assert chances(8, 2, read_routing(routing)).sum(axis=1) == pytest.approx(2)
    assert str(read_routing(routing)) == routing


def test_few_tokens_are_as_uneven_as_draws_and_many_as_their_shares() -> None:
    rng = np.random.default_rng(1)
    drawn = np.argsort(rng.random((4000, 6, 8)), axis=2)[:, :, :2].reshape(4000, -1) // 4
    assert shared(6, 2, 8, 2)[0].rows == pytest.approx(np.mean([max(s, 12 - s) for s in drawn.sum(axis=1)]), rel=0.05)
    assert shared(10**6, 2, 8, 2)[0].rows == pytest.approx(10**6, rel=0.002)
    given = shared(10**5, 1, 8, 4, read_routing("shares:4/2/1/1"))
    assert given[0].rows == pytest.approx(10**5 / 2, rel=0.01)
    assert shared(8, 2, 8, 1, UNIFORM)[0] == shared(8, 2, 8, 1, UNIFORM)[1]


def test_the_fullest_device_sets_the_pace() -> None:
    call = Call(model(), 4, 512, 0, 1, 4, read_routing("shares:4/2/1/1"))
    piece, devices = experts(call), Devices(fleet_of(load_cluster("dgx-h100?devices=4")))
    assert piece.other is not None and call.fuller == pytest.approx(4 * call.loads[0].rows / (2 * call.ep * call.rows))
    full, other = (devices.piece(call, piece, 0, full) for full in (True, False))
    assert full.cost.macs > 1.5 * other.cost.macs and full.cost.time_fs > other.cost.time_fs
    times = [small("ep=4", 64, routing=text).time_to_first_token_s for text in ("even", "", "power:1.2")]
    assert times == sorted(times) and times[2] > 1.02 * times[0]


def test_loads_of_one_device_by_routing() -> None:
    """A skewed routing reaches fewer experts, so that a decode step reads less."""
    last = [small("tp=4", 8, routing=text).decode.last for text in ("", "power:1.5")]
    assert all(last) and last[1].stages[0].moved_B < last[0].stages[0].moved_B  # type: ignore[union-attr]
    assert dict(summary_rows(small("tp=4", 8, routing="power:1.5")))["experts"] == "power:1.5"


@pytest.fixture(scope="module", name="times")
def _times() -> StepTimes:
    fleet = fleet_of(load_cluster("dgx-h100?devices=2"))
    return StepTimes(model(), Devices(fleet, fleet.setting), parse_plan("ep=2"))


@pytest.mark.parametrize(("prompt", "count"), [(64, 2), (256, 2)])
def test_prompts_alone_take_their_prefill(times: StepTimes, prompt: int, count: int) -> None:
    batch = Batch(tuple((Sequence(n, Request(0.0, prompt, 8)), prompt) for n in range(count)))
    call = step(times.devices, Layout(times.model, times.plan, count // 2), prompt, 0)
    seconds, joules = times.cost(batch)
    assert seconds == pytest.approx(call.first_s, rel=0.03)
    assert joules == pytest.approx(call.energy_J + call.links_J, rel=0.08)


def test_sequences_that_decode_take_a_step(times: StepTimes) -> None:
    call = step(times.devices, Layout(times.model, times.plan, 8), 1, 256)
    assert times.cost(Batch((), 16, 16 * 256))[0] == pytest.approx(call.period_s, rel=0.02)


def test_the_fullest_group_of_a_batch() -> None:
    prompts = [(Sequence(n, Request(0.0, n, 1)), n) for n in (7, 5, 4, 3)]
    found = fullest(Batch(tuple(prompts), 5, 100, moved=3), 2)
    assert [tokens for _, tokens in found.chunks] in ([7, 3], [5, 4]) and found.tokens == 10 + 3
    assert (found.decoding, found.context, found.moved) == (3, 60, 2)
    assert fullest(Batch((), 4, 40), 4) == Batch((), 1, 10)


def test_a_service_of_experts() -> None:
    """Groups add room for keys and values and settings of their own; all tokens come."""
    asked = Question(SMALL, "dgx-h100?devices=2", "poisson:50/s", "fixed:16,2", 4, plan="ep=2")
    found = service(asked)
    alone = service(replace(asked, on="h100-sxm", requests=2, plan=""))
    (group,) = found.groups
    assert group.blocks > 1.9 * alone.groups[0].blocks and group.times.plan.ep == 2
    assert all(each.generated == each.request.output for each in found.service.sequences)
    assert read_scheduler("vllm:budget=100").together(2).settings == {
        **read_scheduler("vllm").settings, "budget": 200, "most": 512
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "plan", "setting", "words"),
    [
        (SMALL, "ep=3,pp=5", Setting(), ["ep=3 of 8 experts", "such as 2 or 4", "15 devices", "pp=5 of 2 layers"]),
        ("llama3-8b?layers=2", "ep=4", Setting(), ["ep=4 of a model without experts"]),
        (SMALL, "ep=4", Setting(routing="shares:1/2/3"), ["3 shares of 8 experts"]),
        ("llama3-8b?layers=2", "tp=4", Setting(routing="even"), ["even of a model without experts"]),
        (SMALL, "ep=4", Setting(routing="unifrm"), ["routing 'unifrm'", "did you mean 'uniform'"]),
        (SMALL, "ep=4", Setting(routing="power:-1"), ["routing 'power:-1'", "power:EXPONENT"]),
        (SMALL, "ep=4", Setting(routing="shares:0/0"), ["routing 'shares:0/0'"]),
    ],
)
def test_what_cannot_be_is_told_all_at_once(text: str, plan: str, setting: Setting, words: list[str]) -> None:
    with pytest.raises(UsageError) as told:
        served(f"{text}{',' if '?' in text else '?'}prompt=8,new=2", "dgx-h100?devices=4", (), plan, 60, setting)
    assert all(word in str(told.value) for word in words), str(told.value)


def test_a_batch_has_a_sequence_for_each_group() -> None:
    with pytest.raises(UsageError, match="3 sequences on 1 replica of 4 groups with sequences of their own"):
        small("ep=4", 3)


def test_even_loads_have_no_fullest_device() -> None:
    assert shared(3, 2, 8, 4, Routing(-1.0)) == (Loads(1.5, 1.5), Loads(1.5, 1.5))


def test_equal_shapes_of_other_loads_are_other_work() -> None:
    """2 experts of 16 rows, 4 of 8: as many rows, but half of the weights."""
    devices, moved = Devices(fleet_of(load_cluster("dgx-h100?devices=2"))), []
    for active in (2, 4):
        call = Call(model(), 1, 16, 0, 1, 2)
        vars(call)["loads"] = (Loads(active, 32.0),) * 2
        moved.append(devices.piece(call, experts(call), 0).cost.moved_B)
    assert moved[1] > 1.5 * moved[0]
