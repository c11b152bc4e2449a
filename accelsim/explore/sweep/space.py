"""Spaces: a sweep file, its axes and its points. What changes together is one axis: 'matrix.rows,matrix.cols'."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated, Literal, NamedTuple

from accelsim.errors import Problem, UsageError, nearest
from accelsim.explore.sweep.designs import DESIGNS, Asked, Base
from accelsim.explore.sweep.kinds import KINDS, text_problems
from accelsim.explore.sweep.point import Point
from accelsim.spec.base import Model
from accelsim.spec.counts import Words
from accelsim.spec.declaring import Field

MANY = 200_000
"""Points beyond which a sweep asks first."""
Count = Annotated[int, Field(ge=1, le=10**6)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Setting = Annotated[str | int | float | bool, Field()]
"""A value of an axis or an option."""


class Draw(Model):
    """Some points of a space."""

    points: Count | None = Field(None, description="how many; with `morris` and `sobol`: groups of them")
    by: Literal["random", "latin", "one-at-a-time", "morris", "sobol", "tpe", "nsga2"] = Field(
        "random",
        description="at random, a Latin hypercube, changes around a base, sensitivities (SALib), a search (Optuna)",
    )
    seed: Seed = Field(0, description="seed of the draws")
    base: Base = Field("middle", description="values that `one-at-a-time` starts from")


class Sweep(Model):
    """A sweep file: one model or several, on one chip or several, with axes."""

    model: str | list[str] = Field(description="model, or several")
    on: str | list[str] = Field(description="chip, or several")
    options: dict[str, Setting] = Field({}, description="options of every run, as of `accelsim.run`")
    axes: dict[str, list[Setting]] = Field(
        {}, description="field of the spec or option of a run -> its values; several fields with commas change together"
    )
    draw: Draw | None = Field(None, description="draw points instead of taking all")
    objectives: list[Words] = Field(["latency", "energy"], description="what to make small, the first two drawn")
    limits: dict[Words, Setting] = Field({}, description="objective -> its limit")


class Axis(NamedTuple):
    """An axis: the ``names`` that change together, and their values."""

    names: tuple[str, ...]
    values: tuple[object, ...]

    @property
    def title(self) -> str:
        """The names with commas between them."""
        return ",".join(self.names)


OPTIONS = frozenset().union(*(kind.takes for kind in KINDS.values())) - {"set"}
"""Options of a run, which an axis may have beside fields of the spec."""


def axes_of(sweep: Sweep) -> list[Axis]:
    """Return the axes, models and chips first. Raises UsageError with all that is wrong with them."""
    found = [Axis((name,), tuple(listed(getattr(sweep, name)))) for name in ("model", "on")]
    found += [
        Axis(tuple(part.strip() for part in names.split(",")), tuple(values)) for names, values in sweep.axes.items()
    ]
    problems = [
        Problem(f"axis {axis.title!r} has no value", "axes", "one or more") for axis in found if not axis.values
    ]
    problems += [
        Problem(f"axis {axis.title!r} has {value} twice", "axes", "each value once")
        for axis in found
        for value, times in Counter(map(str, axis.values)).items()
        if times > 1
    ]
    problems += [
        Problem(f"{name!r} is an option and an axis", "options", "one of both")
        for axis in found
        for name in dict.fromkeys(axis.names)
        if name in sweep.options
    ]
    seen: set[str] = set()
    for axis in found:
        problems += [
            Problem(f"{name!r} is on two axes", "axes", "one axis each")
            for at, name in enumerate(axis.names)
            if name in seen or name in axis.names[:at]
        ]
        problems += [
            Problem(
                f"{name!r} is no option",
                "axes",
                f"a field of the spec, or one of {', '.join(sorted(OPTIONS))}",
                nearest(name, OPTIONS),
            )
            for name in axis.names[:1]
            if axis not in found[:2] and "." not in name and name not in OPTIONS and nearest(name, OPTIONS)
        ]
        seen |= set(axis.names)
    problems += [
        Problem(f"{name!r} is no option of a run", "options", "", nearest(name, OPTIONS))
        for name in sweep.options
        if name not in OPTIONS
    ]
    stated: dict[str, Sequence[object]] = {name: [value] for name, value in sweep.options.items()}
    stated |= {name: axis.values for axis in found for name in axis.names}
    problems += [
        replace(each, where=f"{'options' if name in sweep.options else 'axes'}: {name}")
        for name, each in text_problems(stated)
    ]
    if sweep.draw is not None and sweep.draw.points is None and sweep.draw.by != "one-at-a-time":
        problems.append(Problem(f"nothing says how many points {sweep.draw.by!r} takes", "draw", "points: N"))
    count = sweep.draw.points or 1 if sweep.draw is not None else 1
    if sweep.draw is not None and sweep.draw.by == "sobol" and count & (count - 1):
        problems.append(Problem(f"{count:,} groups of points", "draw", "points: a power of two, which 'sobol' needs"))
    if sweep.draw is not None and not (design := DESIGNS[sweep.draw.by]).is_there:
        problems.append(Problem(f"{design.needs} is not installed", "draw", "'pip install accelsim[sweep]'"))
    if problems:
        raise UsageError(problems)
    return found


def listed(names: str | list[str]) -> list[str]:
    """Return one name as a list, several as they are."""
    return [names] if isinstance(names, str) else names


def asked_of(sweep: Sweep, axes: Sequence[Axis]) -> Asked:
    """Return what the design of a sweep rests on."""
    draw = sweep.draw or Draw()
    return Asked([len(axis.values) for axis in axes], draw.points or 0, draw.seed, draw.base)


def size_of(sweep: Sweep) -> int:
    """Return how many points a sweep has, without making them."""
    asked = asked_of(sweep, axes_of(sweep))
    return asked.whole if sweep.draw is None else DESIGNS[sweep.draw.by].size(asked)


def points_of(sweep: Sweep) -> Iterator[Point]:
    """Yield the points of a sweep in a fixed order: the last axis changes fastest, or as they are drawn. A search
    (``DESIGNS`` without rows) has none before it runs."""
    axes = axes_of(sweep)
    asked = asked_of(sweep, axes)
    drawn = None if sweep.draw is None else DESIGNS[sweep.draw.by].rows
    for row in product(*map(range, asked.sizes)) if drawn is None else drawn(asked):
        yield point_of(sweep, axes, row)


def is_search(sweep: Sweep) -> bool:
    """Return whether points follow from the results of others."""
    return sweep.draw is not None and DESIGNS[sweep.draw.by].rows is None


def point_of(sweep: Sweep, axes: Sequence[Axis], row: Sequence[int]) -> Point:
    """Return the point with these numbers of values on its axes."""
    return _point(sweep, {axis.names: axis.values[at] for axis, at in zip(axes, row, strict=True)})


def _typed(value: object) -> object:
    """A number or truth value where the text of the file is one."""
    try:
        return json.loads(str(value).lower() if isinstance(value, bool) else str(value))
    except ValueError:
        return value


def _point(sweep: Sweep, chosen: Mapping[tuple[str, ...], object]) -> Point:
    options: dict[str, object] = {"values": "off"}
    options |= {name: _typed(value) for name, value in sweep.options.items()}
    overrides = []
    for names, value in chosen.items():
        for name in names:
            if name in OPTIONS:
                options[name] = _typed(value)
            elif name not in ("model", "on"):
                overrides.append(f"{name}={value}")
    if overrides:
        options["set"] = overrides
    return Point.of(str(chosen[("model",)]), str(chosen[("on",)]), options)
