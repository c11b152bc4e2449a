"""Search for the best threshold and cycle time: small buckets cost latency, large ones overlap with nothing.

A grid needs nothing more; ``search`` asks Optuna (extra ``sweep``); ``best`` takes what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from accelsim.cluster.buckets import MILLISECOND_FS, POLICIES, Fusion, policy
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.asked import Ready
from accelsim.cluster.step.flushed import FlushedStep
from accelsim.cluster.step.gradients import synced
from accelsim.cluster.step.ops import Planned
from accelsim.errors import Gather, UsageError

if TYPE_CHECKING:
    from optuna.trial import Trial as OptunaTrial

KIB, MICROSECOND_FS = 2**10, 10**9
THRESHOLDS_B = tuple(2**power for power in range(16, 31))
"""64 KiB to 1 GiB."""
CYCLES_FS = tuple(MILLISECOND_FS * 2**power // 8 for power in range(11))
"""0.125 to 128 ms."""


class Trial(NamedTuple):
    """A tried fusion, the time it leaves exposed, and its buckets."""

    fusion: Fusion
    exposed_fs: int
    buckets: int


class Tuned(NamedTuple):
    """All trials in order; ``best`` has the least exposed time, and among equals the fewest buckets."""

    trials: tuple[Trial, ...]
    best: Trial


Attempt = Callable[[int | None, int], Trial]
"""(threshold in bytes, cycle time in fs) -> what comes of that choice."""


def grid(attempt: Attempt, thresholds_B: Sequence[int] = THRESHOLDS_B, cycles_fs: Sequence[int] = CYCLES_FS) -> Tuned:
    """Try all pairs, thresholds outermost. Raises UsageError if there is nothing to try."""
    if not thresholds_B or not cycles_fs:
        raise UsageError("nothing to try", "tune", "at least one threshold and one cycle time")
    return _tuned([attempt(*pair) for pair in product(thresholds_B, cycles_fs)])


def search(attempt: Attempt, trials: int = 60, seed: int = 0, cycles_fs: Sequence[int] = CYCLES_FS) -> Tuned:
    """Run as many trials as given, by Optuna's tree-structured Parzen estimator, both on a logarithmic scale.

    Between the ends of ``THRESHOLDS_B``, whole KiB, and of ``cycles_fs``, whole microseconds, so that what is found can
    be written down. UsageError where Optuna is not installed.
    """
    if find_spec("optuna") is None:
        expected = "the extra 'sweep' (pip install 'accelsim[sweep]'), or a grid"
        raise UsageError("Optuna is not installed", "tune", expected)
    import optuna

    done: list[Trial] = []

    def objective(asked: OptunaTrial) -> float:
        threshold_KiB = asked.suggest_int("threshold_KiB", THRESHOLDS_B[0] // KIB, THRESHOLDS_B[-1] // KIB, log=True)
        first_us, last_us = (cycles_fs[place] // MICROSECOND_FS for place in (0, -1))
        cycle_us = asked.suggest_int("cycle_us", first_us, last_us, log=True)
        done.append(attempt(threshold_KiB * KIB, cycle_us * MICROSECOND_FS))
        return float(done[-1].exposed_fs)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=trials)
    return _tuned(done)


def best(attempt: Attempt, cycles_fs: Sequence[int] = CYCLES_FS) -> tuple[Tuned, str]:
    """Return the outcome of ``search`` where Optuna is installed, else of ``grid``; and the method in words."""
    if find_spec("optuna") is not None:
        return search(attempt, cycles_fs=cycles_fs), "Optuna"
    return grid(attempt, cycles_fs=cycles_fs), "a grid (Optuna, of the extra 'sweep', is not installed)"


def _quality(trial: Trial) -> tuple[int, int]:
    return trial.exposed_fs, trial.buckets


def _tuned(trials: Sequence[Trial]) -> Tuned:
    return Tuned(tuple(trials), min(trials, key=_quality))


EVERY = 3
"""One line of the picture for so many thresholds."""
SENT = ("all_reduce", "reduce_scatter")
"""Collectives of buckets."""


class TunedStep(NamedTuple):
    """A finished search. ``by``: the method, in words; ``asked``: the step as requested; ``thresholds``: all of them at
    the best cycle time; ``cycles``: all cycle times at the best threshold (empty for policies without one); ``grid``:
    for the picture; ``bare_fs``: the step with nothing to send after its passes."""

    by: str
    tried: int
    asked: Trial
    best: Trial
    thresholds: tuple[Trial, ...]
    cycles: tuple[Trial, ...]
    grid: Tuned
    bare_fs: int

    def time_fs(self, trial: Trial) -> int:
        """Return the time of the step with a choice."""
        return self.bare_fs + trial.exposed_fs


def tuned(made: Ready) -> TunedStep:
    """Find the best threshold and cycle time of the requested policy. Raises UsageError for one replica, for policies
    with nothing to choose, and for gradients that are sent after everything."""
    _check(made)
    options, fusion = made.options, made.options.gradients
    planned = Planned(*made)
    played = FlushedStep(planned).played
    bare_fs = max(
        max(int(pipe.end_fs[p][-1]) for pipe in played) + stage.updated_fs - stage.reduced_fs
        for p, stage in enumerate(synced(planned, played, options))
    )

    def attempt(threshold_B: int | None, cycle_fs: int) -> Trial:
        """Play the end of the step again: how much longer it is for its collectives of replicas and of the embedding,
        and the buckets of the stage that has most."""
        tried = replace(fusion, threshold_B=threshold_B, cycle_fs=cycle_fs)
        stages = synced(planned, played, replace(options, gradients=tried))
        buckets = max(sum(what in SENT for _, _, what in stage.busy) for stage in stages)
        return Trial(tried, max(stage.done_fs for stage in stages) - bare_fs, buckets)

    with_cycle = "cycle_fs" in policy(fusion.policy).reads
    cycles_fs = CYCLES_FS if with_cycle else (fusion.cycle_fs,)
    found, by = best(attempt, cycles_fs)
    asked = attempt(fusion.threshold_B, fusion.cycle_fs)
    one = min((asked, found.best), key=_quality)
    threshold_B = policy(fusion.policy).limit_B(one.fusion)
    one = one._replace(fusion=replace(one.fusion, threshold_B=threshold_B))
    thresholds = sorted({*THRESHOLDS_B, threshold_B})
    cycles = sorted({*CYCLES_FS, one.fusion.cycle_fs})
    lines = sorted({*THRESHOLDS_B[::EVERY], threshold_B}) if with_cycle else THRESHOLDS_B
    around = (
        grid(attempt, thresholds, (one.fusion.cycle_fs,)).trials,
        grid(attempt, (threshold_B,), cycles).trials if with_cycle else (),
    )
    drawn = Tuned(grid(attempt, lines, cycles_fs).trials, one)
    return TunedStep(by, len(found.trials), asked, one, *around, drawn, bare_fs)


def _check(made: Ready) -> None:
    plan, name, gather = made.plan, made.options.gradients.policy, Gather()
    gather.refuse(plan.dp < 2, f"nothing to add up with {plan}", "tune", "two replicas or more")
    flushes = schedule(plan.schedule).synchronous
    gather.refuse(not flushes, f"nothing to choose with {plan.schedule}", "tune", "a schedule that flushes")
    scattered = f"nothing to choose with zero={plan.zero}, which scatters gradients layer by layer"
    gather.refuse(plan.shares_gradients, scattered, "tune", "zero=0 or 1")
    tunable = " or ".join(each for each, entry in POLICIES.items() if entry.reads)
    fixed = not policy(name).reads or not made.options.overlap
    gather.refuse(fixed, f"nothing to choose with policy {name}", "tune", tunable)
    gather.done()
