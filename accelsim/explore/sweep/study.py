"""Studies: a sweep run into a store, and what the store says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter

import numpy as np

from accelsim.account.price import DAY_S
from accelsim.errors import Gather, Problem, SpecError, UsageError, nearest
from accelsim.explore.sweep import work
from accelsim.explore.sweep.designs import DESIGNS, METHODS, sensitivities
from accelsim.explore.sweep.fronts import OBJECTIVES, UNITS, Effect, Objective, effects, knee, on_front
from accelsim.explore.sweep.point import DONE, Point, outcome, quick_key
from accelsim.explore.sweep.pricing import pricing
from accelsim.explore.sweep.search import search
from accelsim.explore.sweep.space import MANY, Sweep, asked_of, axes_of, is_search, listed, points_of, size_of
from accelsim.explore.sweep.store import Member, Store
from accelsim.limits import read_limits
from accelsim.spec.yaml.clusters import is_cluster
from accelsim.spec.yaml.instances import INSTANCE, load_providers, named
from accelsim.spec.yaml.where import resolve
from accelsim.types import Bools, Floats
from accelsim.workload.sources.load import check_there

MOST = 10**7
"""Points beyond which no sweep runs: the list of them fills the memory."""


@dataclass(frozen=True)
class Study:
    """Points of a sweep with their outcomes. ``axes``: what differs between points -> its values, point by point.

    ``sweep``: the file that they come from, where there is one.
    """

    name: str
    members: Sequence[Member]
    axes: Mapping[str, Sequence[str]]
    objectives: Sequence[str]
    limits: Mapping[str, float]
    sweep: Sweep | None = None

    def values(self, objective: str) -> Floats:
        """Figures of an objective by point, NaN where there is none."""
        key = OBJECTIVES[objective].key
        found = [float("nan")] * len(self.members)
        for at, member in enumerate(self.members):
            figure = member.outcome.facts.get(key) if member.outcome is not None else None
            if isinstance(figure, int | float):
                found[at] = float(figure)
        return np.array(found, dtype=np.float64)

    def small(self, objective: str) -> Floats:
        """Figures of an objective by point, inverted where large ones are good."""
        values = self.values(objective)
        return np.asarray(1 / values) if OBJECTIVES[objective].most else values

    def _costs(self, objective: str) -> Floats:
        """Return the figures with a sign that makes small ones good."""
        sign = -1.0 if OBJECTIVES[objective].most else 1.0
        return np.asarray(sign * self.values(objective), dtype=np.float64)

    @property
    def within(self) -> Bools:
        """Return which points have figures and keep all limits."""
        kept = np.array([member.outcome is not None and member.outcome.status == DONE for member in self.members])
        for over in self.over.values():
            kept &= over <= 1
        return np.asarray(kept, dtype=np.bool_)

    @property
    def over(self) -> dict[str, Floats]:
        """Figures by limit, as a multiple of it, or for what is to be large the other way round: above 1 beyond it."""
        found = {}
        for name, limit in self.limits.items():
            ratio = self.values(name) / limit
            found[name] = np.asarray(1 / ratio if OBJECTIVES[name].most else ratio, dtype=np.float64)
        return found

    @cached_property
    def front(self) -> list[int]:
        """Numbers of the points within the limits that no other beats in all objectives, by the first one; those
        that are one run once."""
        within = np.flatnonzero(self.within)
        if not len(within):
            return []
        costs = np.column_stack([self._costs(each)[within] for each in self.objectives])
        first = self._costs(self.objectives[0])
        found = sorted((int(at) for at in within[on_front(costs)]), key=lambda at: (first[at], at))
        once: dict[str, int] = {}
        for at in found:
            outcome = self.members[at].outcome
            assert outcome is not None
            once.setdefault(outcome.key, at)
        return list(once.values())

    @property
    def design(self) -> str:
        """Name of the design by which the points were drawn, '' for all of a space."""
        return "" if self.sweep is None or self.sweep.draw is None else self.sweep.draw.by

    @property
    def effects(self) -> dict[str, list[Effect]]:
        """Effects of each axis by objective: main effects, or those around the base point of a design with one."""
        around = 0 if self.design == "one-at-a-time" else None
        return {name: effects(self.axes, self.small(name), around) for name in self.objectives}

    def sensitivities(self, objective: str) -> tuple[dict[str, dict[str, float]], int]:
        """Return the figures of each axis on an objective by a design of ``METHODS``, and the groups of points that are
        left out; nothing for other designs, without SALib, or before all points have run."""
        if self.sweep is None or self.design not in METHODS or not DESIGNS[self.design].is_there:
            return {}, 0
        axes = axes_of(self.sweep)
        found, without = sensitivities(self.design, asked_of(self.sweep, axes), self.values(objective))
        return {axes[axis].title: figures for axis, figures in found.items()}, without

    @cached_property
    def knee(self) -> int | None:
        """The point of the front that is best in all objectives together; None where the front is too short."""
        if len(self.front) < 3 or len(self.objectives) < 2:
            return None
        return self.front[knee(np.column_stack([self.small(name)[self.front] for name in self.objectives]))]


def read_sweep(source: Path | Mapping[str, object]) -> Sweep:
    """Return the sweep of a YAML file, or of its content.

    Raises SpecError with all problems and their places, and an error with all unknown models and chips.
    """
    from accelsim.spec.yaml.load import sorted_problems
    from accelsim.spec.yaml.marks import parse, read
    from accelsim.spec.yaml.tree import BROKEN
    from accelsim.spec.yaml.validate import validate

    if isinstance(source, Path):
        tree = read(source, Sweep)
    else:
        tree = parse(json.dumps(source, default=str), Path("sweep"), Sweep)
    if tree.value == BROKEN:
        raise SpecError(tree.problems)
    made, problems, _ = validate(tree, Sweep)
    if tree.problems or problems:
        raise SpecError(sorted_problems([*tree.problems, *problems]))
    _check(made)
    return made


def _check(sweep: Sweep) -> None:
    """Raise an error for all that is wrong between fields, and for unknown models, chips and instances; files of chips
    are checked point by point."""
    gather = Gather()
    gather.refuse(not sweep.objectives, "no objective", "objectives", f"one or more of {', '.join(OBJECTIVES)}")
    gather.check(sweep.objectives, check_objectives)
    gather.check(sweep, limits_of, axes_of)
    for model in listed(sweep.model):
        with gather.also():
            check_there(model)
    for on in listed(sweep.on):
        with gather.also():
            if instance := INSTANCE.fullmatch(on):
                named(instance[2], load_providers())
            elif ":" not in on and not on.endswith((".yaml", ".yml")) and not is_cluster(on):
                resolve(on)
    gather.done()


def limits_of(sweep: Sweep) -> dict[str, float]:
    """Return the limits of a sweep file by objective. Raises UsageError with all problems."""
    return read_limits([f"{name}={value}" for name, value in sweep.limits.items()], UNITS, "limits")


def check_size(sweep: Sweep, place: str, workers: int = 1, yes: bool = False) -> None:
    """Refuse an empty sweep and one that is too large, with the time that it would take, which the first point tells;
    ``yes``: only one that no store could hold. Raises UsageError."""
    count = size_of(sweep)
    if count <= MANY or (yes and count <= MOST):
        return
    if yes:
        raise UsageError(f"{count:,} points", place, f"at most {MOST:,}, or 'draw:' in the file")
    begun = perf_counter()
    found = outcome(next(points_of(sweep)))
    each_s = perf_counter() - begun
    lasts = f"{each_s * count / workers / DAY_S:,.1f} days"
    how = f"measured on the first, which is {found.status!r}"
    what = f"{count:,} points take about {lasts} with --workers {workers} ({each_s:.2g} s each, {how})"
    raise UsageError(what, place, f"at most {MANY:,}, 'draw:' in the file, or --yes")


def run_sweep(
    sweep: Sweep,
    store: Store,
    name: str,
    workers: int = 1,
    dask: str = "",
    told: work.Progress = lambda done, every: None,
    prices: Path | None = None,
) -> int:
    """Run all points of a sweep that the store lacks, and keep them; return how many were run."""
    tasks = [] if is_search(sweep) else [(point, quick_key(point)) for point in points_of(sweep)]
    with work.Workers(store, workers, dask) as ready:
        store.begin(name, sweep.model_dump_json(), tasks)
        if not is_search(sweep):
            return ready.run(tasks, told)
        priced, limits = pricing(prices), limits_of(sweep)

        def alone(member: Member) -> Study:
            return Study(name, [priced(member)], {}, sweep.objectives, limits)

        return search(
            sweep, store, name, ready, told,
            lambda member: [float(alone(member).values(each)[0]) for each in sweep.objectives],
            lambda member: [float(over[0]) - 1 for over in alone(member).over.values()],
        )  # fmt: skip


def read_study(
    store: Store,
    name: str = "",
    objectives: Sequence[str] = (),
    limits: Mapping[str, float] | None = None,
    prices: Path | None = None,
) -> Study:
    """Return a study of a store; ``name`` may be left out where there is one. ``objectives`` stand in for those of the
    sweep; points beyond ``limits`` are on no front. ``prices``: the user's own file of prices, before those that ship.

    Raises UsageError for an unknown study, objective or an empty store, with the nearest name.
    """
    studies = store.studies()
    if not name and len(studies) == 1:
        name = next(iter(studies))
    if name not in studies:
        what = f"no study {name!r}" if name else "which study?" if studies else "the store holds no study"
        raise UsageError(what, "--study", f"one of {', '.join(studies)}" if studies else "", nearest(name, studies))
    from pydantic import ValidationError

    try:
        sweep = Sweep.model_validate_json(studies[name])
    except ValidationError as error:
        fields = ", ".join(dict.fromkeys(".".join(map(str, each["loc"])) or "all of it" for each in error.errors()))
        what = f"study {name!r} is of another version of accelsim; unknown: {fields}"
        raise UsageError(what, "--study", "a study that this version wrote") from None
    wanted = list(objectives or sweep.objectives)
    kept = limits or limits_of(sweep)
    check_objectives(wanted)
    check_objectives(list(kept), "limits")
    members = list(map(pricing(prices), store.members(name)))
    return Study(name, members, _axes([member.point for member in members]), wanted, kept, sweep)


def check_objectives(names: Sequence[str], place: str = "objectives") -> list[Objective]:
    """Return the objectives of these names. Raises UsageError with all that are unknown at ``place``, and the
    nearest, and with those that come twice."""
    problems = [
        Problem(f"{name!r} is there twice", place, "each objective once")
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    problems += [
        Problem(f"no objective {name!r}", place, f"one of {', '.join(OBJECTIVES)}", nearest(name, OBJECTIVES))
        for name in names
        if name not in OBJECTIVES
    ]
    if problems:
        raise UsageError(problems)
    return [OBJECTIVES[name] for name in names]


def _axes(points: Sequence[Point]) -> dict[str, list[str]]:
    """Return axes with their values by point; fields that always change together are one axis."""
    rows = [_settings(point) for point in points]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name, "") for row in rows] for name in names}
    varied = {name: values for name, values in columns.items() if len(set(values)) > 1}
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, values in varied.items():
        groups.setdefault(tuple(values), []).append(name)
    return {",".join(group): list(values) for values, group in groups.items()}


def _settings(point: Point) -> dict[str, str]:
    options = json.loads(point.options)
    overrides = dict(text.partition("=")[::2] for text in options.pop("set", []))
    named = {name: str(value) for name, value in options.items()}
    return {"model": point.model, "on": point.on, **named, **overrides}
