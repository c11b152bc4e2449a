"""Several adapters in a service: their slots, what a step with them adds, texts and traces."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.adapters import LowRank, elements
from accelsim.cluster.step.transformer import transformer_of
from accelsim.errors import UsageError
from accelsim.report.service import facts, sentences
from accelsim.serving.adapters import Adapters, apart, drawn_adapters, read_adapters, shares_of
from accelsim.serving.asked import Question, Served, served
from accelsim.serving.blocks import Pool
from accelsim.serving.requests import Request, Sequence
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.schedulers.registry import SCHEDULERS
from accelsim.serving.service import ROUTERS, simulate
from accelsim.serving.slots import Adapted, Slots
from accelsim.serving.traces import read_trace

SMALL = "llama?layers=2,hidden=256,heads=4,kv_heads=4,ffn=512,vocab=1000"
QUESTION = Question(SMALL, "t4", "closed:2", "fixed:1,3", requests=12)
ASKED = "4:rank=16,targets=qo,resident=2"


@pytest.fixture(scope="module", name="small")
def _small() -> Served:
    return served(replace(QUESTION, adapters=ASKED))


def asked_of(requests: list[tuple[int, int, int]], slots: int, name: str = "vllm") -> list[tuple[list[int], Adapted]]:
    """Return the numbers of the sequences in the chunks of each step, and what adapters do in it. Requests: tokens of
    prompt and output, adapter; all come first."""
    kind = SCHEDULERS[name]
    scheduler, found = kind(Pool(10_000, kind.PAGE)), list[tuple[list[int], Adapted]]()
    scheduler.slots = Slots(slots)
    for number, (prompt, output, adapter) in enumerate(requests):
        scheduler.add(Sequence(number, Request(0.0, prompt, output, (), adapter)))
    while batch := scheduler.begin():
        found.append(([each.number for each, _ in batch.chunks], batch.adapted))
        scheduler.complete(batch, len(found) + 1.0)
    assert not scheduler.slots.used and not scheduler.waiting
    return found


def test_a_request_waits_for_a_slot_and_others_overtake_it() -> None:
    """One slot: 0 (adapter 1) and 2 (adapter 1) run, 1 (adapter 2) waits until both have left; 3 has no adapter."""
    steps = asked_of([(4, 2, 1), (3, 1, 2), (5, 3, 1), (2, 1, 0)], 1)
    assert steps == [
        ([0, 2, 3], Adapted(9, 1, loads=1, admitted=2)),
        ([], Adapted(2, 1)),
        ([], Adapted(1, 1)),
        ([1], Adapted(3, 1, loads=1, admitted=1)),
    ]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_no_step_has_more_adapters_than_slots_and_all_tokens_are_counted(name: str) -> None:
    requests = [(3 + 5 * at % 7, 1 + at % 4, at * 7 % 5) for at in range(30)]
    steps = asked_of(requests, 2, name)
    assert max(each.distinct for _, each in steps) == 2
    adapted = [each for each in requests if each[2]]
    assert sum(each.tokens for _, each in steps) == sum(prompt + output - 1 for prompt, output, _ in adapted)
    assert sum(each.admitted for _, each in steps) == len(adapted)
    assert 4 <= sum(each.loads for _, each in steps) <= len(adapted)


def test_the_adapter_that_was_used_longest_ago_gives_its_slot_away() -> None:
    slots = Slots(2)
    for adapter in (1, 2, 1, 3, 1, 2):  # 3 takes the slot of 2, then 2 that of 3
        slots.enter(adapter)
        slots.leave(adapter)
    assert (slots.admitted, slots.loads) == (6, 4)


def test_sizes_are_those_of_the_matrices() -> None:
    """Llama 3 8B, rank 16: 32 layers x 16 x (q, o: 2 x 8192; k, v: 2 x 5120; gate, up, down: 3 x 18432)."""
    model = transformer_of("llama3-8b")
    assert model is not None
    assert elements(model, 1, LowRank(16, "qkvo")) == 32 * 16 * (2 * 8192 + 2 * 5120) == 13_631_488
    assert elements(model, 1, LowRank(16, "qkvogud")) == 32 * 16 * (2 * 8192 + 2 * 5120 + 3 * 18432)
    # two devices: whole A and half of B of q, k, v (4096 + 2048, 4096 + 512), half of A and whole B of o
    assert elements(model, 2, LowRank(16, "qkvo")) == 32 * 16 * (6144 + 2 * 4608 + 6144)


def test_slots_take_their_bytes_from_the_room_for_keys_and_values(small: Served) -> None:
    plain, group = served(QUESTION).last, small.last
    assert group.adapter_B == 2 * 2 * 16 * (512 + 512)
    assert plain.blocks - group.blocks == pytest.approx(2 * group.adapter_B / group.block_B, abs=1)
    many = served(replace(QUESTION, adapters=ASKED.replace("resident=2", "resident=4"))).last
    assert plain.blocks - many.blocks == pytest.approx(4 * group.adapter_B / group.block_B, abs=1)


def test_a_step_adds_products_and_loads_and_nothing_else(small: Served) -> None:
    times, plain = small.last.times, Batch((), 1, 1)
    assert times.carried is not None
    more = times.adapted.at((1, 1))
    costs = [times.cost(plain), times.cost(plain._replace(adapted=Adapted(1, 1, 3, 3)))]
    for before, after, product, load in zip(*costs, more, times.carried.load, strict=True):
        assert after == pytest.approx(before + product + 3 * load)
    link = times.devices.fleet.chips[0].memories["pcie_memory"].link
    assert link is not None
    assert times.carried.load == pytest.approx(
        (small.last.adapter_B / float(link.bandwidth), small.last.adapter_B * float(link.energy))
    )


def test_more_distinct_adapters_in_a_step_are_never_faster(small: Served) -> None:
    seconds = [small.last.times.adapted.at((4, distinct))[0] for distinct in (1, 2, 4)]
    assert all(fewer <= more for fewer, more in pairwise(seconds)) and seconds[0] < seconds[-1]


def test_facts_add_up(small: Served) -> None:
    figures, (steps,) = facts(small, {}), small.service.steps
    assert steps.admitted == 12 and figures["adapter_hit_rate"] == 1 - steps.loads / 12
    assert figures["adapter_loaded_B"] == steps.loads * small.last.adapter_B
    assert sum(tokens * count for (tokens, _), count in steps.adapted.items()) == sum(
        each.prompt + each.output - 1 for each in small.requests
    )
    plain = facts(served(QUESTION), {})
    assert figures.keys() - plain.keys() == {each for each in figures if each.startswith("adapter")}
    assert figures["energy_J"] > figures["adapter_products_J"] > 0
    assert any("found their adapter in a slot" in each for each in sentences(small, figures))


def test_neither_a_repetition_nor_another_rate_changes_who_has_which_adapter() -> None:
    one, other = (served(replace(QUESTION, load="poisson:1/s", requests=30, adapters=ASKED)) for _ in range(2))
    numbers = [each.adapter for each in one.requests]
    assert [each.adapter for each in other.at_rate(50).requests] == numbers and set(numbers) == {1, 2, 3, 4}


def test_replicas_have_slots_of_their_own_and_prefixes_belong_to_an_adapter() -> None:
    requests = [*apart(Request(0.0, 40, 1, (("text", 32),), adapter) for adapter in (1, 2, 1, 0))]
    assert [each.prefix[0][0] for each in requests] == ["1/text", "2/text", "1/text", "text"]
    kind = SCHEDULERS["vllm"]
    made = [kind(kind.CACHE(1000)) for _ in range(2)]
    for each in made:
        each.slots = Slots(1)
    one = [Request(float(at), 4, 1, (), 1 + at % 2) for at in range(4)]
    found = simulate(one, made, lambda batch: (0.1, 0.0), ROUTERS["round-robin"]())
    assert [each.loads for each in found.steps] == [1, 1], "round-robin gives each replica one adapter"


def test_popularity_is_as_stated() -> None:
    assert shares_of("zipf:1", 3) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert shares_of("shares:3/1", 4) == pytest.approx([0.375, 0.375, 0.125, 0.125])
    asked = Adapters(3, LowRank(16, "qkvo"), "zipf:1", 3)
    drawn = [each.adapter for each in drawn_adapters([Request(0.0, 1, 1)] * 4000, asked, 0)]
    assert [drawn.count(each) / 4000 for each in (1, 2, 3)] == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.03)


def test_a_trace_may_name_adapters(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,prompt,output,adapter\n0,8,2,sql\n1,8,2,\n2,8,2,chat\n3,8,2,sql\n", encoding="utf-8")
    assert [each.adapter for each in read_trace(path)] == [1, 0, 2, 1]
    found = served(replace(QUESTION, trace=path, adapters="2:rank=8"))
    assert [each.adapter for each in found.requests] == [1, 0, 2, 1]
    for adapters, told in (("", "2 adapters in a trace; expected their sizes, such as 2:rank=16"), ("1", "2 or more")):
        with pytest.raises(UsageError, match=told):
            served(replace(QUESTION, trace=path, adapters=adapters))


@pytest.mark.parametrize(("text", "told"), [
    ("0", "a number of adapters"), ("8:rnk=3", "did you mean 'rank'"), ("8:rank=0", "a whole number from 1 to 1,000,000, such as rank=8"),
    ("8:targets=qx", "letters of qkvogud"), ("8:popularity=zip:1", "did you mean 'zipf'"),
    ("8:popularity=zipf", "expected an exponent of 0 or more, such as zipf:1.0"), ("8:popularity=shares:1/2/3", "3 shares of 8 adapters"),
])  # fmt: skip
def test_bad_texts_say_what_is_expected(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_adapters(text)
    assert told in str(caught.value) and "--adapters" in str(caught.value)


@pytest.mark.parametrize(("change", "told"), [
    ({"model": "mixtral-8x7b?layers=1", "adapters": "4:targets=qg"}, "no target g in mixtral-8x7b"),
    ({"plan": "pp=2", "on": "8x-t4-pcie?devices=2", "adapters": "4"}, "adapters with pp=2; expected a plan of tensors"),
    ({"adapters": "1000000:rank=64,targets=all"}, "of the host's memory"),
])  # fmt: skip
def test_what_a_model_a_plan_or_a_host_does_not_allow_is_refused(change: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        served(replace(QUESTION, **change))  # type: ignore[arg-type]


def test_devices_that_share_tensors_have_parts_of_all_adapters() -> None:
    found = served(replace(QUESTION, on="8x-t4-pcie?devices=2", plan="tp=2", adapters=ASKED)).last
    assert found.times.plan == Plan(tp=2)
    assert found.adapter_B == 2 * 2 * 16 * ((256 + 128) + (128 + 256))
