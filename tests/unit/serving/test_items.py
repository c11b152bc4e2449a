"""Services of items: closed forms, Triton's rules, laws of the flow, and batches that cost what ``run`` says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.errors import UsageError
from accelsim.seeds import generator
from accelsim.serving.items.asked import Question, read, served
from accelsim.serving.items.batcher import Cost, Dynamic
from accelsim.serving.items.flow import Flow, Host, simulate
from accelsim.serving.items.line import FULL, LATE, Arrival
from accelsim.serving.items.measures import grows_per_s, joules, latencies, lost, sizes, use, within
from accelsim.serving.items.rules import read_dynamic
from accelsim.serving.items.work import KINDS, read_work
from accelsim.serving.loads import arrivals, read_load
from accelsim.serving.measures import mean
from accelsim.spec.yaml.chips import load_chip
from tests.validation.measured import ABSENT
from tests.validation.serving_mlperf import BENCHMARKS, measured, offline_rate

ORACLES = json.loads((Path(__file__).parents[2] / "golden" / "serving" / "oracles.json").read_text(encoding="utf-8"))
ONE = Dynamic(most=1)
ALL = Dynamic(most=10**6)
SMALL = Question("mlp?hidden=64", "t4", "poisson:100/s", requests=200)


def poisson(rate: float, count: int, seed: int = 1) -> list[Arrival]:
    return [Arrival(at) for at in arrivals(read_load(f"poisson:{rate}/s"), count, seed).tolist()]


def agrees(flow: Flow, expected_s: float) -> None:
    """The mean time from end to end is within the 99 % interval of batch means (2.86 for 1.73)."""
    found = mean(np.array([each.e2e_s for each in flow.answered]))
    assert found.low is not None and found.high is not None
    half = (found.high - found.low) / 2 * 2.86 / 1.73
    assert abs(found.value - expected_s) < half < 0.3 * expected_s


def test_single_items_of_equal_times_wait_as_in_m_d_1() -> None:
    agrees(simulate(poisson(8, 10_000), ONE, lambda size: Cost(0.1)), ORACLES["MD1 l=8 s=0.1"]["W"])


@pytest.mark.parametrize(("cores", "rate", "name"), [(4, 30, "MM4 l=30 m=10"), (8, 60, "MM8 l=60 m=10")])
def test_cores_of_the_host_are_servers_of_one_queue(cores: int, rate: float, name: str) -> None:
    times = generator(1, 9).exponential(0.1, 10_000).tolist()
    host = Host(before=times.__getitem__, cores=cores)
    agrees(simulate(poisson(rate, 10_000), ONE, lambda size: Cost(0.0), host), ORACLES[name]["W"])


def test_items_without_room_are_lost_as_erlang_says() -> None:
    times = generator(1, 9).exponential(0.1, 10_000).tolist()
    flow = simulate(poisson(80, 10_000), ONE, lambda size: Cost(0.0), Host(times.__getitem__, cores=10, queue=0))
    parts = np.array([each.lost == FULL for each in flow.items]).reshape(20, -1).mean(axis=1)
    assert abs(parts.mean() - ORACLES["ErlangB k=10 a=8"]) < 2.86 * parts.std(ddof=1) / 20**0.5 < 0.02


@pytest.mark.parametrize("rate", [100, 500])
def test_batches_of_all_that_wait_follow_the_exact_chain(rate: int) -> None:
    """A batch of b items takes 5 ms + b times 1 ms."""
    flow, exact = simulate(poisson(rate, 10_000), ALL, line), ORACLES[f"batch-all-waiting exact chain l={rate}"]
    agrees(flow, exact["mean_latency"])
    assert 10_000 / len(flow.batches) == pytest.approx(exact["mean_batch"], rel=0.02)
    assert sum(each.cost.seconds for each in flow.batches) / flow.span_s == pytest.approx(exact["util"], rel=0.01)


def line(size: int) -> Cost:
    return Cost(0.005 + 0.001 * size)


def test_a_rate_above_the_capacity_of_full_batches_has_no_steady_state() -> None:
    """Batches of 16 take 21 ms: 762 items a second, of 1,000 that come."""
    flow = simulate(poisson(1000, 8000), Dynamic(most=16), line)
    assert grows_per_s(flow) == pytest.approx(1000 - 16 / 0.021, rel=0.1)


def test_littles_law_holds_in_a_closed_loop() -> None:
    flow = simulate([Arrival(0.0)] * 6400, Dynamic(most=8), line, clients=64, think_s=0.1)
    total = np.mean([each.e2e_s for each in flow.items])
    assert len(flow.items) / flow.span_s == pytest.approx(64 / (total + 0.1), rel=0.02)


CASES: list[tuple[Dynamic, list[float], list[tuple[float, int]]]] = [
    (Dynamic(4), [0, 0.1, 0.2], [(0, 1), (1, 2)]),  # all that wait when an instance is free
    (Dynamic(2), [0, 0.1, 0.2, 0.3], [(0, 1), (1, 2), (2, 1)]),
    (Dynamic(4, delay_s=0.5), [0, 0.1, 0.2], [(0.5, 3)]),  # no full batch: the oldest waits for the delay
    (Dynamic(2, delay_s=0.5), [0, 0.1], [(0.1, 2)]),  # a full batch goes at once
    (Dynamic(8, delay_s=0.5, prefer=(3,)), [0, 0.1, 0.2, 0.3], [(0.2, 3), (1.2, 1)]),  # the last is due long ago
    (Dynamic(8, prefer=(2,)), [0, 0.1, 0.2, 0.3], [(0, 1), (1, 2), (2, 1)]),  # preferred sizes without a delay
    (Dynamic(4, instances=2), [0, 0.1, 0.2], [(0, 1), (0.1, 1), (1, 1)]),
]


@pytest.mark.parametrize(("rules", "times", "batches"), CASES)
def test_batches_begin_by_tritons_rules(
    rules: Dynamic, times: list[float], batches: list[tuple[float, int]]
) -> None:  # fmt: skip
    flow = simulate([Arrival(at) for at in times], rules, lambda size: Cost(1.0))
    assert [each.size for each in flow.batches] == [size for _, size in batches]
    assert [each.start_s for each in flow.batches] == pytest.approx([at for at, _ in batches])


def test_a_second_instance_hides_transfers_and_shares_the_chip() -> None:
    """A batch transfers for 1 s and computes for 2 s: three of them take 9 s one by one, and 1 s + 3 x 2 s hidden."""
    ends = []
    for instances in (1, 2):
        flow = simulate([Arrival(0.0)] * 3, Dynamic(1, instances=instances), lambda size: Cost(3.0, 1.0, 1.0))
        ends.append(flow.span_s)
        for item in flow.items:
            parts = item.queue_s + item.transfer_s + item.chip_s
            assert parts == pytest.approx(item.e2e_s)
    assert ends == [9.0, 7.0]


def test_urgent_items_go_first_and_late_ones_are_lost() -> None:
    waiting = [Arrival(0.0), Arrival(0.1), Arrival(0.2, rank=0)]
    flow = simulate(waiting, ONE, lambda size: Cost(1.0))
    assert [each.end_s for each in flow.items] == pytest.approx([1.0, 3.0, 2.0])
    flow = simulate(waiting, ONE, lambda size: Cost(1.0), Host(timeout_s=1.5))
    assert [each.lost for each in flow.items] == ["", LATE, ""]
    flow = simulate(waiting, Dynamic(1, queue=1), lambda size: Cost(1.0))
    assert [each.lost for each in flow.items] == ["", "", FULL]
    assert lost(flow) == {FULL: 1} and within(flow, 1.0) == pytest.approx(1 / 3)


def random_flow(seed: int, scale: float = 1.0) -> Flow:
    """A service with all that it may have, all times ``scale`` times as long."""
    random = generator(seed)
    count = 400
    work = random.exponential(0.01 * scale, count).tolist()
    rules = Dynamic(int(random.integers(1, 9)), 0.004 * scale, instances=int(random.integers(1, 4)), queue=20)
    host = Host(work.__getitem__, lambda number: work[-number - 1] / 4, 4, timeout_s=0.06 * scale)
    rows = zip(random.integers(0, 2, count).tolist(), (random.random(count) < 0.8).tolist(), strict=True)
    times = (np.cumsum(random.exponential(0.003, count)) * scale).tolist()
    items = [Arrival(at, *row) for at, row in zip(times, rows, strict=True)]
    cost = lambda size: Cost((0.01 + 0.002 * size) * scale, 0.002 * size * scale, 0.003 * size * scale)  # noqa: E731
    return simulate(items, rules, cost, host, chips=2)


@pytest.mark.parametrize("seed", range(4))
def test_parts_of_a_latency_add_up_and_nothing_works_twice(seed: int) -> None:
    flow = random_flow(seed)
    assert len(flow.items) == 400 and sum(sizes(flow)[size] * size for size in sizes(flow)) <= 400
    assert lost(flow) and len(flow.answered) > 100
    for item in flow.answered:
        parts = item.queue_s + item.before_s + item.transfer_s + item.chip_s + item.after_s
        assert parts == pytest.approx(item.e2e_s)
        assert (item.chip_s > 0) == item.arrival.kept
    half = random_flow(seed, 0.5)
    assert [2 * each.end_s for each in half.items] == pytest.approx([each.end_s for each in flow.items])
    for each in use_of(flow):
        assert 0 < each <= 1


def use_of(flow: Flow) -> list[float]:
    """Share of the time in which cores, links and chips of ``random_flow`` work."""
    asked = replace(read(SMALL), question=replace(SMALL, cores=4, replicas=2))
    return list(use(asked, flow).values())


def test_an_idle_service_is_as_fast_as_run() -> None:
    """A single item waits for the delay of the batcher, then takes what ``accelsim.run`` says."""
    question = replace(SMALL, load="constant:1/s", requests=3, scheduler="dynamic:max=8,delay=2ms", before="3ms")
    found = served(question)
    run = accelsim.run(SMALL.model, SMALL.on)
    for item in found.flow.items:
        assert item.e2e_s == pytest.approx(run.seconds + 2e-3 + 3e-3, rel=1e-12)
    asked = found.asked
    busy = joules(asked, found.flow) - asked.times.static_W * found.flow.span_s
    assert busy == pytest.approx(3 * (run.energy_J - asked.times.static_W * run.seconds), rel=1e-6)
    assert found.ends is not None
    low, high = (latencies(each)["chip"]["mean"].value for each in found.ends)
    interval = run.summary()["latency_interval"]
    link_s = found.asked.times.cost(1).transfer_s / run.seconds
    assert (low, high) == pytest.approx([interval[key] * (1 - link_s) for key in ("low_s", "high_s")])


def test_batches_cost_what_runs_of_that_size_cost() -> None:
    times = read(SMALL).times
    for size in (1, 5, 64, 97):
        direct = accelsim.run(SMALL.model, SMALL.on, batch=size, values="off").seconds
        assert times.cost(size).seconds == pytest.approx(direct, rel=1e-9 if size <= 64 else 0.01)
    assert 97 not in times.simulated and {96, 98} <= times.simulated.keys()


def test_a_chip_of_several_cores_divides_a_batch() -> None:
    times = replace(read(SMALL).times, chip=load_chip("edu-two-kinds"), simulated={})
    assert times.cost(4) == times.cost(3) and list(times.simulated) == [2]


def test_the_same_seed_gives_the_same_service() -> None:
    question = replace(
        SMALL, before="decode-jpeg,keep=50%", after="1ms", urgent=0.5, timeout="50ms", load="poisson:900/s"
    )
    one, two, other = (served(replace(question, seed=seed)).flow for seed in (1, 1, 2))
    assert (
        [repr(each) for each in one.items] == [repr(each) for each in two.items] != [repr(each) for each in other.items]
    )
    assert 0.4 < np.mean([each.chip_s > 0 for each in one.items]) < 0.6


@pytest.mark.parametrize(
    ("change", "limit"),
    [({"before": "1s"}, "CPU"), ({}, "chip"), ({"overrides": ("memories.pcie_memory.link.latency=2 ms",)}, "PCIe")],
)
def test_what_limits_a_service_is_computed(change: dict[str, Any], limit: str) -> None:
    """At twice the capacity, the part that limits it works nearly all the time."""
    asked = read(replace(SMALL, scheduler="dynamic:max=8,instances=2", **change))
    assert asked.bounds.limit == limit
    flow = asked.run(read_load(f"constant:{2 * asked.bounds.rate}/s"))
    busy = dict(zip(("CPU", "PCIe", "chip"), use(asked, flow).values(), strict=True))
    assert max(busy, key=lambda name: busy[name]) == limit and busy[limit] > 0.9
    assert len(flow.items) / flow.span_s <= asked.bounds.rate * 1.001


def test_rules_and_work_are_read_with_all_that_is_wrong() -> None:
    rules = read_dynamic("dynamic:max=16,delay=500us,prefer=8/4,instances=2,queue=9")
    assert rules == Dynamic(16, 5e-4, (4, 8), 2, 9)
    assert read_dynamic("dynamic").queue == inf
    work = read_work("resize,2ms,keep=25%", "--before")
    assert work.seconds == pytest.approx(KINDS["resize"].seconds + 2e-3) and work.keep == 0.25
    wrong: list[tuple[Callable[[], object], int]] = [
        (lambda: read_dynamic("dynamic:max=0,delay=2,prefer=99,instances=x,queue=-1"), 5),
        (lambda: read_work("resise,3,-1ms,keep=2", "--before"), 4),
        (lambda: read(replace(SMALL, load="x", scheduler="y", before="z", after="keep=1", timeout="0s", on="t5")), 6),
    ]
    for read_it, count in wrong:
        with pytest.raises(UsageError) as error:
            read_it()
        assert len(error.value.problems) == count
    with pytest.raises(UsageError, match="did you mean 'resize'"):
        read_work("resise", "--after")


def test_codes_from_elsewhere_and_items_on_the_device_take_no_time_of_the_host() -> None:
    quantised = replace(SMALL, dtype="int8")
    host, codes, there = (
        read(replace(quantised, **more)).times.cost(8)
        for more in ({}, {"edges": "outside"}, {"edges": "outside", "inputs": "device"})
    )
    assert host.seconds > codes.seconds and there.link_s == there.transfer_s == 0 < codes.link_s
    assert there.seconds == pytest.approx(codes.seconds - codes.transfer_s)
    with pytest.raises(UsageError, match="device") as error:
        read(replace(SMALL, inputs="devise", edges="inside"))
    assert len(error.value.problems) == 2


def test_attention_is_that_of_the_longest_item_of_a_batch() -> None:
    short, longer, long = (
        read(replace(SMALL, model=f"bert?layers=2,seq={tokens}", dtype="fp16", longest=most)).times.cost(8)
        for tokens, most in ((64, 64), (64, 256), (256, 0))
    )
    plain = read(replace(SMALL, model="bert?layers=2,seq=64", dtype="fp16")).times.cost(8)
    assert short.seconds == pytest.approx(plain.seconds)
    assert plain.seconds < longer.seconds < long.seconds and longer.transfer_s == plain.transfer_s
    with pytest.raises(UsageError, match="'seq'"):
        read(replace(SMALL, longest=64))


def test_bert_loses_in_mlperf_s_server_to_the_longest_items() -> None:
    bert = BENCHMARKS["BERT-99, Server"]
    assert isinstance(bert.question, Question)
    small = bert._replace(offline={"scheduler": "dynamic:max=32,instances=2", "longest": 0})
    lost = read(replace(bert.question, scheduler="dynamic:max=32,instances=2")).bounds.rate / offline_rate(small)
    assert lost == pytest.approx(0.87, abs=0.03)
    if not (found := measured("bert-99", "Server")):
        pytest.skip(ABSENT)
    assert lost == pytest.approx(np.median(found), abs=0.1)
