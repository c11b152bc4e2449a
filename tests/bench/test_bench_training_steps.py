"""A training step of GPT-3 on 1,024 GPUs, and the search for its plans, in CPU seconds of one core."""

from __future__ import annotations

from time import process_time

from accelsim.cluster.step.asked import Asked, ready
from accelsim.cluster.step.ops import Options
from accelsim.cluster.step.search import search

MOST_STEP_S, MOST_SEARCH_S = 3.0, 60.0
CLUSTER, BATCH = "128x-dgx-a100", 1536


def test_a_step_of_gpt3_takes_less_than_three_seconds() -> None:
    start = process_time()
    made = ready(
        Asked("gpt3?layers=96", CLUSTER, "tp=8,pp=8,dp=16,schedule=1f1b", BATCH, options=Options(ignore_capacity=True))
    )
    assert made.plan.microbatches == 96
    result = made.step()
    took = process_time() - start
    print(f"a step of {result.time_s:.1f} s simulated in {took:.2f} s")
    assert took < MOST_STEP_S


def test_plans_of_gpt3_are_found_within_a_minute() -> None:
    start = process_time()
    made = ready(Asked("gpt3?layers=96", CLUSTER, batch=BATCH))
    found = search(made.work, made.fleet, made.batch, made.options)
    took = process_time() - start
    print(f"{len(found.looked):,} plans in {took:.1f} s, the best {found.best[0].plan}")
    assert len(found.best) == 10
    assert took < MOST_SEARCH_S
