"""History of a service: spans of requests, power over time, whom time and energy are for; changes that are tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from accelsim.account.price import HOUR_S
from accelsim.cluster.step.fleet import sharing
from accelsim.report import service_helps as helps
from accelsim.report.service import facts, sentences
from accelsim.report.service_cost import rents
from accelsim.report.text import percent, si
from accelsim.serving.asked import Question, Served, served
from accelsim.serving.blocks import Pool
from accelsim.serving.history import PROMPT, TOKENS, WAITS, Span, shares, spans, watts
from accelsim.serving.levers import levers
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.service import round_robin, simulate

SMALL = "llama?layers=1,hidden=64,heads=1,kv_heads=1,ffn=128,vocab=100"
QUESTION = Question(SMALL, "h100-sxm", "poisson:8000/s", "fixed:32,4", requests=20)
FEW = replace(QUESTION, load="poisson:10/s", lengths="fixed:8,2", requests=3)


@pytest.fixture(scope="module", name="found")
def _found() -> Iterator[Served]:
    with sharing([]):
        yield served(QUESTION)


def test_a_request_that_loses_its_blocks_waits_and_computes_again() -> None:
    """Golden schedule B, a second a step: B is preempted before step 6, and computes 9 tokens again in step 10."""
    service = simulate(
        [Request(0.0, 4, 9)] * 2, [Vllm(Pool(4, 4), budget=16)], lambda batch: (1.0, 2.0), round_robin(), clients=2
    )
    first, second = spans(service)
    assert first == [Span(PROMPT, 0, 1), Span(TOKENS, 1, 9)]
    again = [Span(WAITS, 5, 9), Span(PROMPT, 9, 10), Span(TOKENS, 10, 13)]
    assert second == [Span(PROMPT, 0, 1), Span(TOKENS, 1, 5), *again]


def test_a_prompt_in_pieces_has_a_span_for_each() -> None:
    service = simulate([Request(0.5, 20, 2)], [Vllm(Pool(9, 4), budget=8)], lambda batch: (1.0, 2.0), round_robin())
    assert [each.kind for each in spans(service)[0]] == [PROMPT] * 3 + [TOKENS]


def test_spans_follow_each_other_from_arrival_to_the_last_token(found: Served) -> None:
    for own, sequence in zip(spans(found.service), found.service.sequences, strict=True):
        assert own[0].start_s == pytest.approx(sequence.request.arrival_s)
        assert [each.end_s for each in own] == pytest.approx([*(each.start_s for each in own[1:]), sequence.last_s])
        first = max(each.end_s for each in own if each.kind == PROMPT)
        assert first == pytest.approx(sequence.first_s)


def test_power_adds_up_to_the_energy_and_shares_to_all(found: Served) -> None:
    whole = facts(found, {})
    for parts in (7, 240):
        ends, power = watts(found, parts)
        assert float(power.sum() * ends[0]) == pytest.approx(whole["energy_J"])
        assert power.min() >= found.last.static_W * 0.999
    each = shares(found.groups, found.service)
    assert each.prompts_J + each.tokens_J == pytest.approx(whole["energy_J"])
    assert each.prompts_s + each.tokens_s == pytest.approx(found.service.span_s)
    assert min(each) > 0


def test_a_million_tokens_cost_the_rent_of_all_the_time(found: Served) -> None:
    whole, offers = facts(found, {}), rents("h100-sxm")
    assert offers is not None and offers[0].each_USD == whole["usd_per_device_hour"] <= offers[1].each_USD
    paid = (
        whole["million_tokens_in_usd"] * whole["prompt_tokens"]
        + whole["million_tokens_out_usd"] * whole["output_tokens"]
    )
    assert paid / 1e6 == pytest.approx(whole["usd_per_device_hour"] * whole["span_s"] / HOUR_S)
    assert rents("edu-4x4") is None


def test_prompts_alone_pay_for_all_of_it() -> None:
    alone = served(replace(FEW, lengths="fixed:8,1"))
    assert shares(alone.groups, alone.service).tokens_s == 0


def test_a_step_of_prompts_and_tokens_is_shared_as_prompts_add_to_it(found: Served) -> None:
    (steps,) = found.service.steps
    mixed = [share for share, count in zip(steps.prompts, steps.decoding, strict=True) if count and share]
    assert mixed and all(0 < share < 1 for share in mixed)
    assert all(share == (count == 0) for share, count in zip(steps.prompts, steps.decoding, strict=True)
               if not count or not share)  # fmt: skip


def tried(found: Served, *names: str) -> dict[str, helps.Tried]:
    """Outcomes of changes by what they would unbind."""
    made = {each.binds: each for each in levers(found)}
    return {name: helps.Tried(made[name], helps.outcome(made[name].make(), {})) for name in names or made}


def test_each_change_is_the_service_that_its_options_make() -> None:
    with sharing([]):
        few = served(FEW)
        assert [each.binds for each in levers(few)] == ["queue", "room", "arithmetic", "bandwidth"]
        change = tried(few, "bandwidth")["bandwidth"]
        same = served(replace(FEW, overrides=change.lever.options[1::2]))
        assert change.outcome == helps.outcome(same.service, {}) != helps.outcome(few.service, {})
        assert same.devices.fleet.chips[0] != few.devices.fleet.chips[0]


def test_twice_the_replicas_are_those_of_the_option(found: Served) -> None:
    change = tried(found, "queue")["queue"]
    assert change.lever.options == ("--replicas", "2")
    same = served(replace(QUESTION, replicas=2))
    assert change.outcome == helps.outcome(same.service, {})


def test_room_binds_where_it_is_little_and_not_where_it_is_plenty(found: Served) -> None:
    """The sentence names the change with the shortest simulated time, and how much it saves."""
    groups = tuple(replace(each, blocks=3) for each in found.groups)
    requests = [each.request._replace(arrival_s=0.0) for each in found.service.sequences]
    tight = replace(found, groups=groups, requests=requests)
    base, changes = helps.outcome(tight.service, {}), tried(tight, "queue", "room")
    saved = {name: 1 - each.outcome.e2e_s / base.e2e_s for name, each in changes.items()}
    best = max(saved, key=lambda name: saved[name])
    told = [*helps.sentences(base, [*changes.values()], {})]
    assert saved["room"] > 0.1 and told[0].startswith(helps.BINDS[best]) and percent(saved[best]) in told[0]
    assert told[-1].startswith(f"What would help most: {changes[best].lever.change}")
    base, roomy = helps.outcome(found.service, {}), tried(found, "room")
    (told_nothing,) = helps.sentences(base, [*roomy.values()], {})
    assert told_nothing.startswith("Nothing that was tried")


def test_with_limits_what_helps_is_what_keeps_more_of_them(found: Served) -> None:
    base = helps.Outcome(1.0, 0.1, 0.01, 100.0, 0.5)
    queue, room = (each for each in levers(found) if each.binds in ("queue", "room"))
    changes = [
        helps.Tried(queue, base._replace(e2e_s=0.5, within=0.6)), helps.Tried(room, base._replace(e2e_s=0.9, within=0.9))
    ]  # fmt: skip
    first, *_, last = helps.sentences(base, changes, {"ttft": 1.0})
    assert first.startswith("The queue binds") and "90.0% of the requests keep" in last
    assert last.startswith("What would help most: twice the room")


def test_parts_of_the_time_add_up_to_it(found: Served) -> None:
    every, slowest = helps.parts(found.service).values()
    total = np.array([each.e2e_s for each in found.service.sequences])
    assert sum(every.values()) == pytest.approx(total.mean())
    assert sum(slowest.values()) == pytest.approx(total.max())


def test_a_limit_that_even_the_fastest_breaks_is_said(found: Served) -> None:
    fastest = min(each.ttft_s for each in found.service.sequences)
    for limit, said in ((0.5 * fastest, True), (1.01 * fastest, False)):
        told = " ".join(sentences(found, facts(found, {"ttft": limit})))
        assert (f"Even the fastest has ttft = {si(fastest, 's')}." in told) is said
