"""Services as queues: closed forms, Little's law, closed loops, laws of scaling, the router."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accelsim.seeds import generator
from accelsim.serving.blocks import Pool
from accelsim.serving.loads import drawn, read_lengths, read_load
from accelsim.serving.measures import end_to_end_s, grown_per_s, itl_s, mean, percentile, tpot_s, ttft_s
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.base import Batch
from accelsim.serving.schedulers.sglang import Sglang
from accelsim.serving.schedulers.static import Static
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.service import ROUTERS, Service, simulate

ORACLES = json.loads((Path(__file__).parents[2] / "golden" / "serving" / "oracles.json").read_text(encoding="utf-8"))
ONE = read_lengths("fixed:1,1")


def served(requests: list[Request], times: dict[int, float] | float, **more: int) -> Service:
    """A server for one request at a time, each of one step."""

    def cost(batch: Batch) -> tuple[float, float]:
        return times if isinstance(times, float) else times[batch.chunks[0][0].number], 0.0

    return simulate(requests, [Vllm(Pool(100), most=1)], cost, ROUTERS["round-robin"](), **more)


@pytest.mark.parametrize(
    ("name", "spread"), [("MM1 l=8 m=10", 1.0), ("MD1 l=8 s=0.1", 0.0), ("MG1 l=8 s=0.1 cs2=4", 4.0)]
)
def test_waits_are_those_of_the_closed_form(name: str, spread: float) -> None:
    """Mean times in the queue within the interval of batch means, that of 99 % (2.86 for 1.73)."""
    count = 20_000
    requests = list(drawn(read_load("poisson:8/s"), ONE, count, seed=3))
    times = np.full(count, 0.1)
    if spread:
        times = generator(4).gamma(1 / spread, 0.1 * spread, count)
    found = mean(end_to_end_s(served(requests, dict(enumerate(times.tolist())))))
    assert found.low is not None and found.high is not None
    half = (found.high - found.low) / 2 * 2.86 / 1.73
    assert abs(found.value - ORACLES[name]["W"]) < half
    assert half < 0.5 * found.value


@pytest.mark.parametrize("rate", [100, 500])
def test_static_batches_of_all_who_wait_are_those_of_the_closed_form(rate: int) -> None:
    """A batch takes 5 ms and 1 ms for each request; the Markov chain of its size has mean and time in closed form."""
    requests = list(drawn(read_load(f"poisson:{rate}/s"), ONE, 20_000, seed=5))
    cost = lambda batch: (0.005 + 0.001 * batch.tokens, 0.0)  # noqa: E731
    service = simulate(requests, [Static(Pool(10_000), most=5000)], cost, ROUTERS["round-robin"]())
    expected, found = ORACLES[f"batch-all-waiting exact chain l={rate}"], mean(end_to_end_s(service))
    assert found.low is not None and found.high is not None
    assert found.low < expected["mean_latency"] < found.high
    assert found.high - found.low < 0.1 * found.value
    assert len(requests) / len(service.steps[0].end_s) == pytest.approx(expected["mean_batch"], rel=0.03)


def test_gaps_reach_over_steps_in_which_nobody_decodes() -> None:
    """A (1 token, 3 to come) waits while the prompt of B, which comes in its first step, is computed in two."""
    requests = [Request(0.0, 1, 3), Request(0.5, 4, 2)]
    scheduler = Sglang(Pool(100, 1), chunk=2)
    service = simulate(requests, [scheduler], lambda batch: (float(batch.tokens), 0.0), ROUTERS["round-robin"]())
    first, second = service.sequences
    # A's prompt until 1, B's until 3 and 5, a token of both until 7, A's last until 8.
    assert sorted(itl_s(service)) == [1.0, 2.0, 6.0]
    assert (first.first_s, first.last_s, second.first_s, second.last_s) == (1.0, 8.0, 5.0, 7.0)


def test_littles_law_holds_in_a_closed_loop() -> None:
    """Throughput = clients / (time end to end + time to think)."""
    requests = list(drawn(read_load("closed:8"), read_lengths("lognormal:20,10"), 400, seed=1))
    service = simulate(
        requests, [Vllm(Pool(1000))], lambda batch: (0.01 + 1e-4 * batch.tokens, 0.0), ROUTERS["round-robin"](), 8, 0.5
    )
    span = service.steps[0].end_s[-1]
    assert len(service.sequences) == 400
    assert len(service.sequences) / span == pytest.approx(8 / (float(end_to_end_s(service).mean()) + 0.5), rel=0.05)


def test_halving_all_times_halves_all_latencies() -> None:
    requests = list(drawn(read_load("gamma:30/s,cv=2"), read_lengths("uniform:64,48"), 200, seed=2))
    soon = [each._replace(arrival_s=each.arrival_s / 2) for each in requests]

    def service(requests: list[Request], factor: float) -> Service:
        scheduler = Vllm(Pool(30), budget=64)
        cost = lambda batch: (factor * (0.008 + 1e-4 * batch.tokens + 1e-6 * batch.context), 0.0)  # noqa: E731
        return simulate(requests, [scheduler], cost, ROUTERS["round-robin"]())

    one, half = service(requests, 1.0), service(soon, 0.5)
    assert sum(each.preempted for each in one.sequences) > 0
    for figure in (ttft_s, tpot_s, end_to_end_s):
        np.testing.assert_allclose(2 * figure(half), figure(one), rtol=1e-9)


def test_gaps_between_tokens_add_up_to_the_time_behind_the_first() -> None:
    requests = list(drawn(read_load("poisson:20/s"), read_lengths("uniform:64,48"), 200, seed=5))
    service = simulate(
        requests, [Vllm(Pool(30), budget=48)], lambda batch: (0.01 + 1e-4 * batch.tokens, 0.0), ROUTERS["round-robin"]()
    )
    assert sum(each.preempted for each in service.sequences) > 0
    gaps = itl_s(service)
    assert len(gaps) == sum(each.output - 1 for each in requests)
    assert gaps.sum() == pytest.approx(sum(each.last_s - each.first_s for each in service.sequences))


def test_the_least_loaded_replica_is_better_than_the_next() -> None:
    requests = list(drawn(read_load("poisson:30/s"), read_lengths("lognormal:64,32"), 600, seed=7))

    def first(router: str) -> float:
        replicas = [Vllm(Pool(1000), most=4) for _ in range(3)]
        return float(ttft_s(simulate(requests, replicas, lambda batch: (0.006, 0.0), ROUTERS[router]())).mean())

    assert first("least-loaded") < first("round-robin")


def test_percentiles_are_numpys_with_ranks_around_them() -> None:
    values = np.arange(1.0, 11.0)
    assert percentile(values, 0.9).value == pytest.approx(ORACLES["p90 of 1..10 numpy linear"])
    assert percentile(values, 0.99).value == pytest.approx(9.91)
    assert percentile(values, 0.99).high is None  # ten requests cannot bound it
    found = percentile(np.arange(1000.0), 0.99)
    assert found.low == 983.0 and found.high == 995.0


@pytest.mark.parametrize(("rate", "count", "grows"), [(8, 2000, 0.0), (8, 3, 0.0), (15, 2000, 5.0)])
def test_a_queue_grows_by_what_arrives_too_much(rate: int, count: int, grows: float) -> None:
    """Ten requests a second are served."""
    requests = list(drawn(read_load(f"constant:{rate}/s"), ONE, count, seed=0))
    assert grown_per_s(served(requests, 0.1)) == pytest.approx(grows, rel=0.05)
