"""Search for the best threshold and cycle time: neither small buckets (latency) nor large ones (nothing overlaps).

A grid needs nothing more; ``search`` asks Optuna (extra ``sweep``); ``best`` takes what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, Protocol

from accelsim.cluster.buckets import (
    MILLISECOND_FS,
    POLICIES,
    Cost,
    Fusion,
    Gradient,
    overlap,
    policy,
)
from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.asked import Ready
from accelsim.cluster.step.flushed import Step
from accelsim.cluster.step.gradients import synced
from accelsim.cluster.step.ops import Options, Planned
from accelsim.errors import Problem, UsageError

if TYPE_CHECKING:
    from optuna.trial import Trial as OptunaTrial

KIB, MICROSECOND_FS = 2**10, 10**9
THRESHOLDS_B = tuple(2**power for power in range(16, 31))
"""64 KiB to 1 GiB."""
CYCLES_FS = tuple(MILLISECOND_FS * 2**power // 8 for power in range(11))
"""0.125 to 128 ms."""


class Trial(NamedTuple):
    """One choice and what comes of it."""

    fusion: Fusion
    exposed_fs: int
    buckets: int


class Tuned(NamedTuple):
    """All that was tried, in order; ``best`` has the least exposed time, of equals the fewest buckets."""

    trials: tuple[Trial, ...]
    best: Trial


class Tunable(Protocol):
    """Whatever has a threshold and a cycle time to choose."""

    def attempt(self, threshold_B: int, cycle_fs: int) -> Trial:
        """One choice."""


class Tuning(NamedTuple):
    """What is tuned: gradients, the time of the backward, the cost of an all-reduce, and what stays as it is."""

    gradients: Sequence[Gradient]
    backward_fs: int
    cost: Cost
    fusion: Fusion = Fusion()

    def attempt(self, threshold_B: int, cycle_fs: int) -> Trial:
        """One choice."""
        fusion = replace(self.fusion, threshold_B=threshold_B, cycle_fs=cycle_fs)
        found = overlap(self.gradients, self.backward_fs, self.cost, fusion)
        return Trial(fusion, found.exposed_fs, len(found.buckets))


def grid(
    tuning: Tunable, thresholds_B: Sequence[int] = THRESHOLDS_B, cycles_fs: Sequence[int] = CYCLES_FS
) -> Tuned:
    """All pairs, thresholds outermost. UsageError: nothing to try."""
    if not thresholds_B or not cycles_fs:
        raise UsageError(Problem("nothing to try", "tune", "at least one threshold and one cycle time"))
    return _tuned([tuning.attempt(*pair) for pair in product(thresholds_B, cycles_fs)])


def search(tuning: Tunable, trials: int = 60, seed: int = 0, cycles_fs: Sequence[int] = CYCLES_FS) -> Tuned:
    """Run as many trials as given, by Optuna's tree-structured Parzen estimator, both on a logarithmic scale.

    Between the ends of ``THRESHOLDS_B``, whole KiB, and of ``cycles_fs``, whole microseconds, so that what is found can
    be written down. UsageError where Optuna is not installed.
    """
    if find_spec("optuna") is None:
        expected = "the extra 'sweep' (pip install 'accelsim[sweep]'), or a grid"
        raise UsageError(Problem("Optuna is not installed", "tune", expected))
    import optuna

    done: list[Trial] = []

    def objective(asked: OptunaTrial) -> float:
        threshold_KiB = asked.suggest_int(
            "threshold_KiB", THRESHOLDS_B[0] // KIB, THRESHOLDS_B[-1] // KIB, log=True
        )
        first_us, last_us = (cycles_fs[place] // MICROSECOND_FS for place in (0, -1))
        cycle_us = asked.suggest_int("cycle_us", first_us, last_us, log=True)
        done.append(tuning.attempt(threshold_KiB * KIB, cycle_us * MICROSECOND_FS))
        return float(done[-1].exposed_fs)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=trials)
    return _tuned(done)


def best(tuning: Tunable, cycles_fs: Sequence[int] = CYCLES_FS) -> tuple[Tuned, str]:
    """Return what ``search`` finds where Optuna is installed, else ``grid``; and by what it was found, in words."""
    if find_spec("optuna") is not None:
        return search(tuning, cycles_fs=cycles_fs), "Optuna"
    return grid(tuning, cycles_fs=cycles_fs), "a grid (Optuna, of the extra 'sweep', is not installed)"


def _tuned(trials: Sequence[Trial]) -> Tuned:
    return Tuned(tuple(trials), min(trials, key=lambda trial: (trial.exposed_fs, trial.buckets)))


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
    played = Step(planned, made.options, made.batch).played
    stages = synced(planned, played, made.options)
    ends = [max(int(pipe.end_fs[p][-1]) for pipe in played) for p in range(plan.pp)]
    updates = [stage.updated_fs - stage.reduced_fs for stage in stages]
    bare_fs = max(end + update for end, update in zip(ends, updates, strict=True))
    return StepTuning(planned, played, made.options, bare_fs)
