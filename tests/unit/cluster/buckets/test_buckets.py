"""Fusion of gradients: what each policy makes of them, time on the stream, and what is best."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from itertools import pairwise

import pytest

from accelsim.cluster.buckets import (
    MIB,
    MILLISECOND_FS,
    POLICIES,
    Fusion,
    Gradient,
    Overlapped,
    Policy,
    overlap,
    policy,
)
from accelsim.cluster.step.fusing import grid, search
from accelsim.errors import UsageError
from tests.helpers.bucket_attempts import attempts, finish_fs
from tests.helpers.ring_cost import ring_cost

MS, LATENCY_FS = MILLISECOND_FS, 20 * 10**9
RANKS, BETA_BPS = 8, 3 * 10**9
RING = ring_cost(RANKS, LATENCY_FS, BETA_BPS)
LAYERS = 60
GRADIENTS = [Gradient(f"layer{i}", (i + 1) * MS, MIB * (1 + i % 3)) for i in range(LAYERS)]
BACKWARD_FS = LAYERS * MS


def made(gradients: list[Gradient], fusion: Fusion) -> list[tuple[tuple[int, ...], int]]:
    found = overlap(gradients, max(one.ready_fs for one in gradients), lambda nbytes: 0, fusion)
    return [(bucket.members, bucket.ready_fs) for bucket in found.buckets]


def exposed_fs(**choices: object) -> int:
    return overlap(GRADIENTS, BACKWARD_FS, RING, Fusion(**choices)).exposed_fs  # type: ignore[arg-type]


def test_horovod_takes_what_is_ready_at_the_end_of_a_cycle() -> None:
    gradients = [Gradient("a", 1, 4), Gradient("b", 9, 4), Gradient("c", 10, 4), Gradient("d", 11, 4)]
    assert made(gradients, Fusion(cycle_fs=10)) == [((0, 1, 2), 10), ((3,), 20)]
    assert made(gradients, Fusion(cycle_fs=10, threshold_B=8)) == [((0, 1), 10), ((2,), 10), ((3,), 20)]
    assert made(gradients, Fusion(cycle_fs=0)) == [((0,), 1), ((1,), 9), ((2,), 10), ((3,), 11)]


def test_a_host_that_runs_ahead_fills_buckets_by_order_alone() -> None:
    """'a' waits for 'c', whatever the cycle."""
    gradients = [Gradient("a", 1, 4), Gradient("b", 9, 4), Gradient("c", 10, 4), Gradient("d", 11, 4)]
    for cycle_fs in (0, 10):
        assert made(gradients, Fusion("horovod-ahead", 12, cycle_fs)) == [((0, 1, 2), 10), ((3,), 11)]
    assert made(gradients, Fusion("horovod-ahead")) == [((0, 1, 2, 3), 11)]


def test_horovod_stops_at_the_first_that_does_not_fit() -> None:
    """'c' would still fit into the first bucket."""
    gradients = [Gradient("a", 1, 4), Gradient("b", 1, 7), Gradient("c", 1, 4)]
    assert [members for members, _ in made(gradients, Fusion(threshold_B=10, cycle_fs=1))] == [(0,), (1,), (2,)]
    assert [members for members, _ in made(gradients, Fusion(threshold_B=11, cycle_fs=1))] == [(0, 1), (2,)]
    formats = [
        gradient._replace(dtype=kind) for gradient, kind in zip(gradients, ("fp32", "fp16", "fp16"), strict=True)
    ]
    assert [members for members, _ in made(formats, Fusion(cycle_fs=1))] == [(0,), (1, 2)]


def test_ddp_has_a_small_first_bucket_and_closes_what_is_full() -> None:
    gradients = [Gradient(str(i), i, MIB // 2) for i in range(8)]
    assert made(gradients, Fusion("ddp", 2 * MIB)) == [((0, 1), 1), ((2, 3, 4, 5), 5), ((6, 7), 7)]
    assert made(gradients[:1], Fusion("ddp")) == [((0,), 0)]
    assert POLICIES["ddp"].threshold_B == 25 * MIB
    assert POLICIES["horovod"].threshold_B == 128 * MIB


@pytest.mark.parametrize("entry", [pytest.param(entry, id=name) for name, entry in POLICIES.items()])
def test_every_gradient_is_sent_once_and_not_before_it_is_ready(entry: Policy) -> None:
    assert entry.title and entry.source and policy(entry.name) is entry
    shuffled = [GRADIENTS[(7 * i) % LAYERS]._replace(dtype=("fp32", "fp16")[i % 5 == 0]) for i in range(LAYERS)]
    found = overlap(shuffled, BACKWARD_FS, RING, Fusion(entry.name))
    assert sorted(index for bucket in found.buckets for index in bucket.members) == list(range(LAYERS))
    for bucket in found.buckets:
        assert bucket.ready_fs >= max(shuffled[index].ready_fs for index in bucket.members)
        assert len({shuffled[index].dtype for index in bucket.members}) == 1
        assert bucket.start_fs >= bucket.ready_fs
    ends = [0, *(bucket.end_fs for bucket in found.buckets)]
    assert all(bucket.start_fs >= end for bucket, end in zip(found.buckets, ends, strict=False))
    costs = [bucket.end_fs - bucket.start_fs for bucket in found.buckets]
    assert found.finish_fs == finish_fs([bucket.ready_fs for bucket in found.buckets], costs)
    assert sum(bucket.sent_B for bucket in found.buckets) == sum(gradient.nbytes for gradient in shuffled)
    assert found.busy_fs == sum(RING(bucket.nbytes) for bucket in found.buckets)


def test_no_fusion_pays_the_latency_of_every_tensor() -> None:
    """2(N - 1) alpha (n - 1) more than all in one."""
    each = overlap(GRADIENTS, BACKWARD_FS, RING, Fusion("each"))
    whole = overlap(GRADIENTS, BACKWARD_FS, RING, Fusion("whole"))
    more = each.busy_fs - whole.busy_fs
    assert more == pytest.approx(2 * (RANKS - 1) * LATENCY_FS * (LAYERS - 1), rel=1e-9)


def test_full_fusion_exposes_all_of_its_cost() -> None:
    total_B = sum(gradient.nbytes for gradient in GRADIENTS)
    assert exposed_fs(policy="whole") == RING(total_B)
    assert exposed_fs(threshold_B=2**40, cycle_fs=BACKWARD_FS) == RING(total_B)


def test_the_best_threshold_of_fixed_buckets_is_neither_small_nor_large() -> None:
    """Latency rules on the left, what does not overlap on the right."""
    costly = ring_cost(RANKS, 10 * LATENCY_FS, BETA_BPS)
    found = grid(attempts(GRADIENTS, BACKWARD_FS, costly, Fusion("ddp")), cycles_fs=[0])
    exposed = [trial.exposed_fs for trial in found.trials]
    best = exposed.index(found.best.exposed_fs)
    assert exposed[0] > 2 * found.best.exposed_fs
    assert exposed[-1] > Fraction(3, 2) * found.best.exposed_fs
    assert exposed[: best + 1] == sorted(exposed[: best + 1], reverse=True)
    assert MIB < found.best.fusion.threshold_B < 64 * MIB  # type: ignore[operator]


def test_within_a_cycle_a_larger_threshold_is_never_worse() -> None:
    """All of a cycle goes at its end, in few buckets or many; it is the cycle time that has a best value."""
    found = grid(attempts(GRADIENTS, BACKWARD_FS, RING), cycles_fs=[20 * MS])
    exposed = [trial.exposed_fs for trial in found.trials]
    assert exposed == sorted(exposed, reverse=True)
    assert exposed[0] > exposed[-1]


def test_the_best_cycle_time_is_neither_short_nor_long() -> None:
    costly = ring_cost(RANKS, 10 * LATENCY_FS, BETA_BPS)
    found = grid(attempts(GRADIENTS, BACKWARD_FS, costly), [2**40])
    exposed = [trial.exposed_fs for trial in found.trials]
    assert exposed[0] > 2 * found.best.exposed_fs
    assert exposed[-1] > 2 * found.best.exposed_fs
    assert MS < found.best.fusion.cycle_fs < 64 * MS


def test_without_latency_smaller_is_never_worse() -> None:
    free = ring_cost(RANKS, 0, BETA_BPS)
    exposed = [overlap(GRADIENTS, BACKWARD_FS, free, Fusion("ddp", 2**power)).exposed_fs for power in range(16, 31)]
    assert all(a <= b + LAYERS * 2 * RANKS for a, b in pairwise(exposed))


def test_copies_and_compression() -> None:
    """A bucket of one tensor is not copied; casts read 4 and write 2 bytes, and back again."""
    pair = [Gradient("a", 0, 400), Gradient("b", 0, 600)]
    memory = Fusion("whole", memory_Bps=10**15)
    plain, halved = (
        overlap(pair, 0, lambda nbytes: nbytes, replace(memory, compression=kind)).buckets[0]
        for kind in ("none", "fp16")
    )
    assert (plain.sent_B, plain.copy_fs, plain.end_fs) == (1000, 2000, 3000)
    assert (halved.nbytes, halved.sent_B, halved.copy_fs) == (1000, 500, 2 * 500 + 2 * 1500)
    assert [
        bucket.copy_fs for bucket in overlap(pair, 0, lambda nbytes: 0, replace(memory, policy="each")).buckets
    ] == [0, 0]
    narrow = [gradient._replace(dtype="fp16") for gradient in pair]
    found = overlap(narrow, 0, lambda nbytes: 0, replace(memory, compression="fp16")).buckets[0]
    assert (found.sent_B, found.copy_fs) == (1000, 2000)


def test_the_cost_is_asked_once_per_size() -> None:
    asked: list[int] = []

    def cost(nbytes: int) -> int:
        asked.append(nbytes)
        return 1

    overlap(GRADIENTS, BACKWARD_FS, cost, Fusion("each"))
    assert sorted(asked) == [MIB, 2 * MIB, 3 * MIB]


def test_nothing_is_exposed_where_everything_is_sent_in_time() -> None:
    assert Overlapped((), 5).exposed_fs == 0
    found = overlap([Gradient("a", 0, 1)], 10, lambda nbytes: 3, Fusion("each"))
    assert (found.finish_fs, found.exposed_fs) == (3, 0)


def test_bad_input_is_refused_all_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        Fusion("horovod", -1, -1, "fp8", 0)  # type: ignore[arg-type]
    assert [problem.where for problem in caught.value.problems] == [
        "threshold", "cycle", "compression", "memory bandwidth",
    ]  # fmt: skip
    with pytest.raises(UsageError) as caught:
        overlap([Gradient("a", 9, 0)], 5, RING)
    assert [str(problem) for problem in caught.value.problems] == [
        "a: 0 B; expected a gradient of at least a byte",
        "a: ready at 9 fs; expected a time within the backward, 0 to 5 fs",
    ]
    with pytest.raises(UsageError, match="no gradients"):
        overlap([], 5, RING)
    with pytest.raises(UsageError, match=r"unknown fusion policy 'horovot'.*did you mean 'horovod'"):
        overlap(GRADIENTS, BACKWARD_FS, RING, Fusion("horovot"))
    with pytest.raises(UsageError, match="nothing to try"):
        grid(attempts(GRADIENTS, BACKWARD_FS, RING), [])


def test_search_without_optuna_says_what_is_missing() -> None:
    if find_spec("optuna") is not None:
        pytest.skip("Optuna is installed")
    with pytest.raises(UsageError, match="Optuna is not installed"):
        search(attempts(GRADIENTS, BACKWARD_FS, RING))


@pytest.mark.skipif(find_spec("optuna") is None, reason="Optuna (extra 'sweep') is not installed")
@pytest.mark.filterwarnings("ignore")
def test_search_finds_what_the_grid_finds_and_the_same_again() -> None:
    tuning = attempts(GRADIENTS, BACKWARD_FS, ring_cost(RANKS, 10 * LATENCY_FS, BETA_BPS))
    found, again = (search(tuning, 40, seed=5) for _ in range(2))
    assert found == again
    assert found.best.exposed_fs <= Fraction(6, 5) * grid(tuning).best.exposed_fs
