"""Tokens shared by devices: balanced rings, bytes and energy of what is sent, caches by part, illegal plans."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import prod

import pytest

from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.serving.asked import served
from accelsim.cluster.serving.context import BLOCK, MERGE, attending
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.exchange import RING, TOKENS
from accelsim.cluster.serving.pieces import Call, Piece
from accelsim.cluster.serving.serve import Asked, Served, cache_B, serve
from accelsim.cluster.serving.step import Layout, step
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.errors import UsageError
from accelsim.report.serving import facts, sentences, summary_rows
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.workload.graph import Graph

SMALL = "llama3-8b?layers=2,hidden=512,heads=4,kv_heads=2,ffn=1024,vocab=1000"
LATENT = "deepseek-v2-lite?layers=2,hidden=512,heads=4,kv_heads=4,ffn=1024,expert_ffn=64,experts=4,top_k=2,vocab=1000"

FLEET = fleet_of(load_cluster("dgx-h100?devices=4"))


@cache
def model(text: str = SMALL) -> Transformer:
    found = transformer_of(text)
    assert found is not None
    return found


@cache
def small(plan: str, prompt: int = 64, sequences: int = 4, text: str = SMALL) -> Served:
    return serve(model(text), FLEET, parse_plan(plan), Asked(sequences, prompt, 3))


def scores(graph: Graph) -> int:
    """Pairs of a query and a key, without those that a mask hides."""
    (soft,) = (node for node in graph.nodes if node.op == "Softmax")
    *_, queries, keys = graph.tensors[soft.inputs[0]].shape
    return queries * (queries + 1) // 2 if any(node.op == "Add" for node in graph.nodes) else queries * keys


@pytest.mark.parametrize("text", [SMALL, LATENT])
@pytest.mark.parametrize("cp", [2, 3, 4])
def test_a_ring_has_all_pairs_evenly_and_sends_all_but_its_own(cp: int, text: str) -> None:
    """Bytes of each device: (cp - 1) / cp of all keys and values."""
    prompt = 12 * cp
    call = Layout(model(text), Plan(cp=cp), 2).call(prompt, 0)
    ring = [piece for piece, _ in attending(call, model(text).kinds[:1]) if piece.name == BLOCK]
    kept = call.batch * model(text).cached(model(text).kinds[0], prompt)
    assert sum(message.elements for piece in ring for message in piece.sent) * cp == kept * (cp - 1)
    plan, done = Plan(cp=cp), [0] * cp
    for piece in ring:
        for part in range(cp):
            later = piece.turn and plan.part(part) < piece.turn and piece.other
            done[part] += scores(later or piece.graph)
    assert len({*done}) == 1 and sum(done) >= prompt * (prompt + 1) // 2


def test_pairs_of_a_ring_are_those_of_a_causal_mask() -> None:
    """Chunks i and 2 cp - 1 - i: the blocks of a device cover what its tokens see, once."""
    cp, half = 4, 3
    for part in range(cp):
        own = [*range(part * half, (part + 1) * half), *range((2 * cp - 1 - part) * half, (2 * cp - part) * half)]
        pairs = {(q, k) for q in own for k in own if k <= q}
        for turn in range(1, cp):
            source = (part - turn) % cp
            theirs = [*range(source * half, (source + 1) * half)]
            theirs += [*range((2 * cp - 1 - source) * half, (2 * cp - source) * half)]
            asked, seen = (own, theirs[:half]) if part >= turn else (own[half:], theirs)
            assert all(k < q for q in asked for k in seen)
            pairs |= {(q, k) for q in asked for k in seen}
        assert pairs == {(q, k) for q in own for k in range(q + 1)}


@pytest.mark.parametrize("plan", ["cp=4", "tp=2,cp=2", "cp=2,pp=2", "dp=2,cp=2"])
def test_parts_are_the_whole_and_caches_are_shared(plan: str) -> None:
    found, alone = small(plan), small("dp=4")
    for call in (found.prefill, *found.decode.found):
        parts = sum(call.total(key) for key in ("compute_s", "collectives_s", "transfer_s"))
        assert call.through_s == pytest.approx(parts) and call.links_J > 0
    held = sum(stage["keys and values"] for stage in found.memory_B) / parse_plan(plan).pp
    whole = 4 * alone.memory_B[0]["keys and values"] / parse_plan(plan).dp / parse_plan(plan).pp
    assert held == pytest.approx(whole / parse_plan(plan).wide, rel=0.02)
    assert facts(found)["plan"] == str(parse_plan(plan)) and "collectives" in dict(summary_rows(found))
    assert sentences(found)


def test_one_part_is_no_part() -> None:
    assert facts(small("tp=4,cp=1")) == facts(small("tp=4")) and str(parse_plan("cp=1")) == "dp=1"


def test_joules_on_links_are_those_of_the_ring_and_the_sums() -> None:
    call = step(Devices(FLEET), Layout(model(), Plan(cp=4), 1), 64, 0)
    block_B = 2 * 2 * 128 * 16 * 2  # keys and values, heads, elements, tokens, bytes
    one = FLEET.collective("send_recv", block_B, [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert call.links_J == pytest.approx(2 * 3 * one.energy_J, rel=1e-9) and one.energy_J > 0


def test_transfers_hide_behind_products_of_long_prompts_alone() -> None:
    """A wire 10,000 times as slow shows."""
    wires = tuple(wire._replace(rate=wire.rate / 10**4) for wire in FLEET.topology.wires)
    late = serve(model(), FLEET.with_topology(replace(FLEET.topology, wires=wires)), Plan(cp=4), Asked(4, 64, 1))
    assert small("cp=4").prefill.total("collectives_s") < 1e-5 < 1e-4 < late.prefill.total("collectives_s")


def test_long_prompts_are_faster_by_tokens_and_short_ones_by_tensors() -> None:
    text = SMALL.replace(
        "layers=2,hidden=512,heads=4,kv_heads=2,ffn=1024", "layers=1,hidden=4096,heads=32,kv_heads=8,ffn=14336"
    )
    long, short = (
        [small(plan, prompt, 1, text).time_to_first_token_s for plan in ("cp=4", "tp=4")] for prompt in (32768, 64)
    )
    assert long[0] < long[1] and short[0] > short[1]
    alone = serve(model(text), FLEET.first(1), Plan(), Asked(1, 32768, 1)).time_to_first_token_s
    assert alone / 4 < long[0] < alone / 3


def test_queries_go_to_all_caches_and_results_come_back() -> None:
    call = Layout(model(), Plan(cp=4), 6).call(1, 100)
    kept, merge = (piece for piece, _ in attending(call, model().kinds[:1]))
    assert (call.batch, call.sequences) == (2, 6) and merge.name == MERGE
    there, back = kept.sent
    assert there[:2] == ("all_gather", 6 * 4 * 128) and back[:2] == ("all_to_all", 6 * 4 * (128 + 1))
    assert {there.among, back.among} == {TOKENS} and RING != TOKENS
    keys = next(kept.graph.tensors[name].shape for name in kept.graph.inputs if name.endswith("k_past"))
    assert keys == (6, 2, 25, 128)


def test_weights_of_latent_attention_count_once() -> None:
    devices, found = Devices(FLEET), []
    for plan in (Plan(), Plan(cp=4)):
        call = Layout(model(LATENT), plan, 1).call(64, 0)
        pieces = Layout(model(LATENT), plan, 1).stage(call, 0)
        found.append(sum(times * piece.learnt for piece, times in pieces))
    assert found[0] == found[1] and cache_B(devices, Layout(model(LATENT), Plan(cp=4), 1), 64, 0) == 2 * 576 * 16 * 2


@pytest.mark.parametrize(
    ("text", "plan", "prompt", "words"),
    [
        (SMALL, "cp=4", 60, ["cp=4 of prompt=60", "a multiple of 8", "prompt=56 or 64"]),
        (SMALL, "cp=8", 4, ["8 devices", "cp=8 x tp=1", "such as prompt=16"]),
        ("gpt-oss-20b", "cp=4", 64, ["cp=4 of layers with windows"]),
        (SMALL, "cp=0", 64, ["cp=0", "from 1"]),
    ],
)
def test_what_cannot_be_is_told_all_at_once(text: str, plan: str, prompt: int, words: list[str]) -> None:
    with pytest.raises(UsageError) as told:
        served(f"{text}{',' if '?' in text else '?'}prompt={prompt},new=2", "dgx-h100?devices=4", (), plan)
    assert all(word in str(told.value) for word in words), str(told.value)


def test_ranks_of_parts() -> None:
    """Tensor parts are next to each other, then parts of the tokens, then groups with samples of their own."""
    plan = parse_plan("dp=2,cp=2,tp=2")
    assert plan.devices == 8 and plan.tp_groups(0) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert plan.cp_groups(0) == [(0, 2), (1, 3), (4, 6), (5, 7)] and plan.ring(0)[:2] == [(0, 2), (2, 0)]
    assert [plan.part(rank) for rank in range(8)] == [0, 0, 1, 1] * 2 and plan.with_last_tokens(range(4)) == [0, 1]
    assert plan.dp_group(3) == (3, 7) and all(plan.rank(*plan.place(rank)) == rank for rank in range(8))


def test_all_elements_are_there() -> None:
    call = Layout(model(), Plan(cp=2), 1).call(64, 0)
    ring: list[Piece] = [piece for piece, _ in attending(call, model().kinds[:1])]
    assert [piece.received for piece in ring] == [prod((1, 2, 32, 128)) * 2, 0, 0]
    assert isinstance(call, Call)
