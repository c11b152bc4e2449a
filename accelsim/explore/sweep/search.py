"""Searches of a space by Optuna: it asks for points, and is told what came of them. All draws follow from the seed, so
a search that was stopped asks for the same points again, and finds their outcomes in the store."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from accelsim.explore.sweep.fronts import OBJECTIVES
from accelsim.explore.sweep.point import quick_key
from accelsim.explore.sweep.space import Axis, Draw, Sweep, axes_of, point_of
from accelsim.explore.sweep.store import Member, Store
from accelsim.explore.sweep.work import Progress, Workers

BATCH = 8
"""Points that are asked for before any of them has an outcome, however many workers there are."""
NUMBER = re.compile(r"\s*[-+]?\.?\d")


Figures = Callable[[Member], Sequence[float]]


def search(
    sweep: Sweep, store: Store, name: str, workers: Workers, told: Progress, figures: Figures, over: Figures
) -> int:
    """Run a search, whose points become those of the study ``name``; return how many were run.

    ``figures``: the objectives of a point, NaN where there is none. ``over``: how far it lies beyond each limit, below
    0 within. It needs Optuna.
    """
    assert sweep.draw is not None
    axes, count, ran = axes_of(sweep), sweep.draw.points or 0, 0
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna calls constraints experimental
        study = optuna.create_study(
            sampler=_sampler(optuna, sweep.draw, bool(sweep.limits)),
            directions=["maximize" if OBJECTIVES[each].most else "minimize" for each in sweep.objectives],
        )
        spaces = {str(at): _space(optuna, axis) for at, axis in enumerate(axes)}
        for first in range(0, count, BATCH):
            trials = [study.ask(spaces) for _ in range(min(BATCH, count - first))]
            points = [point_of(sweep, axes, [trial.params[at] for at in spaces]) for trial in trials]
            tasks = [(point, quick_key(point)) for point in points]
            store.extend(name, first, tasks)
            ran += workers.run(tasks, partial(_later, told, first, count))
            for trial, member in zip(trials, store.members(name, first), strict=True):
                _tell(optuna, study, trial, figures(member), over(member))
    return ran


def _later(told: Progress, first: int, count: int, done: int, _: int) -> None:
    told(first + done, count)


def _tell(optuna: Any, study: Any, trial: Any, figures: Sequence[float], over: Sequence[float]) -> None:
    """Tell the figures of a point, or that it has failed."""
    if all(value == value for value in (*figures, *over)):
        trial.set_user_attr("over", list(over))
        study.tell(trial, list(figures))
    else:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)


def _sampler(optuna: Any, draw: Draw, limited: bool) -> Any:
    limits = {"constraints_func": _over} if limited else {}
    if draw.by == "nsga2":
        return optuna.samplers.NSGAIISampler(seed=draw.seed, **limits)
    return optuna.samplers.TPESampler(seed=draw.seed, constant_liar=True, **limits)


def _over(trial: Any) -> Sequence[float]:
    found: Sequence[float] = trial.user_attrs["over"]
    return found


def _space(optuna: Any, axis: Axis) -> Any:
    """Numbers of the values: in their order where all begin with a digit, else as categories."""
    last = len(axis.values) - 1
    if all(NUMBER.match(str(value)) for value in axis.values):
        return optuna.distributions.IntDistribution(0, last)
    return optuna.distributions.CategoricalDistribution(list(range(last + 1)))
