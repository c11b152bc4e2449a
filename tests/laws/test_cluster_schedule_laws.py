"""Laws of pipeline schedules and of fused gradients, whatever the shape and the times."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.cluster.buckets import POLICIES, Fusion, Gradient, overlap
from accelsim.cluster.plan.objective import balanced_blocks
from accelsim.cluster.schedules.base import Op, Orders, Schedule
from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.played import PlayedSchedule, memory_traces, stash_counts
from accelsim.cluster.schedules.registry import SCHEDULES
from tests.helpers.bucket_attempts import finish_fs
from tests.helpers.weight_versions import version_problems, weight_versions

ENTRIES = st.sampled_from(list(SCHEDULES.values()))
TIMES = st.integers(0, 40)


class Case(NamedTuple):
    """A schedule of some shape, and times of its stages."""

    entry: Schedule
    stages: int
    microbatches: int
    chunks: int
    replicas: tuple[int, ...]
    forward: list[int]
    backward: list[int]
    weight: list[int]
    transfer: int
    occupancy: int

    @property
    def orders(self) -> Orders:
        return self.entry.orders(self.stages, self.microbatches, self.chunks, self.replicas)

    def play(self, **changed: object) -> PlayedSchedule:
        costs = {"forward_fs": self.forward, "backward_fs": self.backward, "weight_fs": self.weight}
        given = {**costs, "transfer_fs": self.transfer, "occupancy_fs": self.occupancy, **changed}
        return play_schedule(self.orders, **given, replicas=self.replicas)  # type: ignore[arg-type]


@st.composite
def cases(draw: st.DrawFn, entries: st.SearchStrategy[Schedule] = ENTRIES) -> Case:
    entry, p = draw(entries), draw(st.integers(1, 5))
    chunks = draw(st.integers(1, 3)) if entry.chunked else 1
    m = draw(st.integers(1, 4)) * p if entry.laws else draw(st.integers(1, 14))
    replicas = tuple(draw(st.lists(st.integers(1, 3), min_size=p, max_size=p))) if entry.replicated else ()
    forward, backward, weight = (draw(st.lists(TIMES, min_size=p, max_size=p)) for _ in range(3))
    transfer = draw(TIMES)
    return Case(entry, p, m, chunks, replicas, forward, backward, weight, transfer, draw(st.integers(0, transfer)))


SYNCHRONOUS = st.sampled_from([entry for entry in SCHEDULES.values() if entry.synchronous])


@given(cases())
@settings(max_examples=120, deadline=None)
def test_each_op_once_in_order_and_behind_what_it_needs(case: Case) -> None:
    played = case.play()
    last = case.stages * case.chunks - 1
    ends: dict[tuple[str, int, int], int] = {}
    for device, order in enumerate(played.orders):
        assert max(Counter(order).values(), default=1) == 1  # a replica may have no microbatch
        previous = 0
        for op, start, end in zip(order, played.start_fs[device], played.end_fs[device], strict=True):
            assert start >= previous
            previous = end  # type: ignore[assignment]
            ends[op.kind, op.chunk * case.stages + played.stage_of[device], op.microbatch] = end  # type: ignore[assignment]
    for (kind, place, microbatch), end in ends.items():
        if kind == "F" and place:
            assert end >= ends["F", place - 1, microbatch]
        if kind == "B":
            assert end >= ends["F", place, microbatch]
            assert place == last or end >= ends["B", place + 1, microbatch]
        if kind == "W":
            assert end >= ends["B", place, microbatch]
    kinds = "FBW" if case.entry.splits else "FB"
    assert len(ends) == len(kinds) * (last + 1) * case.microbatches


@given(cases())
@settings(max_examples=80, deadline=None)
def test_no_schedule_is_shorter_than_what_a_device_computes(case: Case) -> None:
    played = case.play()
    each = [(f + b + w) * case.chunks for f, b, w in zip(case.forward, case.backward, case.weight, strict=True)]
    for device, stage in enumerate(played.stage_of):
        ops = sum(op.kind == "F" and not op.chunk for op in played.orders[device])
        assert played.busy_fs[device] == each[stage] * ops
        assert played.makespan_fs >= played.busy_fs[device]
    assert all(bubble >= 0 for bubble in played.bubble_fs)


@given(cases(), st.data())
@settings(max_examples=80, deadline=None)
def test_a_straggler_never_makes_a_step_shorter(case: Case, data: st.DataObject) -> None:
    """With the order of ops fixed; nor does a slower link."""
    slow, more = data.draw(st.integers(0, case.stages - 1)), data.draw(st.integers(1, 60))
    field = data.draw(st.sampled_from(["forward", "backward", "weight"]))
    slower = [time + more * (stage == slow) for stage, time in enumerate(getattr(case, field))]
    before = case.play().makespan_fs
    assert case.play(**{f"{field}_fs": slower}).makespan_fs >= before
    assert case.play(transfer_fs=case.transfer + more).makespan_fs >= before
    assert case.play(occupancy_fs=case.occupancy + more).makespan_fs >= before


@given(cases())
@settings(max_examples=80, deadline=None)
def test_stashes_are_never_negative_and_all_freed(case: Case) -> None:
    played = case.play()
    for order in played.orders:
        assert min(stash_counts(order), default=0) >= 0
    for trace in memory_traces(played, 3, {"weights": [5] * case.stages}):
        assert min(trace.stash_B) >= 0
        assert trace.stash_B[-1] == 0
        assert trace.peak_B == 5 + trace.peak_stash_B
        assert list(trace.times_fs) == sorted(set(trace.times_fs))


@given(cases())
@settings(max_examples=60, deadline=None)
def test_what_a_link_takes_is_in_order_and_never_two_at_a_time(case: Case) -> None:
    busy: dict[tuple[int, int], int] = {}
    for message in case.play().messages:
        link = (message.source, message.target)
        assert message.start_fs >= max(message.ready_fs, busy.get(link, 0))
        assert message.end_fs == message.start_fs + case.transfer
        busy[link] = message.start_fs + case.occupancy  # type: ignore[assignment]


@given(st.integers(1, 6), st.integers(1, 20), st.integers(1, 30), st.integers(1, 30), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_identities(p: int, m: int, f: int, b: int, c: int) -> None:
    steady = SCHEDULES["1f1b"]
    assert SCHEDULES["interleaved"].orders(p, m * p) == steady.orders(p, m * p)
    played = play_schedule(steady.orders(p, m), f, b, 0, c)
    assert played.peak_stashes == tuple(min(m, p - stage) for stage in range(p))
    for name, entry in SCHEDULES.items():
        if entry.synchronous:
            assert play_schedule(entry.orders(1, m), f, b, 0, c).makespan_fs == m * (f + b), name
    bubbles = [
        max(one.makespan_fs - max(one.busy_fs) for one in [play_schedule(SCHEDULES[name].orders(p, m + p), f, f, f)])
        for name in ("zb-h1", "1f1b")
    ]
    assert bubbles[0] == Fraction(bubbles[1], 3)


@given(cases(), st.integers(2, 7))
@settings(max_examples=50, deadline=None)
def test_times_scale(case: Case, factor: int) -> None:
    """Fractions are exact: a seventh of all times is a seventh of the makespan."""
    part = {
        f"{name}_fs": [Fraction(time, factor) for time in getattr(case, name)]
        for name in ("forward", "backward", "weight")
    }
    links = {f"{name}_fs": Fraction(getattr(case, name), factor) for name in ("transfer", "occupancy")}
    assert case.play(**part, **links).makespan_fs * factor == case.play().makespan_fs


@given(ENTRIES, st.integers(1, 6), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_versions_are_there_when_they_are_used(entry: Schedule, p: int, updates: int) -> None:
    m = 2 * p
    total = m if entry.synchronous else m * updates
    orders = entry.orders(p, total)
    stale = entry.name == "pipedream-nostash" and p > 1
    assert bool(version_problems(entry, orders, m)) is stale
    used = weight_versions(entry, p, total, m)
    assert (used.forward <= used.backward).all()
    assert (used.forward[:, 1:] >= used.forward[:, :-1]).all()


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60), st.sampled_from(["fp32", "fp16"])), min_size=1, max_size=25),
    st.sampled_from(list(POLICIES)), st.integers(0, 90), st.integers(0, 20), st.integers(0, 9),
)  # fmt: skip
@settings(max_examples=120, deadline=None)
def test_fused_gradients(
    drawn: list[tuple[int, int, str]], name: str, threshold_B: int, cycle_fs: int, latency_fs: int
) -> None:
    """Each once; none early; one at a time; done when max-plus says; copies and compression are the rest."""
    gradients = [Gradient(str(i), ready, size, kind) for i, (ready, size, kind) in enumerate(drawn)]
    found = overlap(gradients, 50, lambda nbytes: latency_fs + nbytes, Fusion(name, threshold_B, cycle_fs))
    assert sorted(i for bucket in found.buckets for i in bucket.members) == list(range(len(gradients)))
    free = 0
    for bucket in found.buckets:
        assert bucket.ready_fs >= max(gradients[i].ready_fs for i in bucket.members)
        assert bucket.start_fs == max(free, bucket.ready_fs)
        free = bucket.end_fs
        assert not name.startswith("horovod") or len(bucket.members) == 1 or bucket.nbytes <= threshold_B
    costs = [bucket.end_fs - bucket.start_fs for bucket in found.buckets]
    assert found.finish_fs == finish_fs([bucket.ready_fs for bucket in found.buckets], costs)
    assert found.exposed_fs == max(0, found.finish_fs - 50)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.data())
@settings(max_examples=60, deadline=None)
def test_balanced_blocks(times: list[int], data: st.DataObject) -> None:
    """Whole, in order, none empty; more stages never have a larger largest."""
    stages = data.draw(st.integers(1, len(times)))
    blocks = balanced_blocks(times, stages)
    assert [i for start, end in blocks for i in range(start, end)] == list(range(len(times)))
    assert all(start < end for start, end in blocks)
    largest = max(sum(times[start:end]) for start, end in blocks)
    assert largest >= max(max(times), Fraction(sum(times), stages))
    if stages > 1:
        assert largest <= max(sum(times[start:end]) for start, end in balanced_blocks(times, stages - 1))


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_orders_are_the_same_every_time(name: str) -> None:
    entry = SCHEDULES[name]
    assert entry.orders(4, 8) == entry.orders(4, 8)
    assert all(isinstance(op, Op) for order in entry.orders(4, 8) for op in order)
