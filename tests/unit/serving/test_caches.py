"""Prefix caches: hand-checked hits, laws of blocks and tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.serving.blocks import Pool
from accelsim.serving.caches import HashBlocks, Radix
from accelsim.serving.requests import Part, Request, Sequence
from accelsim.serving.schedulers.base import Batch, Scheduler
from accelsim.serving.schedulers.sglang import Sglang
from accelsim.serving.schedulers.vllm import Vllm

BLOCK = 4
Asked = tuple[int, int, tuple[Part, ...]]
"""Prompt, output, shared parts."""


def played(scheduler: Scheduler, asked: list[Asked], later: int = 0) -> tuple[list[Batch], list[Sequence]]:
    """Steps of requests that all come first, but the last ``later``, which come when the others have ended."""
    sequences = [Sequence(number, Request(0.0, *each)) for number, each in enumerate(asked)]
    batches = list[Batch]()
    for group in (sequences[: len(asked) - later], sequences[len(asked) - later :]):
        for each in group:
            scheduler.add(each)
        while batch := scheduler.plan():
            assert 0 <= scheduler.pool.free <= scheduler.pool.size
            batches.append(batch)
            scheduler.complete(batch, float(len(batches)))
    return batches, sequences


def tokens(batch: Batch) -> list[int]:
    return [count for _, count in batch.chunks]


def test_full_blocks_are_found_in_the_step_that_plans_them() -> None:
    """Both prompts begin with 10 equal tokens: two full blocks. A holds 3 blocks, B one more of its own."""
    scheduler = Vllm(HashBlocks(100, BLOCK))
    for number in range(2):
        scheduler.add(Sequence(number, Request(0.0, 12, 2, (("a", 10),))))
    batch = scheduler.plan()
    assert batch is not None
    assert tokens(batch) == [12, 4]
    assert scheduler.pool.free == 96


@pytest.mark.parametrize(("kind", "pool", "computed"), [
    (Vllm, HashBlocks(100, BLOCK), 4), (Sglang, Radix(100, 1), 1),
])  # fmt: skip
def test_some_of_a_known_prompt_is_computed(kind: type[Scheduler], pool: Pool, computed: int) -> None:
    """vLLM computes the last block once more, SGLang the last token."""
    batches, (_, second) = played(kind(pool), [(8, 1, (("a", 8),))] * 2, later=1)
    assert [tokens(each) for each in batches] == [[8], [computed]]
    assert second.cached == 8 - computed
    assert pool.free == pool.size


def test_sglang_finds_what_a_step_has_computed_and_keeps_one_copy() -> None:
    scheduler = Sglang(Radix(100, 1))
    asked = [Sequence(number, Request(0.0, 10, 3, (("a", 8),))) for number in range(3)]
    scheduler.add(asked[0])
    scheduler.add(asked[1])
    first = scheduler.plan()
    assert first is not None and tokens(first) == [10, 10]
    scheduler.complete(first, 1.0)
    assert 100 - scheduler.pool.free == 8 + 2 + 2
    scheduler.add(asked[2])
    second = scheduler.plan()
    assert second is not None and tokens(second) == [2]


@pytest.mark.parametrize(("blocks", "hits"), [(5, 8), (4, 4), (3, 0)])
def test_what_nobody_uses_goes_when_there_is_no_room(blocks: int, hits: int) -> None:
    """A leaves 2 blocks of its prefix and one of its own; B takes 3: the blank ones, A's own, then the prefix from its
    end. C finds what is left."""
    asked: list[Asked] = [(10, 1, (("a", 8),)), (12, 1, ()), (10, 1, (("a", 8),))]
    scheduler = Vllm(HashBlocks(blocks, BLOCK), most=1)
    _, (_, _, last) = played(scheduler, asked)
    assert last.cached == hits


def test_a_preempted_request_finds_its_own_blocks() -> None:
    """B of the golden schedule B has two full blocks when A takes one of them, the last. It computes 5 tokens, not 9."""
    batches, (_, second) = played(Vllm(HashBlocks(4, BLOCK), budget=16), [(4, 9, ()), (4, 9, ())])
    assert tokens(batches[9]) == [5]
    assert (second.preempted, second.again, second.cached) == (1, 4, 0)


PARTS = st.sampled_from([(), (("a", 6),), (("a", 6), ("b", 9)), (("a", 6), ("c", 4)), (("d", 12),)])


@pytest.mark.parametrize("kind", [Vllm, Sglang])
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 12), PARTS), min_size=1, max_size=9), st.integers(10, 30),
       st.integers(0, 5))  # fmt: skip
def test_tokens_and_blocks_are_conserved(
    kind: type[Scheduler], drawn: list[tuple[int, int, tuple[Part, ...]]], blocks: int, later: int
) -> None:
    asked = [(max(1, own + sum(each for _, each in parts)), output, parts) for own, output, parts in drawn]
    own = kind.PAGE == 1
    pool: Pool = Radix(blocks * BLOCK, 1) if own else HashBlocks(blocks, BLOCK)
    batches, sequences = played(kind(pool), asked, min(later, len(asked) - 1))
    assert [each.generated for each in sequences] == [output for _, output, _ in asked]
    computed, needed = sum(each.tokens for each in batches), sum(prompt + output - 1 for prompt, output, _ in asked)
    assert computed == needed + sum(each.again - each.cached for each in sequences)
    assert pool.free == pool.size
    seen, most = set[tuple[Part, ...]](), 0
    for prompt, _, parts in asked:
        known = max((at for at in range(len(parts) + 1) if parts[:at] in seen or not at), default=0)
        most += min(prompt - 1, sum(each for _, each in parts[:known]))
        seen |= {parts[:at] for at in range(1, len(parts) + 1)}
    assert sum(each.cached for each in sequences) <= most, "no more than a cache without end finds"
