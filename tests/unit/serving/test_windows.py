"""Layers with a window give back the blocks of tokens that no further token sees."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.serving.asked import Question, served
from accelsim.serving.blocks import Groups, Pool, groups_of
from accelsim.serving.caches import HashBlocks
from accelsim.serving.requests import Request, Sequence
from accelsim.serving.schedulers.base import Batch, Scheduler
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.speculate import Speculating, Speculation

BLOCK, SIZE = 4, 400


@pytest.mark.parametrize(("windows", "groups", "layers"), [
    ((0,) * 32, Groups(1, 0, 0), 32), ((4096,) * 32, Groups(1, 1, 4096), 32),
    ((128, 0) * 12, Groups(2, 1, 128), 12), ((*[1024] * 5, 0) * 10 + (1024, 1024), Groups(7, 6, 1024), 10),
    ((128,) * 12 + (0,) * 13, Groups(2, 1, 128), 13),
])  # fmt: skip
def test_groups_are_as_large_as_the_rarer_kind_of_layers(windows: tuple[int, ...], groups: Groups, layers: int) -> None:
    """Llama 3 8B, Mistral 7B v0.1, gpt-oss-20b, Gemma 3 27B; kinds of nearly equal counts make one group each."""
    assert groups_of(windows) == (groups, layers)


def played(scheduler: Scheduler, requests: list[Request]) -> list[int]:
    """Return the blocks that are held during and after each step."""
    for number, each in enumerate(requests):
        scheduler.add(Sequence(number, each))
    held, now = list[int](), 0.0
    while batch := scheduler.plan():
        held.append(scheduler.pool.size - scheduler.pool.free)
        now += 1 + batch.tokens / 8
        scheduler.complete(batch, now)
        assert 0 <= scheduler.pool.free <= scheduler.pool.size
        held.append(scheduler.pool.size - scheduler.pool.free)
    assert scheduler.pool.free == scheduler.pool.size
    return held


def test_one_request_gives_back_a_block_for_each_block_of_tokens() -> None:
    """Of 7 tokens the next one sees 3 beside itself, so the first block of 4 is free in one of two groups of layers."""
    pool = Pool(SIZE, BLOCK, Groups(2, 1, 4))
    held = played(Vllm(pool), [Request(0.0, 6, 9)])
    assert held == [4, 4, 4, 3, 3, 3, 5, 5, 5, 5, 5, 4, 4, 4, 6, 6, 6, 0]


def test_a_long_request_needs_its_window_and_a_block() -> None:
    held = played(Vllm(Pool(SIZE, BLOCK, Groups(1, 1, 8)), budget=4), [Request(0.0, 100, 50)])
    assert max(held) == (8 + BLOCK) // BLOCK


def test_chunks_of_a_prompt_are_admitted_where_only_they_and_a_window_fit() -> None:
    """24 tokens take 6 blocks; with a window of 4 and chunks of 4 no more than 2."""
    assert max(played(Vllm(Pool(2, BLOCK, Groups(1, 1, 4)), budget=4), [Request(0.0, 24, 2)])) == 2


REQUESTS = st.lists(
    st.builds(
        Request, st.just(0.0), st.integers(12, 40), st.integers(1, 20),
        st.sampled_from([(), (("a", 9),), (("a", 9), ("b", 3))]),
    ),
    min_size=1, max_size=8,
)  # fmt: skip
GROUPS = st.builds(Groups, st.integers(2, 4), st.integers(1, 2), st.integers(1, 30))


@settings(max_examples=40, deadline=None)
@given(REQUESTS, GROUPS, st.integers(1, 24), st.booleans())
def test_counting_windows_equals_asking_each(
    requests: list[Request], groups: Groups, budget: int, shared: bool
) -> None:
    class OneByOne(Vllm):
        def plan(self) -> Batch | None:
            self._halted()
            return super().plan()

    kind = HashBlocks if shared else Pool
    one, other = (each(kind(SIZE, BLOCK, groups), budget=budget) for each in (Vllm, OneByOne))
    assert played(one, requests) == played(other, requests)


@settings(max_examples=40, deadline=None)
@given(REQUESTS, GROUPS, st.integers(60, 90), st.integers(0, 4), st.booleans())
def test_all_blocks_come_back_with_little_room(
    requests: list[Request], groups: Groups, size: int, tokens: int, shared: bool
) -> None:
    scheduler = Vllm((HashBlocks if shared else Pool)(size, BLOCK, groups))
    if tokens:
        import numpy as np

        scheduler.decoding = Speculating(scheduler.pool, Speculation(tokens=tokens), np.random.default_rng(tokens))
    played(scheduler, requests)


def test_more_requests_fit_where_layers_have_windows() -> None:
    """A request of 8,500 tokens takes 532 blocks in the 10 layers without a window, and 65 in each group of others."""
    found, whole = (
        served(Question("gemma3-27b", "h100-sxm", scheduler=each, requests=1, lengths="fixed:8000,500")).last
        for each in ("vllm", "vllm:hybrid=no")
    )
    assert found.groups == Groups(7, 6, 1024)
    assert whole.groups == Groups()
    assert (found.layers, whole.layers) == (10, 62)
    assert found.blocks * 10 == pytest.approx(whole.blocks * 62, rel=1e-3)
    assert Pool(found.blocks, groups=found.groups).peak(8500, 1) == 532 + 6 * 65
