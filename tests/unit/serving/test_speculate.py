"""Speculative decoding: closed forms, laws, texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import UsageError
from accelsim.seeds import generator
from accelsim.serving.blocks import Pool
from accelsim.serving.measures import itl_s, tpot_s
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.base import Batch, Scheduler
from accelsim.serving.schedulers.registry import SCHEDULERS
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.service import ROUTERS, simulate
from accelsim.serving.speculate import Speculating, Speculation, read_speculation


def speculating(scheduler: Scheduler, asked: Speculation, seed: int = 0) -> Scheduler:
    scheduler.decoding = Speculating(scheduler.pool, asked, generator(seed, 4))
    return scheduler


@pytest.mark.parametrize(("tokens", "accept", "cost"), [(4, 0.7, 0.1), (1, 0.9, 0.0), (8, 0.5, 0.05), (3, 0.999, 0.2)])
def test_a_request_alone_is_as_fast_as_the_closed_form(tokens: int, accept: float, cost: float) -> None:
    """Leviathan et al., theorem 3.8: (1 - a^(n + 1)) / (1 - a) tokens in a step of n cost + 1 times its time."""
    asked = Speculation(cost=cost, tokens=tokens, accept=accept)
    scheduler = speculating(Vllm(Pool(2000)), asked)
    step_s = 0.01 * (tokens * cost + 1)
    service = simulate([Request(0.0, 8, 8_000)], [scheduler], lambda batch: (step_s, 0.0), ROUTERS["round-robin"]())
    expected = (1 - accept ** (tokens + 1)) / (1 - accept)
    assert step_s / tpot_s(service)[0] == pytest.approx(expected, rel=0.03)


def test_accepted_tokens_have_the_distribution_of_first_failures() -> None:
    """P(k kept of 3) = a^k (1 - a), and a^3 for all."""
    scheduler = speculating(Vllm(Pool(2000)), Speculation(tokens=3, accept=0.6))
    service = simulate([Request(0.0, 8, 8_000)], [scheduler], lambda batch: (1.0, 0.0), ROUTERS["round-robin"]())
    (steps,) = service.steps
    more = [count for gap, count in zip(steps.gaps_s, steps.gaps, strict=True) if gap == 0.0]
    share = [more.count(kept) / steps.decoding.count(1) for kept in (1, 2, 3)]
    assert share == pytest.approx([0.6 * 0.4, 0.36 * 0.4, 0.216], abs=0.02)


LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12)), min_size=1, max_size=8)


@pytest.mark.parametrize("name", SCHEDULERS)
@settings(max_examples=25, deadline=None)
@given(LENGTHS, st.integers(11, 40), st.integers(1, 5), st.integers(0, 9))
def test_every_request_gets_its_tokens_and_all_blocks_come_back(
    name: str, lengths: list[tuple[int, int]], blocks: int, tokens: int, seed: int
) -> None:
    kind = SCHEDULERS[name]
    pool = Pool(blocks * 4 if kind.PAGE == 1 else blocks, min(4, kind.PAGE))
    scheduler = speculating(kind(pool), Speculation(tokens=tokens), seed)

    def cost(batch: Batch) -> tuple[float, float]:
        assert pool.free >= 0
        return 1.0 + batch.tokens, 0.0

    requests = [Request(float(at), *each) for at, each in enumerate(lengths)]
    service = simulate(requests, [scheduler], cost, ROUTERS["round-robin"]())
    assert [each.generated for each in service.sequences] == [each.output for each in requests]
    assert pool.free == pool.size
    gaps = itl_s(service)
    assert len(gaps) == sum(each.output - 1 for each in requests)
    assert gaps.sum() == pytest.approx(sum(each.last_s - each.first_s for each in service.sequences))


def test_texts_of_speculation_are_read() -> None:
    assert read_speculation("cost=0.1,tokens=3,accept=0.5") == Speculation("", 0.1, 3, 0.5)
    assert read_speculation("draft=llama?layers=2,ffn=8,tokens=2") == Speculation("llama?layers=2,ffn=8", tokens=2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tokens=4", "either draft=MODEL or cost=SHARE"),
        ("draft=llama3-8b,cost=1", "either draft=MODEL or cost=SHARE"),
        ("cost=0.1,accept=1", "a share below 1"),
        ("cost=x,tokens=2.5", "tokens=4"),
        ("coast=1", "draft, cost, tokens, accept"),
    ],
)
def test_wrong_texts_are_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_speculation(text)
    assert told in str(caught.value)
