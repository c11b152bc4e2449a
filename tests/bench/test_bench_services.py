"""How the time of a simulated service grows with its requests, as a ratio of CPU times in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from accelsim.serving.blocks import Pool
from accelsim.serving.loads import drawn, read_lengths, read_load
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.service import round_robin, simulate

FEW, MANY = 1_000, 20_000
GROWS = 1.5
"""Most time of each of MANY requests, beside each of FEW."""


def each_s(count: int) -> float:
    """Return the CPU seconds of a request, of so many."""
    requests = list(drawn(read_load("poisson:8/s"), read_lengths("lognormal:1024,256"), count, seed=0))

    def cost(batch: Batch) -> tuple[float, float]:
        return 0.007 + 2e-5 * batch.tokens + 1e-8 * batch.context, 1.0

    start = time.process_time()
    simulate(requests, [Vllm(Pool(30_000))], cost, round_robin())
    return (time.process_time() - start) / count


def test_a_request_costs_the_same_among_many(benchmark: Any, figure: Callable[..., Any]) -> None:
    few, many = benchmark.pedantic(lambda: (each_s(FEW), each_s(MANY)), rounds=1, iterations=1)
    what, note = f"a request of {MANY:,} to a service, to one of {FEW:,}", f"{1e6 * many:.0f} us a request"
    assert figure(what, many / few, "x", GROWS, note).holds
