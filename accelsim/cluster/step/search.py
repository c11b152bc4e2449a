"""Search for plans: all legal ones on a cluster are estimated, the best of them simulated.

What a block costs is simulated for each tensor-parallel size, for microbatches of one and two samples; larger ones lie
on the line through both until one of their plans is among the best. Time by closed form: filling and draining of
the pipeline and its microbatches, gradients, update. Memory by the closed forms of the step. From the best of those
that are simulated the search goes on to better neighbours, as long as there are any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from accelsim.cluster.plan.plan import Plan, Recompute
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.cluster.step.asked import Ready
from accelsim.cluster.step.bounds import Bound, Bounds
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.memory import OutOfMemory
from accelsim.cluster.step.ops import Options
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.step import problems, step_s, train_step
from accelsim.cluster.step.work import Work, recomputes
from accelsim.errors import Infeasible, UsageError, count_of
from accelsim.kernels.whole import PLANS, ends

BEST = 10
"""Plans that are printed."""
SIMULATED = 16
"""Plans that are simulated: those with the least estimates."""
LARGEST = 64
"""Sequences of a microbatch that are tried: 1, 2, 4, ... up to this; of other models samples up to the batch."""
WORTH, NEAR, ROUNDS = 0.001, 1.15, 8
"""Share of the time by which a neighbour must be better to be taken; how much worse than the best its estimate may be
for it to be simulated; how often the best is left for a better neighbour."""
CHUNKS = (2, 3, 4, 6)
"""Chunks of a device that are tried even where they do not divide the layers of a stage."""
ZEROS = (0, 1, 2, 3)
"""Stages of ZeRO that are tried."""
OBJECTIVES: dict[str, Callable[[StepResult], float]] = {
    "time": lambda result: result.time_s,
    "energy": lambda result: result.total_J,
}
"""Objective -> figure that is minimised."""


class Looked(NamedTuple):
    """A plan that was looked at, its estimate, and why it loses: 'memory', or the part of a step (see ``result.PARTS``)
    that takes longer than that of the best plan; '' for one of the best."""

    plan: Plan
    bound: Bound
    why: str = ""


@dataclass(frozen=True)
class Found:
    """Outcome of a search: ``best`` simulated, best first; all plans that were looked at, and ``why`` the others lose
    (reason -> number of plans). ``order``: key of the measured pairs of plans by which the order of their times is
    certain or not, '' without any."""

    best: tuple[StepResult, ...]
    looked: tuple[Looked, ...]
    why: dict[str, int]
    order: str = ""

    @property
    def alike(self) -> tuple[int, float]:
        """Number of the first plans that cannot be told apart, and the factor within which their times lie, by the
        errors of measured pairs of plans relative to each other. (1, 1) where none is known."""
        near = ends(self.order, 1.0)
        if near is None or not self.best:
            return 1, 1.0
        limit = self.best[0].time_s / near[0]
        return sum(each.time_s < limit for each in self.best), 1 / near[0]


def legal_plans(work: Work, devices: int, batch: int, widest: int, flash: bool = False) -> Iterator[Plan]:
    """Yield all plans for ``devices`` with schedules that flush, and tensor parallelism of at most ``widest``.
    ``flash``: attention is one kernel."""
    for tp in (each for each in _divisors(devices) if each <= widest):
        for pp in _divisors(devices // tp):
            dp = devices // tp // pp
            if batch % dp:
                continue
            for count in _microbatches(batch // dp, LARGEST if work.sample_tokens else batch):
                plan = Plan(dp=dp, tp=tp, pp=pp, microbatches=count)
                yield from _variants(work, devices, batch, plan, recomputes(work, flash))


def widest(fleet: Fleet) -> int:
    """Return the devices of the largest node: tensor parallelism beyond it sends every activation over the network."""
    return max(Counter(fleet.topology.groups[: fleet.size]).values())


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def _microbatches(samples: int, largest: int) -> Iterator[int]:
    size = 1
    while size <= min(largest, samples):
        if samples % size == 0:
            yield samples // size
        size *= 2


def _chunks(work: Work, stages: int) -> list[int]:
    most = work.depth() // stages
    return sorted(each for each in {*_divisors(max(1, most)), *CHUNKS} if 1 < each <= most)


def _variants(work: Work, devices: int, batch: int, plan: Plan, again: Sequence[Recompute]) -> Iterator[Plan]:
    """Schedules with their chunks, sequence parallelism, ZeRO, recomputation."""
    chunks_of = _chunks(work, plan.pp)
    shapes = [
        (name, v)
        for name, entry in SCHEDULES.items()
        if entry.synchronous
        for v in (chunks_of if entry.chunked else (1,))
        if plan.pp > 1 or name == "1f1b"
    ]
    for name, chunks in shapes:
        for sp in (False, True) if plan.tp > 1 else (False,):
            for zero in ZEROS if plan.dp > 1 else (0,):
                for recompute in again:
                    made = replace(plan, schedule=name, chunks=chunks, sp=sp, zero=zero, recompute=recompute)
                    if not any(problems(work, devices, made, batch)):
                        yield made


def search(
    work: Work,
    fleet: Fleet,
    batch: int,
    options: Options,
    objective: str = "time",
    progress: Callable[[float], None] = lambda share: None,
) -> Found:
    """Find the best plans for a model on a cluster. Raises UsageError where no plan is legal, Infeasible where none
    fits."""
    plans = list(legal_plans(work, fleet.size, batch, widest(fleet), fleet.flash))
    if not plans:
        what = f"{work.name} with a batch of {batch:,} on {count_of(fleet.size, 'device')}: no plan is legal"
        raise UsageError(what, expected="a batch that more counts of replicas divide")
    bounds = Bounds(work, fleet, batch, options)
    looked = [Looked(plan, bounds.estimate(plan)) for plan in plans]
    fitting = sorted((each for each in looked if each.bound.fits), key=lambda each: each.bound.value(objective))
    if not fitting and not options.ignore_capacity:
        least = min(looked, key=lambda each: each.bound.peak_B)
        parts = {f"{work.name} by {least.plan}, which needs least,": least.bound.peak_B}
        raise OutOfMemory(work.name, [(range(fleet.size), parts, least.bound.capacity_B)])
    tried = fitting[:SIMULATED]
    results = []
    for number, each in enumerate(tried):
        progress(number / len(tried))
        with suppress(Infeasible):
            results.append(train_step(work, fleet, each.plan, batch, options))
    results.sort(key=OBJECTIVES[objective])
    if results:
        better = _climbed(bounds, objective, results[0])
        known = {each.plan for each in looked}
        looked += [Looked(each.plan, bounds.estimate(each.plan)) for each in better if each.plan not in known]
        fresh = {each.plan for each in better}
        results = [*better, *(each for each in results if each.plan not in fresh)]
        results.sort(key=OBJECTIVES[objective])
    found = _found(looked, results[:BEST])
    timed = objective == "time" and bool(results) and results[0].interval is not None
    return replace(found, order=f"{PLANS}: {fleet.extent(fleet.size)}" if timed else "")


def _climbed(bounds: Bounds, objective: str, best: StepResult) -> list[StepResult]:
    """Plans that are better than ``best``, each a neighbour of the one before: estimates leave out so much that the
    best one by them may have a better neighbour."""
    work, fleet, batch = bounds.work, bounds.fleet, bounds.batch
    value, found, seen = OBJECTIVES[objective], list[StepResult](), {best.plan}
    for _ in range(ROUNDS):
        limit, better = NEAR * bounds.estimate(best.plan).value(objective), best
        near = [plan for plan in dict.fromkeys(neighbours(work, fleet, best.plan, batch)) if plan not in seen]
        seen |= set(near)
        for bound, plan in [(bounds.estimate(plan), plan) for plan in near]:
            if bound.fits and bound.value(objective) <= limit:
                with suppress(Infeasible):
                    tried = train_step(work, fleet, plan, batch, bounds.options)
                    better = min(better, tried, key=value)
        if value(better) >= (1 - WORTH) * value(best):
            return found
        best = better
        found.append(best)
    return found


def neighbours(work: Work, fleet: Fleet, plan: Plan, batch: int) -> Iterator[Plan]:
    """Yield legal plans that differ from ``plan`` by one move: another schedule, sequence parallelism, stage of ZeRO or
    recomputation; the next smaller or larger microbatch or number of chunks; a factor of two from one kind of
    parallelism to another."""
    fields: list[tuple[str, Iterable[object]]] = [
        ("sp", (not plan.sp,)),
        ("zero", ZEROS),
        ("recompute", recomputes(work, fleet.flash)),
        ("microbatches", _beside(plan.microbatches, batch // plan.dp)),
        ("chunks", (max(1, plan.chunks - 1), plan.chunks + 1, *_chunks(work, plan.pp))),
    ]
    moves: list[dict[str, object]] = [{name: value} for name, values in fields for value in values]
    for name, entry in SCHEDULES.items():
        if entry.synchronous:
            moves.append({"schedule": name, "chunks": max(2, plan.chunks) if entry.chunked else 1})
    kinds = ("dp", "tp", "pp")
    for one, other in ((a, b) for a in kinds for b in kinds if a != b and getattr(plan, a) % 2 == 0):
        shape: dict[str, object] = {one: getattr(plan, one) // 2, other: 2 * getattr(plan, other)}
        moves += [
            shape | {"microbatches": count}
            for count in (plan.microbatches, 2 * plan.microbatches, plan.microbatches // 2)
            if count
        ]
    for move in moves:
        made = replace(plan, **move)  # type: ignore[arg-type]
        made = replace(made, sp=made.sp and made.tp > 1, zero=made.zero if made.dp > 1 else 0)
        if made.pp == 1:
            made = replace(made, schedule="1f1b", chunks=1)
        if made != plan and made.tp <= widest(fleet) and not any(problems(work, fleet.size, made, batch)):
            yield made


def _beside(count: int, whole: int) -> list[int]:
    found = _divisors(whole)
    return [
        max((each for each in found if each < count), default=count),
        min((each for each in found if each > count), default=count),
    ]


def _found(looked: Sequence[Looked], best: Sequence[StepResult]) -> Found:
    """The outcome: why each other plan loses against the best one."""
    won = {result.plan for result in best}
    first = next(each.bound for each in looked if each.plan == best[0].plan) if best else None
    judged = [each._replace(why="" if each.plan in won else _why(each.bound, first)) for each in looked]
    counts = Counter(each.why for each in judged if each.why)
    return Found(tuple(best), tuple(judged), dict(counts.most_common()))


def _why(bound: Bound, best: Bound | None) -> str:
    if not bound.fits or best is None:
        return "memory"
    return max(bound.parts_s, key=lambda part: bound.parts_s[part] - best.parts_s.get(part, 0.0))


class WhatIf(NamedTuple):
    """A change in words, its option ('' for hardware that does not exist), the time of the step with it, and the share
    it saves."""

    change: str
    option: str
    time_s: float
    saved: float


def changes(asked: Ready, found: StepResult) -> Iterator[tuple[str, str, Ready]]:
    """Yield changes that could help, each with its option and the step to simulate: links and devices twice as fast,
    other fields of the plan."""
    fleet, plan, each = asked.fleet, asked.plan, asked.batch // asked.plan.dp
    wired = {wire.link for wire in fleet.topology.wires}
    for link in filter(wired.__contains__, found.by_link_B):
        yield f"links {link} twice as fast", "", asked._replace(fleet=faster(fleet, link))
    paces = tuple(2 * pace for pace in fleet.speeds)
    yield "devices twice as fast", "", asked._replace(fleet=fleet.with_speeds(paces))
    if any(pace != 1.0 for pace in fleet.speeds):
        even = fleet.with_speeds((1.0,) * fleet.size)
        yield "no device slower than its chip", "", asked._replace(fleet=even)
    others: list[tuple[str, dict[str, object]]] = []
    for name, entry in SCHEDULES.items():
        if entry.synchronous and plan.pp > 1 and name != plan.schedule:
            chunks, text = (2, " with chunks=2") if entry.chunked else (1, "")
            others.append((f"schedule {name}{text}", {"schedule": name, "chunks": chunks}))
    for name in recomputes(asked.work, fleet.flash):
        if name != plan.recompute:
            others.append((f"recompute {name}", {"recompute": name}))
    for count in (2 * plan.microbatches, plan.microbatches // 2):
        if count and each % count == 0:
            others.append((f"microbatches of {each // count}", {"microbatches": count}))
    if plan.tp > 1 and not plan.sp:
        others.append(("sequence parallelism", {"sp": True}))
    if plan.dp > 1 and not plan.zero:
        others.append(("states of the optimiser shared out", {"zero": 1}))
    for text, fields in others:
        changed = replace(plan, **fields)  # type: ignore[arg-type]
        yield text, f"--plan {changed}", asked._replace(plan=changed)


def what_ifs(asked: Ready, found: StepResult, progress: Callable[[float], None] = lambda share: None) -> list[WhatIf]:
    """Return the changes that are possible and fit, the one that saves most first."""
    made, tried = [], list(changes(asked, found))
    for number, (text, option, ready) in enumerate(tried):
        progress(number / len(tried))
        with suppress(UsageError, Infeasible):
            time_s = step_s(*ready)
            made.append(WhatIf(text, option, time_s, 1 - time_s / found.time_s))
    return sorted(made, key=lambda each: -each.saved)


def faster(fleet: Fleet, link: str, times: int = 2) -> Fleet:
    """Return the fleet with the wires of a link ``times`` as fast."""
    return fleet.with_topology(fleet.topology.with_faster(link, times))
