"""Spaces: a sweep file, its axes and its points. What changes together is one axis: 'matrix.rows,matrix.cols'."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from typing import Annotated, Literal, NamedTuple

import numpy as np

from accelsim.errors import Problem, UsageError, nearest
from accelsim.explore.sweep.kinds import KINDS
from accelsim.explore.sweep.point import Point
from accelsim.seeds import generator
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
    """A sample of the points of a space."""

    points: Count = Field(description="how many")
    by: Literal["random", "latin"] = Field("random", description="`random`, or a Latin hypercube")
    seed: Seed = Field(0, description="seed of the draws")


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
    found = [Axis((name,), tuple(_listed(getattr(sweep, name)))) for name in ("model", "on")]
    found += [
        Axis(tuple(part.strip() for part in names.split(",")), tuple(values)) for names, values in sweep.axes.items()
    ]
    problems = [
        Problem(f"axis {axis.title!r} has no value", "axes", "one or more") for axis in found if not axis.values
    ]
    seen: set[str] = set()
    for axis in found:
        problems += [
            Problem(f"{name!r} is on two axes", "axes", "one axis each") for name in axis.names if name in seen
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
    if problems:
        raise UsageError(problems)
    return found


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else [value]


def size_of(sweep: Sweep) -> int:
    """Return how many points a sweep has, without making them."""
    whole = prod(len(axis.values) for axis in axes_of(sweep))
    return whole if sweep.draw is None else min(whole, sweep.draw.points)


def points_of(sweep: Sweep) -> Iterator[Point]:
    """Yield the points of a sweep in a fixed order: the last axis changes fastest, or as they are drawn."""
    axes = axes_of(sweep)
    for chosen in _choices(axes, sweep.draw):
        yield _point(sweep, {axis.names: value for axis, value in zip(axes, chosen, strict=True)})


def _choices(axes: list[Axis], draw: Draw | None) -> Iterator[tuple[object, ...]]:
    if draw is None:
        yield from product(*(axis.values for axis in axes))
        return
    random = generator(draw.seed)
    count = min(draw.points, prod(len(axis.values) for axis in axes))
    seen: set[tuple[int, ...]] = set()
    columns = [_column(random, len(axis.values), count, draw.by) for axis in axes]
    rows = list(zip(*columns, strict=True))
    while rows and len(seen) < count:
        for row in rows:
            if row not in seen and len(seen) < count:
                seen.add(row)
                yield tuple(axis.values[at] for axis, at in zip(axes, row, strict=True))
        rows = list(zip(*(_column(random, len(axis.values), count, "random") for axis in axes), strict=True))


def _column(random: np.random.Generator, values: int, count: int, by: str) -> list[int]:
    """Indices of the values of an axis for ``count`` points; of a Latin hypercube each value equally often."""
    if by == "latin":
        return [int(at) for at in random.permutation(np.arange(count) * values // count)]
    return [int(at) for at in random.integers(0, values, count)]


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
