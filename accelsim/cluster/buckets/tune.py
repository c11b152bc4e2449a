"""Search for the best threshold and cycle time: neither small buckets (latency) nor large ones (nothing overlaps).

A grid needs nothing more; ``search`` asks Optuna (extra ``sweep``); ``best`` takes what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, Protocol

from accelsim.cluster.buckets.base import MILLISECOND_FS, Fusion, Gradient
from accelsim.cluster.buckets.overlap import Cost, overlap
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
