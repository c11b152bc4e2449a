"""Separate replicas for prompts and tokens: texts, transfers, times of tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.fleet import fleet_of
from accelsim.errors import AccelsimError
from accelsim.report.service import facts, summary
from accelsim.serving.asked import Question
from accelsim.serving.asked import served as asked_for
from accelsim.serving.blocks import Pool
from accelsim.serving.loads import drawn, read_lengths, read_load
from accelsim.serving.measures import itl_s
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.registry import SCHEDULERS
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.service import ROUTERS, Second, Service, simulate
from accelsim.serving.split import move_of, read_split
from accelsim.spec.yaml.clusters import load_devices
from accelsim.spec.yaml.parts import load_link


def served(requests: list[Request], move_s: float, name: str = "vllm", blocks: int = 1000) -> Service:
    """One replica for prompts (1 s a token), two for tokens (0.1 s a step)."""
    kind, route = SCHEDULERS[name], ROUTERS["least-loaded"]
    tokens = [kind(Pool(blocks * 16 // kind.PAGE, kind.PAGE)) for _ in range(2)]
    second = Second(tokens, lambda batch: (0.1, 0.0), route(), lambda source, target, tokens: (move_s, 2.0 * tokens))
    first = [kind(Pool(1000 * 16 // kind.PAGE, kind.PAGE))]
    return simulate(requests, first, lambda batch: (float(batch.tokens), 0.0), route(), second=second)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_first_tokens_come_with_prompts_and_others_after_the_transfer(name: str) -> None:
    """Prompts of 4 and 2 tokens are done at 4 and 10 + 2; transfers take 3 s; each further token 0.1 s."""
    service = served([Request(0.0, 4, 5), Request(10.0, 2, 2), Request(30.0, 1, 1)], 3.0, name)
    assert [each.ttft_s for each in service.sequences] == [4.0, 2.0, 1.0]
    assert [each.last_s for each in service.sequences] == pytest.approx([7.4, 15.1, 31.0])
    assert sorted(itl_s(service)) == pytest.approx([0.1, 0.1, 0.1, 3.1, 3.1])
    assert (service.moved_s, service.moved_J) == (6.0, 12.0), "the last request has its only token"


def test_transfers_of_a_replica_wait_for_each_other() -> None:
    """Prompts are done at 1 and 2. The first arrives at 4; only then the second leaves, and arrives at 7."""
    service = served([Request(0.0, 1, 2), Request(0.0, 1, 2)], 3.0)
    assert sorted(each.last_s for each in service.sequences) == pytest.approx([4.1, 7.1])


def test_a_request_that_lost_its_blocks_computes_its_prompt_where_its_tokens_are() -> None:
    requests = list(drawn(read_load("closed:2"), read_lengths("uniform:64,48"), 9, 1))
    service = served(requests, 0.01, blocks=16)
    assert sum(each.preempted for each in service.sequences) > 0
    assert [each.generated for each in service.sequences] == [each.output for each in requests]
    assert all(each.first_s <= each.last_s for each in service.sequences)


def test_without_transfers_and_interference_it_is_one_replica() -> None:
    request = [Request(0.0, 4, 5)]
    one = simulate(request, [Vllm(Pool(100))], lambda batch: (0.1, 0.0), ROUTERS["round-robin"]())
    schedulers, cost, route = [Vllm(Pool(100))], lambda batch: (0.1, 0.0), ROUTERS["round-robin"]
    second = Second([Vllm(Pool(100))], cost, route(), lambda *_: (0.0, 0.0))
    other = simulate(request, schedulers, cost, route(), second=second)
    assert other.sequences[0].last_s == pytest.approx(one.sequences[0].last_s)


def test_keys_and_values_take_their_bytes_over_the_link() -> None:
    """As many lanes as the smaller replica has devices."""
    link = load_link("infiniband-ndr")
    split = read_split("prefill=2xtp4,decode=1xtp2,over=infiniband-ndr")
    seconds, joules = move_of(split, fleet_of(load_devices("h100-sxm")), 1000)(0, 0, 1_000_000)
    assert seconds == pytest.approx(float(link.latency) + 1e9 / 2 / float(link.bandwidth))
    assert joules == pytest.approx(1e9 * float(link.energy))
    fleet = fleet_of(load_devices("2x-dgx-h100"))
    move = move_of(read_split("prefill=2xtp4,decode=1xtp8"), fleet, 1000)
    beyond, (double_s, double_J) = move(0, 0, 10_000_000), move(0, 0, 20_000_000)
    wire_s = 1e10 / 4 / float(link.bandwidth)
    assert wire_s < beyond[0] < 1.5 * wire_s
    assert double_s == pytest.approx(2 * beyond[0], rel=0.05)
    assert double_J == pytest.approx(2 * beyond[1], rel=0.01)


def test_replicas_whose_devices_share_experts() -> None:
    """Transfers have as many lanes as devices share tensors; each replica has its own plan and room."""
    split = read_split("prefill=2xep2,decode=1xtp2ep4,over=infiniband-ndr")
    assert split.prefill == (2, Plan(ep=2)) and split.decode == (1, Plan(tp=2, ep=4)) and split.devices == 12
    small = "mixtral-8x7b?layers=2,hidden=512,heads=4,kv_heads=4,ffn=1024,vocab=1000"
    asked = Question(small, "dgx-h100", "poisson:50/s", "fixed:32,3", 6, disaggregate="prefill=2xep2,decode=1xtp2ep2")
    found = asked_for(asked)
    first, second = found.groups
    assert (first.count, first.times.plan, second.count, second.times.plan) == (2, Plan(ep=2), 1, Plan(tp=2, ep=2))
    assert all(each.generated == 3 for each in found.service.sequences) and found.service.moved_J > 0
    assert dict(summary(found, facts(found, {})))["prompts on"] == "2 replicas, 2 x h100-sxm each"
    with pytest.raises(AccelsimError, match=r"ep=3 of 8 experts.*such as 2 or 4"):
        asked_for(replace(asked, disaggregate="prefill=1xep3,decode=1xtp2"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prefill=2xtp4", ["no decode", "such as decode=2xtp4 or decode=2xtp2ep4"]),
        ("prefill=1xep2tp4,decode=1xtp2ep", ["prefill=1xep2tp4", "decode=1xtp2ep"]),
        ("prefill=1xtp2,decode=1xtp2ep4", ["10 devices, and h100-sxm has 1"]),
        ("prefill=2tp4,decode=0x", ["prefill=2tp4", "decode=0x"]),
        ("prefil=2x,decode=2x", ["'prefil=2x'"]),
        ("prefill=1x,decode=1x,over=infiniband-nd", ["infiniband-ndr"]),
        ("prefill=1x,decode=1x", ["2 devices, and h100-sxm has 1", "over=LINK"]),
    ],
)
def test_wrong_splits_are_refused(text: str, told: list[str]) -> None:
    with pytest.raises(AccelsimError) as caught:
        move_of(read_split(text), fleet_of(load_devices("h100-sxm")), 1)
    assert all(each in str(caught.value) for each in told)
