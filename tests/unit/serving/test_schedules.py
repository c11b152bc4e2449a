"""vLLM's scheduler: golden schedules step by step, and laws of every schedule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.serving.blocks import Pool
from accelsim.serving.requests import Request, Sequence
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.schedulers.vllm import Vllm

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "serving" / "schedules.json").read_text(encoding="utf-8"))
BLOCK = 4


def generated(scheduler: Vllm, sequence: Sequence) -> int:
    """Tokens of a sequence so far; while it decodes they are counted by steps."""
    return sequence.generated + (scheduler.decoding.now - sequence.since if sequence.since >= 0 else 0)


def played(
    lengths: list[tuple[int, int]], blocks: int, seen: Callable[[Vllm, Batch], None] = lambda *_: None, **settings: Any
) -> tuple[list[dict[str, Any]], list[Sequence]]:
    """Steps of a scheduler whose requests all come first."""
    scheduler = Vllm(Pool(blocks, BLOCK), **settings)
    sequences = [Sequence(number, Request(0.0, *each)) for number, each in enumerate(lengths)]
    names = {each: chr(ord("A") + each.number) for each in sequences}
    for each in sequences:
        scheduler.add(each)
    steps: list[dict[str, Any]] = []
    while batch := scheduler.plan():
        assert len(steps) < 10_000
        seen(scheduler, batch)
        tokens = {names[each]: count for each, count in batch.chunks}
        tokens |= {names[each]: 1 for each in scheduler.running if each.since >= 0}
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


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.integers(11, 40), st.integers(1, 24), st.integers(1, 6), st.booleans())
def test_tokens_and_blocks_are_conserved(
    lengths: list[tuple[int, int]], blocks: int, budget: int, most: int, reserve: bool
) -> None:
    computed = 0

    def seen(scheduler: Vllm, batch: Batch) -> None:
        nonlocal computed
        computed += batch.tokens
        assert batch.tokens <= budget
        assert len(scheduler.running) <= most
        assert scheduler.pool.free >= 0

    steps, sequences = played(lengths, blocks, seen, budget=budget, most=most, reserve=reserve)
    assert [each.generated for each in sequences] == [output for _, output in lengths]
    assert computed == sum(prompt + output - 1 for prompt, output in lengths) + sum(each.again for each in sequences)
    assert all(step["running"] or not step["waiting"] or step["tokens_out"] for step in steps), "it never idles"


@settings(max_examples=40, deadline=None)
@given(LENGTHS, st.integers(1, 24), st.integers(1, 6))
def test_counting_those_that_decode_equals_asking_each(lengths: list[tuple[int, int]], budget: int, most: int) -> None:
    """With blocks for all, a scheduler that is always made to ask one by one takes the same steps."""

    class OneByOne(Vllm):
        def plan(self) -> Batch | None:
            self._halted()
            return super().plan()

    def run(kind: type[Vllm]) -> list[tuple[float, float]]:
        scheduler, now = kind(Pool(1000, BLOCK), budget=budget, most=most), 0.0
        sequences = [Sequence(number, Request(0.0, *each)) for number, each in enumerate(lengths)]
        for each in sequences:
            scheduler.add(each)
        while batch := scheduler.plan():
            now += 1 + batch.tokens / 8
            scheduler.complete(batch, now)
        return [(each.first_s, each.last_s) for each in sequences]

    assert run(Vllm) == run(OneByOne)
