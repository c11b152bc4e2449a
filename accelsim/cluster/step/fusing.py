"""Threshold and cycle time of fused gradients for a training step: the best of what was tried, and what lies around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from accelsim.cluster.buckets.base import Fusion
from accelsim.cluster.buckets.policies import POLICIES, policy
from accelsim.cluster.buckets.tune import CYCLES_FS, THRESHOLDS_B, Trial, Tuned, best, grid
from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.asked import Ready
from accelsim.cluster.step.flushed import Step
from accelsim.cluster.step.gradients import synced
from accelsim.cluster.step.ops import Planned
from accelsim.cluster.step.options import Options
from accelsim.errors import Problem, UsageError

EVERY = 3
"""One line of the picture for so many thresholds."""
SENT = ("all_reduce", "reduce_scatter")
"""Collectives of buckets."""


class StepTuning(NamedTuple):
    """A step whose pipelines have run; only what is behind them is played again. ``bare_fs``: the step if nothing had
    to be sent behind its passes."""

    planned: Planned
    played: Sequence[PlayedSchedule]
    options: Options
    bare_fs: int

    def attempt(self, threshold_B: int | None, cycle_fs: int) -> Trial:
        """Return how much longer the step is for its collectives of replicas and of the embedding, and the buckets of
        the stage that has most."""
        fusion = replace(self.options.gradients, threshold_B=threshold_B, cycle_fs=cycle_fs)
        stages = synced(self.planned, self.played, replace(self.options, gradients=fusion))
        done_fs = max(stage.done_fs for stage in stages)
        buckets = max(sum(what in SENT for _, _, what in stage.busy) for stage in stages)
        return Trial(fusion, done_fs - self.bare_fs, buckets)


class TunedStep(NamedTuple):
    """What came of a search. ``by``: what it was found by, in words; ``asked``: the step as it was asked for;
    ``around``: at the best cycle time all thresholds, at the best threshold all cycle times (of policies that have
    none: nothing), and a grid for the picture; ``bare_fs``: see ``StepTuning``."""

    by: str
    tried: int
    asked: Trial
    best: Trial
    thresholds: tuple[Trial, ...]
    cycles: tuple[Trial, ...]
    grid: Tuned
    bare_fs: int

    def time_fs(self, trial: Trial) -> int:
        """Time of the step with a choice."""
        return self.bare_fs + trial.exposed_fs


def tuned(made: Ready) -> TunedStep:
    """The best threshold and cycle time of the policy that was asked for. UsageError for one replica, for policies that
    have nothing to choose, and for gradients that are sent behind everything."""
    _check(made)
    tuning = _tuning(made)
    fusion = made.options.gradients
    with_cycle = "cycle_fs" in policy(fusion.policy).reads
    cycles_fs = CYCLES_FS if with_cycle else (fusion.cycle_fs,)
    found, by = best(tuning, cycles_fs)
    asked = tuning.attempt(fusion.threshold_B, fusion.cycle_fs)
    one = min((asked, found.best), key=lambda trial: (trial.exposed_fs, trial.buckets))
    threshold_B = policy(fusion.policy).limit_B(one.fusion)
    one = one._replace(fusion=replace(one.fusion, threshold_B=threshold_B))
    lines = sorted({*THRESHOLDS_B[::EVERY], threshold_B}) if with_cycle else THRESHOLDS_B
    return TunedStep(
        by, len(found.trials), asked, one,
        grid(tuning, sorted({*THRESHOLDS_B, threshold_B}), (one.fusion.cycle_fs,)).trials,
        grid(tuning, (threshold_B,), sorted({*CYCLES_FS, one.fusion.cycle_fs})).trials if with_cycle else (),
        Tuned(grid(tuning, lines, cycles_fs).trials, one), tuning.bare_fs,
    )  # fmt: skip


def _check(made: Ready) -> None:
    fusion: Fusion = made.options.gradients
    problems = []
    if made.plan.dp < 2:
        problems.append(Problem(f"nothing to add up with {made.plan}", "tune", "two replicas or more"))
    if not schedule(made.plan.schedule).synchronous:
        problems.append(
            Problem(f"nothing to choose with {made.plan.schedule}", "tune", "a schedule that flushes")
        )
    if made.plan.shares_gradients:
        what = f"nothing to choose with zero={made.plan.zero}, which scatters gradients layer by layer"
        problems.append(Problem(what, "tune", "zero=0 or 1"))
    if not policy(fusion.policy).reads or not made.options.overlap:
        problems.append(Problem(f"nothing to choose with policy {fusion.policy}", "tune", _tunable()))
    if problems:
        raise UsageError(problems)


def _tunable() -> str:
    """The policies that have something to choose."""
    return " or ".join(name for name, entry in POLICIES.items() if entry.reads)


def _tuning(made: Ready) -> StepTuning:
    """The pipelines of a step, played once."""
    plan = made.plan
    planned = Planned(made.work, made.fleet, plan, made.batch // plan.dp // plan.microbatches, made.options)
    played = Step(planned, made.options, made.batch).pipelines().played
    stages = synced(planned, played, made.options)
    ends = [max(int(pipe.end_fs[p][-1]) for pipe in played) for p in range(plan.pp)]
    updates = [stage.updated_fs - stage.reduced_fs for stage in stages]
    bare_fs = max(end + update for end, update in zip(ends, updates, strict=True))
    return StepTuning(planned, played, made.options, bare_fs)
