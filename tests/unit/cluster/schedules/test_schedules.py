"""Op lists of every schedule, what they ask of a shape, weight versions, and the rules that play them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from accelsim.cluster.schedules.base import Op, Schedule
from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.played import memory_traces, schedule_text
from accelsim.cluster.schedules.registry import SCHEDULES, schedule
from accelsim.errors import UsageError
from tests.helpers.schedule_forms import steady_period_fs
from tests.helpers.weight_versions import staleness, version_problems, versions_held, weight_versions

ALL = [pytest.param(entry, id=name) for name, entry in SCHEDULES.items()]
ASYNCHRONOUS = [pytest.param(entry, id=entry.name) for entry in SCHEDULES.values() if not entry.synchronous]


def text(ops: list[Op]) -> str:
    return " ".join(map(str, ops))


def refused(*args: object, **kwargs: object) -> list[str]:
    with pytest.raises(UsageError) as caught:
        play_schedule(*args, **kwargs)  # type: ignore[arg-type]
    return [str(problem) for problem in caught.value.problems]


def test_order_of_each_schedule() -> None:
    assert text(SCHEDULES["gpipe"].orders(2, 3)[0]) == "F1 F2 F3 B3 B2 B1"
    assert [text(ops) for ops in SCHEDULES["1f1b"].orders(3, 4)] == [
        "F1 F2 F3 B1 F4 B2 B3 B4",
        "F1 F2 B1 F3 B2 F4 B3 B4",
        "F1 B1 F2 B2 F3 B3 F4 B4",
    ]
    assert text(SCHEDULES["interleaved"].orders(2, 2, 2)[1]) == "F1 F2 F1.2 F2.2 B1.2 B2.2 B1 B2"
    assert [text(ops) for ops in SCHEDULES["zb-h1"].orders(2, 3)] == [
        "F1 F2 B1 W1 F3 B2 W2 B3 W3",
        "F1 B1 F2 B2 W1 F3 B3 W2 W3",
    ]
    assert [text(ops) for ops in SCHEDULES["pipedream"].orders(2, 5, replicas=(2, 1))] == [
        "F1 F3 B1 F5 B3 B5",
        "F2 F4 B2 B4",
        "F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
    ]


def test_interleaved_with_as_many_microbatches_as_stages_does_all_forwards_first() -> None:
    for ops in SCHEDULES["interleaved"].orders(4, 4, 3):
        assert [op.kind for op in ops] == ["F"] * 12 + ["B"] * 12


@pytest.mark.parametrize("entry", ALL)
def test_every_schedule_says_what_it_is(entry: Schedule) -> None:
    assert entry.title and entry.source
    assert SCHEDULES[entry.name] is entry is schedule(entry.name)


@pytest.mark.parametrize("entry", ALL)
def test_bad_shapes_are_refused_all_at_once(entry: Schedule) -> None:
    with pytest.raises(UsageError) as caught:
        entry.orders(0, 0, 0)
    assert [problem.where for problem in caught.value.problems] == ["stages", "microbatches", "chunks"]
    assert bool(entry.check(2, 4, 2)) is not entry.chunked
    assert bool(entry.check(2, 4, 1, (2, 1))) is not entry.replicated


def test_a_schedule_that_nobody_could_hold_is_refused_before_it_is_made() -> None:
    (problem,) = SCHEDULES["1f1b"].check(64, 10**9)
    assert str(problem) == (
        "microbatches: a schedule of 128,000,000,000 ops; expected stages and microbatches for at most 8,000,000"
    )
    assert SCHEDULES["zb-h1"].check(10**3, 4_000)
    assert not SCHEDULES["1f1b"].check(10**3, 4_000)


def test_shapes_that_only_some_schedules_refuse() -> None:
    (problem,) = SCHEDULES["interleaved"].check(4, 6, 2)
    assert str(problem) == (
        "microbatches: 6 microbatches on 4 stages; expected a multiple of the stages for interleaved 1F1B, such as 4 or 8"
    )
    assert SCHEDULES["interleaved"].check(4, 3, 2)[0].expected.endswith("such as 4")
    (problem,) = SCHEDULES["pipedream-2bw"].check(4, 3)
    assert str(problem) == (
        "microbatches: 3 microbatches per update on 4 stages; expected at least 4 for PipeDream-2BW"
    )
    (problem,) = SCHEDULES["pipedream"].check(3, 3, 1, (2, 1))
    assert str(problem) == "replicas: replicas [2, 1]; expected 3 whole numbers from 1, one per stage"
    with pytest.raises(UsageError, match=r"unknown schedule '1f2b'.*did you mean '1f1b'"):
        schedule("1f2b")


@pytest.mark.parametrize("entry", ALL)
@pytest.mark.parametrize("p", [1, 2, 4])
def test_versions_are_made_and_equal_unless_nothing_is_stashed(entry: Schedule, p: int) -> None:
    m, updates = 2 * p, 1 if entry.synchronous else 4
    orders = entry.orders(p, m * updates)
    problems = version_problems(entry, orders, m)
    if entry.name == "pipedream-nostash" and p > 1:
        assert len(problems) == p - 1
        assert str(problems[0]) == (
            "stage 0, B2: backward uses version 1 of the weights, its forward version 0; "
            "expected the same version (weight stashing)"
        )
        return
    assert not problems
    assert versions_held(entry, orders, m) == [entry.weights.kept(stage, p) for stage in range(p)]


def test_a_version_that_is_not_made_yet_is_a_problem() -> None:
    """1F1B over two batches in one list has no flush between them."""
    problems = version_problems(SCHEDULES["1f1b"], SCHEDULES["1f1b"].orders(2, 8), 4)
    assert [str(problem) for problem in problems] == [
        "stage 0, F5: uses version 1 after 0 updates; expected a version that is made"
    ]


def test_staleness() -> None:
    assert staleness(SCHEDULES["pipedream"], 4) == [3, 2, 1, 0]
    assert staleness(SCHEDULES["pipedream-vertical"], 4) == [3, 3, 3, 3]
    assert staleness(SCHEDULES["pipedream-2bw"], 4, 8) == [1, 1, 1, 1]
    assert staleness(SCHEDULES["1f1b"], 4, 8) == [0, 0, 0, 0]


def test_versions_by_stage_and_minibatch() -> None:
    used = weight_versions(SCHEDULES["pipedream"], 3, 6)
    assert used.forward.tolist() == [[0, 0, 0, 1, 2, 3], [0, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]]
    assert (used.forward == used.backward).all()
    assert weight_versions(SCHEDULES["pipedream-vertical"], 3, 6).backward.tolist() == [[0, 0, 0, 1, 2, 3]] * 3
    assert weight_versions(SCHEDULES["pipedream-2bw"], 2, 8, 2).forward.tolist() == [[0, 0, 0, 0, 1, 1, 2, 2]] * 2
    assert weight_versions(SCHEDULES["gpipe"], 2, 4, 2).forward.tolist() == [[0, 0, 1, 1]] * 2
    naive = weight_versions(SCHEDULES["pipedream-nostash"], 2, 4)
    assert naive.forward.tolist() == [[0, 0, 1, 2], [0, 1, 2, 3]]
    assert naive.backward.tolist() == [[0, 1, 2, 3]] * 2


def test_times_by_stage_chunk_and_microbatch() -> None:
    """The second microbatch is slow on the second chunk of the first stage."""
    orders = SCHEDULES["interleaved"].orders(2, 2, 2)
    played = play_schedule(orders, [[1, [1, 5]], 1], 1)
    start, end = played.when(0)[Op("F", 1, 1)]
    assert (start, end) == (3, 8)
    assert played.busy_fs == (12, 8)
    assert max(played.busy_fs) == 12


def test_a_link_is_a_queue_and_its_latency_does_not_occupy() -> None:
    """Activations every 1 fs on a link that each takes 3 fs of, and 5 more until it is there."""
    orders = SCHEDULES["gpipe"].orders(2, 3)
    played = play_schedule(orders, 1, 1, 0, 8, 3)
    ahead = [one for one in played.messages if one.kind == "F"]
    assert [(one.ready_fs, one.start_fs, one.end_fs) for one in ahead] == [(1, 1, 9), (2, 4, 12), (3, 7, 15)]
    free = play_schedule(orders, 1, 1, 0, 8)
    assert [one.end_fs for one in free.messages if one.kind == "F"] == [9, 10, 11]
    assert free.makespan_fs < played.makespan_fs


def test_times_of_boundaries() -> None:
    """Gradients cross the same boundary as the activations; the last leads to the next chunk."""
    played = play_schedule(SCHEDULES["gpipe"].orders(3, 1), 1, 1, 0, [10, 100, 1000])
    assert played.makespan_fs == 6 + 2 * 110
    wrapped = play_schedule(SCHEDULES["interleaved"].orders(2, 2, 2), 1, 1, 0, [10, 1000])
    assert wrapped.makespan_fs > 2000
    assert {(one.source, one.target) for one in wrapped.messages} == {(0, 1), (1, 0)}


def test_times_of_nothing() -> None:
    """Where nothing takes time there is no bubble; a single minibatch has no period."""
    played = play_schedule(SCHEDULES["1f1b"].orders(2, 1), 0, 0)
    assert (played.makespan_fs, played.bubble_fraction) == (0, 0)
    with pytest.raises(UsageError, match="a single minibatch has no period"):
        steady_period_fs(played)


def test_rational_times_stay_rational() -> None:
    played = play_schedule(SCHEDULES["1f1b"].orders(2, 2), Fraction(1, 3), Fraction(1, 2))
    assert played.makespan_fs == Fraction(5, 2)
    assert played.messages[0].end_fs == Fraction(1, 3)
    assert all(isinstance(end, int) for ends in play_schedule(played.orders, 1, 1).end_fs for end in ends)


def test_what_cannot_be_played_is_refused() -> None:
    orders = SCHEDULES["1f1b"].orders(2, 2)
    assert refused(orders, [1, 2, 3], -1, 0.5) == [
        "forward_fs: 3 entries; expected 2, one per stage",
        "backward_fs: -1; expected an int or a Fraction from 0: simulated time holds no floats",
        "weight_fs: 0.5; expected an int or a Fraction from 0: simulated time holds no floats",
    ]
    assert refused(orders, [[[[1]]], 1], 1) == ["forward_fs[0][0]: 1 entries; expected 2, one per microbatch"]
    assert refused(orders, 1, 1, 0, [[1], 1]) == [
        "transfer_fs[0]: too many levels of tables; expected at most by stage, chunk, microbatch"
    ]
    assert refused(orders, 1, 1, replicas=[2, 1]) == ["orders: 2 op lists; expected 3, one per device"]
    assert refused([[]], 1, 1) == ["orders: no ops; expected at least one microbatch"]


def test_orders_that_cannot_be_played_are_refused() -> None:
    forward, backward = Op("F", 0), Op("B", 0)
    early = "F, B (and W, where there are any) of each microbatch and chunk of this device once, in this order"
    assert refused([[forward, backward], [backward, forward]], 1, 1) == [
        f"device 1: B1 stands too early, or twice; expected {early}"
    ]
    assert refused([[forward, backward], [forward, forward]], 1, 1) == [
        f"device 1: F1 stands too early, or twice; expected {early}"
    ]
    assert refused([[forward, backward], [forward]], 1, 1) == [
        f"device 1: some ops are missing, or not of this device; expected {early}"
    ]
    second = [Op("F", 1), Op("B", 1)]
    assert refused([[forward, backward, *second], [*second, forward, backward]], 1, 1) == [
        "device 0: B1 waits for ever; expected an order in which no devices wait for each other in a circle",
        "device 1: F2 waits for ever; expected an order in which no devices wait for each other in a circle",
    ]


def test_memory_over_time() -> None:
    played = play_schedule(SCHEDULES["1f1b"].orders(2, 3), 1, 2)
    first, last = memory_traces(played, [100, 10], {"weights": [7, 8], "optimiser": [14, 16]})
    assert first.times_fs == (0, 1, 6, 9, 12)
    assert first.stash_B == (100, 200, 200, 100, 0)
    assert first.peak_B == 221
    assert first.parts_B() == {"weights": 7, "optimiser": 14, "stash": 200}
    assert last.peak_stash_B == 10


def test_memory_of_other_shapes_is_refused() -> None:
    played = play_schedule(SCHEDULES["zb-h1"].orders(4, 12), 1, 1, 1)
    with pytest.raises(UsageError, match="stash_B"):
        memory_traces(played, [1, 2], {})
    with pytest.raises(UsageError, match=r"static_B\[weights\]"):
        memory_traces(played, 1, {"weights": [1]})


def test_schedule_as_text() -> None:
    played = play_schedule(SCHEDULES["1f1b"].orders(2, 2), 1, 2)
    assert schedule_text(played) == (
        "slot      1  2  3  4  5  6  7  8  9\n"
        "device 0  F1 F2 .  .  B1--- .  B2---\n"
        "device 1  .  F1 B1--- F2 B2--- .  .\n"
    )
    chunks = play_schedule(SCHEDULES["interleaved"].orders(2, 2, 2), Fraction(1, 2), Fraction(1, 2))
    assert schedule_text(chunks).splitlines()[1].startswith("device 0  F1a F2a F1b F2b")
    with pytest.raises(UsageError, match="the table would have 9 slots"):
        schedule_text(played, most=5)
