"""Closed forms of pipelines against played schedules, in rational arithmetic, on random cases."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.registry import SCHEDULES
from tests.helpers import schedule_forms as closed
from tests.helpers.schedule_forms import CLOSED, Times

CASES = 125
"""Of each of the four schedules with a closed form: 500 in all."""


def draw(name: str, rng: np.random.Generator) -> Times:
    """Any shape and times for which the closed form holds."""
    p, v = int(rng.integers(1, 9)), int(rng.integers(1, 5)) if name == "interleaved" else 1
    m = int(rng.integers(1, 5)) * p if name == "interleaved" else int(rng.integers(1, 25))
    f, b, w, c = (Fraction(int(rng.integers(1, 30)), int(rng.integers(1, 7))) for _ in range(4))
    if name in ("interleaved", "zb-h1"):
        c = Fraction(0)
    return Times(p, m, v, f, b, min(f, b) * Fraction(int(rng.integers(0, 9)), 8) if name == "zb-h1" else w, c)


@pytest.mark.parametrize("name", CLOSED)
def test_makespan_and_stashes_are_as_the_formulas_say(name: str) -> None:
    rng, form = np.random.default_rng(31), CLOSED[name]
    for _ in range(CASES):
        t = draw(name, rng)
        assert form.holds(t)
        played = play_schedule(SCHEDULES[name].orders(t.p, t.m, t.v), t.f, t.b, t.w, t.c)
        assert played.makespan_fs == form.makespan(t), t
        assert played.peak_stashes == tuple(form.peak(t.p, t.m, t.v, stage) for stage in range(t.p)), t
        if name != "zb-h1" and not t.c:
            bubble = played.makespan_fs - max(played.busy_fs)
            assert bubble == closed.bubble_over_ideal(t) * max(played.busy_fs)


def test_zb_h1_holds_inputs_of_weight_gradients_of_p_microbatches() -> None:
    for p, m in [(1, 4), (3, 12), (4, 9), (8, 20)]:
        for ops in SCHEDULES["zb-h1"].orders(p, m):
            assert max(accumulate((op.kind == "F") - (op.kind == "W") for op in ops)) == p


def test_zb_h1_is_longer_than_its_formula_where_weight_gradients_are_slow() -> None:
    t = Times(4, 8, 1, 2, 2, 5)
    played = play_schedule(SCHEDULES["zb-h1"].orders(4, 8), 2, 2, 5)
    assert not CLOSED["zb-h1"].holds(t)
    assert played.makespan_fs > closed.zb_h1_makespan(t)


def test_unequal_stages() -> None:
    rng = np.random.default_rng(32)
    reached = 0
    for _ in range(60):
        p, m = int(rng.integers(1, 8)), int(rng.integers(1, 20))
        f, b = ([int(time) for time in rng.integers(1, 50, p)] for _ in range(2))
        gpipe = play_schedule(SCHEDULES["gpipe"].orders(p, m), f, b)
        assert gpipe.makespan_fs == closed.gpipe_unequal_makespan(f, b, m)
        steady = play_schedule(SCHEDULES["1f1b"].orders(p, m), f, b).makespan_fs
        bound = closed.one_f_one_b_bound(f, b, m)
        assert bound <= steady <= Fraction(117, 100) * bound
        reached += steady == bound
    assert 10 < reached < 60


def test_1f1b_exposes_transfers_that_gpipe_hides() -> None:
    """The difference grows with the microbatches: 2c(p-1)/p each."""
    p, c = 4, 1
    with_c, without = (
        {m: play_schedule(SCHEDULES["1f1b"].orders(p, m), 10, 20, 0, cost).makespan_fs for m in (40, 80)}
        for cost in (c, 0)
    )
    more = (with_c[80] - without[80]) - (with_c[40] - without[40])
    assert more == Fraction(40 * 2 * c * (p - 1), p)
    gpipe = [play_schedule(SCHEDULES["gpipe"].orders(p, m), 10, 20, 0, c).makespan_fs for m in (40, 80)]
    assert gpipe[1] - gpipe[0] == 40 * 30


@pytest.mark.parametrize("replicas", [(1, 1), (1, 1, 1, 1), (3, 1), (2, 1, 1), (4, 2, 1), (7, 1)])
def test_asynchronous_period(replicas: tuple[int, ...]) -> None:
    """The slowest stage binds, each stage as often as it has replicas."""
    f = [4 * count + stage for stage, count in enumerate(replicas)]
    b = [7 * count for count in replicas]
    played = play_schedule(
        SCHEDULES["pipedream"].orders(len(replicas), 336, replicas=replicas), f, b, replicas=replicas
    )
    assert closed.steady_period_fs(played) == closed.asynchronous_period(f, b, replicas)
    assert played.peak_stashes[0] == closed.most_in_flight(replicas)


@pytest.mark.parametrize("p", [2, 4, 6])
def test_asynchronous_minibatches_in_flight(p: int) -> None:
    played = play_schedule(SCHEDULES["pipedream"].orders(p, 40), 1, 2)
    assert played.peak_stashes == tuple(p - stage for stage in range(p))
    assert closed.steady_period_fs(played) == closed.asynchronous_period([1] * p, [2] * p) == 3
