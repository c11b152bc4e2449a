"""Schedulers: golden schedules step by step, and laws of every schedule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.serving.blocks import Pool
from accelsim.serving.requests import Request, Sequence
from accelsim.serving.schedulers.base import Batch, Scheduler
from accelsim.serving.schedulers.registry import SCHEDULERS, read_scheduler
from accelsim.serving.schedulers.sglang import Sglang
from accelsim.serving.schedulers.vllm import Vllm

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "serving" / "schedules.json").read_text(encoding="utf-8"))
BLOCK = 4


def generated(scheduler: Scheduler, sequence: Sequence) -> int:
    """Tokens of a sequence so far; while it decodes they are counted by steps."""
    return sequence.generated + (scheduler.decoding.now - sequence.since if sequence.since >= 0 else 0)


def played(
    lengths: list[tuple[int, int]],
    blocks: int,
    seen: Callable[[Scheduler, Batch], None] = lambda *_: None,
    kind: type[Scheduler] = Vllm,
    **settings: Any,
) -> tuple[list[dict[str, Any]], list[Sequence]]:
    """Steps of a scheduler whose requests all come first."""
    scheduler = kind(Pool(blocks, BLOCK if kind.PAGE > 1 else 1), **settings)
    sequences = [Sequence(number, Request(0.0, *each)) for number, each in enumerate(lengths)]
    names = {each: chr(ord("A") + each.number) for each in sequences}
    for each in sequences:
        scheduler.add(each)
    steps: list[dict[str, Any]] = []
    while batch := scheduler.plan():
        assert len(steps) < 10_000
        seen(scheduler, batch)
        tokens = {names[each]: count for each, count in batch.chunks}
        tokens |= {names[each]: 1 for each in scheduler.running if each.since >= 0 and batch.decoding}
        before = [generated(scheduler, each) for each in sequences]
        scheduler.complete(batch, len(steps) + 1.0)
        emitted = [
            names[each] for each, count in zip(sequences, before, strict=True) if generated(scheduler, each) > count
        ]
        steps.append(
            {
                "step": len(steps) + 1, "scheduled": dict(sorted(tokens.items())),
                "preempted": [names[each] for each in batch.preempted], "tokens_out": emitted,
                "free_after": scheduler.pool.free, "running": [names[each] for each in scheduler.running],
                "waiting": [names[each] for each in scheduler.waiting],
            }
        )  # fmt: skip
    assert scheduler.pool.free == blocks, "all blocks come back"
    return steps, sequences


def golden(letter: str) -> Any:
    (found,) = (value for key, value in GOLDEN.items() if key.startswith(f"{letter}:"))
    return found


def test_prompts_are_computed_in_chunks_beside_tokens() -> None:
    assert played([(10, 3), (6, 2)], 100, budget=8, most=8)[0] == golden("A")


def test_the_last_is_preempted_and_computes_all_again() -> None:
    assert played([(4, 9), (4, 9)], 4, budget=16)[0] == golden("B")


def test_one_request_at_a_time() -> None:
    assert played([(4, 2), (4, 2)], 10, budget=16, most=1)[0] == golden("C")


@pytest.mark.parametrize(("reserve", "name"), [(True, "reserve"), (False, "no_reserve")])
def test_admission_asks_for_all_blocks_or_for_those_of_the_first_chunk(reserve: bool, name: str) -> None:
    assert played([(8, 6), (12, 1)], 4, budget=10, reserve=reserve)[0] == golden("D")[name]


@pytest.mark.parametrize(("watermark", "first"), [(0.0, {"A": 8, "B": 4}), (0.5, {"A": 8})])
def test_admission_leaves_the_watermark_free_while_others_run(watermark: float, first: dict[str, int]) -> None:
    steps, _ = played([(8, 2), (4, 2)], 4, watermark=watermark)
    assert steps[0]["scheduled"] == first


def scheduled(name: str, lengths: list[tuple[int, int]], blocks: int, **settings: Any) -> list[dict[str, int]]:
    """What each step computes."""
    return [step["scheduled"] for step in played(lengths, blocks, kind=SCHEDULERS[name], **settings)[0]]


A, B, AB = {"A": 1}, {"B": 1}, {"A": 1, "B": 1}


def test_a_static_batch_runs_to_its_end() -> None:
    assert scheduled("static", [(4, 3), (4, 1), (2, 2)], 10, most=2) == [{"A": 4, "B": 4}, A, A, {"C": 2}, {"C": 1}]


def test_a_static_batch_has_room_for_all_tokens_to_come() -> None:
    """A and B hold 3 blocks each in the end, of 5."""
    assert scheduled("static", [(4, 8), (4, 8)], 5) == [{"A": 4}, *[A] * 7, {"B": 4}, *[B] * 7]


def test_prompts_of_vllm_v0_are_alone_in_their_steps_and_padded() -> None:
    """Two prompts of at most 6 tokens are 12; a third one would make them 18."""
    steps = [{"A": 6, "B": 2}, {"C": 5}, {"A": 1, "B": 1, "C": 1}, A]
    assert scheduled("vllm-v0", [(6, 3), (2, 2), (5, 2)], 100, budget=12) == steps


@pytest.mark.parametrize(("preempt", "back", "moved"), [("recompute", 6, 0), ("swap", 1, 4)])
def test_vllm_v0_asks_for_a_free_block_and_takes_the_last_ones(preempt: str, back: int, moved: int) -> None:
    """In step 3 nobody needs a block, but none is free; B comes back when A has ended, with the watermark kept."""
    batches = list[Batch]()
    settings = {"watermark": 0.25, "preempt": preempt}
    seen = lambda _, batch: batches.append(batch)  # noqa: E731
    steps, (_, last) = played([(4, 9), (4, 9)], 4, seen, SCHEDULERS["vllm-v0"], **settings)
    assert [step["scheduled"] for step in steps] == [{"A": 4, "B": 4}, AB, *[A] * 7, {"B": back}, *[B] * 6]
    assert steps[2]["preempted"] == ["B"]
    assert sum(each.moved for each in batches) == moved, "two blocks go, and come back"
    assert last.again == (5 if preempt == "recompute" else 0)


def test_sarathi_fills_with_prompts_what_decoding_leaves() -> None:
    steps = [{"A": 4, "B": 2}, {"A": 1, "B": 5}, {"A": 1, "B": 5}, AB]
    assert scheduled("sarathi", [(4, 4), (12, 2)], 100, chunk=6) == steps
    assert played([(4, 9), (4, 9)], 4, kind=SCHEDULERS["sarathi"], chunk=16, watermark=0.0)[0] == golden("B")


def test_sarathi_admits_with_the_blocks_of_the_whole_prompt() -> None:
    steps, _ = played([(12, 1), (8, 1)], 4, kind=SCHEDULERS["sarathi"], chunk=6, watermark=0.0)
    assert [step["free_after"] for step in steps] == [1, 4, 2, 4]
    assert [step["scheduled"] for step in steps] == [{"A": 6}, {"A": 6}, {"B": 6}, {"B": 2}]


def test_sglang_admits_by_the_tokens_to_come() -> None:
    """16 tokens of room. B needs 10; beside A 12 are free, of which 8 x 0.7 or 8 x 0.07 are meant for A."""
    lengths = [(4, 9), (2, 8)]
    assert scheduled("sglang", lengths, 16) == [{"A": 4}, *[A] * 8, {"B": 2}, *[B] * 7]
    steps, (first, _) = played(lengths, 16, kind=Sglang, conservative=0.1)
    begin = [{"A": 4}, {"B": 2}, *[AB] * 5]  # a prompt goes before those that decode
    # Step 8 lacks room: of two with 6 tokens each the longer prompt is retracted, and comes back when B has ended.
    assert [step["scheduled"] for step in steps] == [*begin, B, B, {"A": 10}, A, A]
    assert steps[7]["preempted"] == ["A"]
    assert first.again == 9


def test_sglang_cuts_prompts_and_mixes_where_it_may() -> None:
    lengths = [(2, 4), (7, 2)]
    assert scheduled("sglang", lengths, 40, chunk=4) == [{"A": 2, "B": 2}, {"B": 4}, {"B": 1}, AB, A, A]
    assert scheduled("sglang", lengths, 40, chunk=4, mixed=True) == [
        {"A": 2, "B": 2}, {"A": 1, "B": 3}, {"A": 1, "B": 2}, AB
    ]  # fmt: skip


def test_sglang_trusts_less_to_come_the_longer_nothing_is_retracted() -> None:
    scheduler = Sglang(Pool(10_000, 1))
    scheduler.add(Sequence(0, Request(0.0, 4, 1000)))
    for step in range(700):
        batch = scheduler.plan()
        assert batch is not None
        scheduler.complete(batch, float(step))
    assert scheduler.share == pytest.approx(0.7 * 0.14)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("vlm", ["did you mean 'vllm'?"]),
        ("sarathi:chunks=3,most=0", ["sarathi has no 'chunks'", "did you mean 'chunk'?", "'most=0'"]),
        ("vllm:reserve=maybe", ["yes or no"]),
        ("vllm-v0:preempt=drop", ["one of recompute, swap"]),
        ("sglang:conservative=-1", ["a number of at least 0"]),
    ],
)
def test_wrong_schedulers_are_refused(text: str, told: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        read_scheduler(text)
    assert all(each in str(caught.value) for each in told)


def test_settings_of_a_text_reach_the_scheduler() -> None:
    policy = read_scheduler("vllm:budget=64,reserve=no,watermark=0.5")
    made = policy.made(Pool(10))
    assert isinstance(made, Vllm)
    assert (made.budget, made.most, made.reserve, policy.largest) == (64, 256, False, 64)


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=8)
EACH = pytest.mark.parametrize("name", SCHEDULERS)


@EACH
@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.integers(11, 40), st.integers(1, 24), st.integers(1, 6), st.booleans())
def test_tokens_and_blocks_are_conserved(
    name: str, lengths: list[tuple[int, int]], blocks: int, largest: int, most: int, flag: bool
) -> None:
    kind, computed = SCHEDULERS[name], 0
    others: dict[str, dict[str, object]] = {
        "vllm": {"reserve": flag}, "vllm-v0": {"preempt": "swap" if flag else "recompute"}, "sglang": {"mixed": flag},
    }  # fmt: skip
    more = {kind.LARGEST: largest, "most": most, **others.get(name, {})}

    def seen(scheduler: Scheduler, batch: Batch) -> None:
        nonlocal computed
        computed += batch.tokens
        assert batch.tokens <= largest + (most if name in ("static", "sarathi", "vllm-v0", "sglang") else 0) or (
            name == "vllm-v0" and len(batch.chunks) == 1
        )
        assert len(scheduler.running) <= most
        assert scheduler.pool.free >= 0

    steps, sequences = played(lengths, blocks * (BLOCK if kind.PAGE == 1 else 1), seen, kind, **more)
    assert [each.generated for each in sequences] == [output for _, output in lengths]
    assert computed == sum(prompt + output - 1 for prompt, output in lengths) + sum(each.again for each in sequences)
    assert all(step["running"] or not step["waiting"] or step["tokens_out"] for step in steps), "it never idles"


@EACH
def test_more_memory_is_less_preemption_on_average(name: str) -> None:
    """Not in each load: schedules have anomalies. SGLang admits fewer with less memory, and retracts fewer of them, so
    its law begins where most are admitted."""
    kind, counts, own = SCHEDULERS[name], list[int](), name == "sglang"
    for blocks in (33 * BLOCK, 40 * BLOCK, 200 * BLOCK) if own else (12, 18, 27, 200):
        counts.append(0)
        for load in range(20):
            lengths = [(1 + (7 * load + 5 * each) % 23, 1 + (3 * load + 11 * each) % 24) for each in range(12)]
            found = played(lengths, blocks, kind=kind, **({"conservative": 0.2} if own else {}))[1]
            counts[-1] += sum(each.preempted for each in found)
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    assert (counts[0] > counts[1] > 0) != (name == "static"), "a static batch has room for all its tokens"


@pytest.mark.parametrize("name", ["vllm", "sarathi"])
@settings(max_examples=20, deadline=None)
@given(LENGTHS, st.integers(1, 24), st.integers(1, 6))
def test_counting_those_that_decode_equals_asking_each(
    name: str, lengths: list[tuple[int, int]], largest: int, most: int
) -> None:
    """With blocks for all, a scheduler that is always made to ask one by one takes the same steps."""
    kind = SCHEDULERS[name]

    class OneByOne(kind):  # type: ignore[misc, valid-type]
        def plan(self) -> Batch | None:
            self._halted()
            return super().plan()  # type: ignore[no-any-return]

    def run(kind: type[Scheduler]) -> list[tuple[float, float]]:
        settings: dict[str, Any] = {kind.LARGEST: largest, "most": most}
        scheduler, now = kind(Pool(1000, BLOCK), **settings), 0.0
        sequences = [Sequence(number, Request(0.0, *each)) for number, each in enumerate(lengths)]
        for each in sequences:
            scheduler.add(each)
        while batch := scheduler.plan():
            now += 1 + batch.tokens / 8
            scheduler.complete(batch, now)
        return [(each.first_s, each.last_s) for each in sequences]

    assert run(kind) == run(OneByOne)
