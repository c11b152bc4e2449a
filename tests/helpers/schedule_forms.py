"""Closed forms of pipeline schedules: exact in rational arithmetic where their docstring says so.

p stages, m microbatches, v model chunks per device; f, b, w: forward, backward (of the inputs alone, where w is
given) and weight gradient of one microbatch on one stage; c: blocking transfer between neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from accelsim.cluster.schedules.play import Number
from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.errors import Problem, UsageError


class Times(NamedTuple):
    """Of equal stages. ``b`` without ``w``, which is added to it where the schedule does not split them."""

    p: int
    m: int
    v: int = 1
    f: Number = 1
    b: Number = 2
    w: Number = 0
    c: Number = 0


def gpipe_makespan(t: Times) -> Number:
    """(m + p - 1)(f + b) + 2(p - 1)c. Exact. (GPipe, section 2.3.)"""
    return (t.m + t.p - 1) * (t.f + t.b + t.w) + 2 * (t.p - 1) * t.c


def gpipe_unequal_makespan(forward: Sequence[Number], backward: Sequence[Number], microbatches: int) -> Number:
    """sum f + (m - 1) max f + sum b + (m - 1) max b. Exact for any stages, c = 0."""
    return sum(sum(times) + (microbatches - 1) * max(times) for times in (forward, backward))


def one_f_one_b_makespan(t: Times) -> Number:
    """(m + p - 1)(f + b) + 2c[p + m - 2 - floor((m + p - 2)/p)]. Exact.

    A transfer is exposed about 2(p - 1)/p times per microbatch, where GPipe exposes it 2(p - 1) times in all.
    """
    exposed = t.p + t.m - 2 - (t.m + t.p - 2) // t.p
    return (t.m + t.p - 1) * (t.f + t.b + t.w) + 2 * t.c * exposed


def one_f_one_b_bound(forward: Sequence[Number], backward: Sequence[Number], microbatches: int) -> Number:
    """max over s of m(f_s + b_s) + sum over k < s of (f_k + b_k): a lower bound for any stages, c = 0."""
    both = [f + b for f, b in zip(forward, backward, strict=True)]
    return max(microbatches * time + sum(both[:stage]) for stage, time in enumerate(both))


def interleaved_makespan(t: Times) -> Number:
    """v m (f + b) + (p - 1)(f + b), with f and b of one *chunk*. Exact for c = 0 and m a multiple of p."""
    return (t.m * t.v + t.p - 1) * (t.f + t.b + t.w)


def zb_h1_makespan(t: Times) -> Number:
    """m(f + b + w) + (p - 1)(f + b - w) for m >= p; with fewer microbatches only m - 1 of the w fill the bubble.

    Exact for c = 0 and w <= min(f, b), too small otherwise.
    """
    return t.m * (t.f + t.b + t.w) + (t.p - 1) * (t.f + t.b) - (min(t.p, t.m) - 1) * t.w


def bubble_over_ideal(t: Times) -> Number:
    """(p - 1)/(v m) of GPipe, 1F1B and interleaved 1F1B with c = 0. (Megatron-LM, SC 2021, section 2.2.)"""
    return Fraction(t.p - 1, t.v * t.m)


class ClosedForm(NamedTuple):
    """What is known of a schedule of equal stages.

    ``makespan``: of ``Times``; ``holds``: where it is exact; ``peak``: most stashes of a stage (p, m, v, stage).
    """

    makespan: Callable[[Times], Number]
    holds: Callable[[Times], bool]
    peak: Callable[[int, int, int, int], int]


def _gpipe_peak(p: int, m: int, v: int, stage: int) -> int:
    return m


def _one_f_one_b_peak(p: int, m: int, v: int, stage: int) -> int:
    return min(m, p - stage)


def _interleaved_peak(p: int, m: int, v: int, stage: int) -> int:
    if v == 1:
        return _one_f_one_b_peak(p, m, v, stage)
    return m * v if m == p else min(m * v, 2 * (p - stage - 1) + (v - 1) * p + 1)


CLOSED: dict[str, ClosedForm] = {
    "gpipe": ClosedForm(gpipe_makespan, lambda t: t.v == 1, _gpipe_peak),
    "1f1b": ClosedForm(one_f_one_b_makespan, lambda t: t.v == 1, _one_f_one_b_peak),
    "interleaved": ClosedForm(interleaved_makespan, lambda t: not t.c and t.m % t.p == 0, _interleaved_peak),
    "zb-h1": ClosedForm(zb_h1_makespan, lambda t: t.v == 1 and not t.c and t.w <= min(t.f, t.b), _one_f_one_b_peak),
}
"""Name of a synchronous schedule -> its closed form; f, b and w are those of one op."""


def asynchronous_period(forward: Sequence[Number], backward: Sequence[Number], replicas: Sequence[int] = ()) -> Number:
    """max over stages of (f_s + b_s)/r_s: time per minibatch of PipeDream in its steady state, if links do not bind."""
    counts = replicas or [1] * len(forward)
    return max(Fraction(f + b) / r for f, b, r in zip(forward, backward, counts, strict=True))


def most_in_flight(replicas: Sequence[int]) -> int:
    """ceil(workers / replicas of the first stage): minibatches that PipeDream admits (NOAM, SOSP 2019, section 3.2)."""
    return -(-sum(replicas) // replicas[0])


def steady_period_fs(played: PlayedSchedule, stage: int = 0) -> Fraction:
    """Time between two minibatches in the middle of the run, where the pipeline neither fills nor drains.

    Mean over the middle third of the ends of the backwards of ``stage``, over whole rounds of all replicas where
    there are enough. UsageError: a single minibatch.
    """
    ends = {
        op.microbatch: end
        for device, ops in enumerate(played.orders) if played.stage_of[device] == stage
        for op, end in zip(ops, played.end_fs[device], strict=True) if op.kind == "B"
    }  # fmt: skip
    if len(ends) < 2:
        raise UsageError(Problem("a single minibatch has no period", "steady_period_fs", "at least two"))
    counts = [played.stage_of.count(each) for each in range(played.stages)]
    whole = lcm(*counts) * played.stages
    first = len(ends) // 3
    last = first + max(len(ends) // 3 // whole, 1) * whole
    last = min(last, len(ends) - 1)
    return Fraction(ends[last] - ends[first], last - first)
