"""Designs: which points of a space a sweep takes. A point is a row of indices, one for the values of each axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from math import prod
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from accelsim.seeds import generator
from accelsim.types import Floats

Row: TypeAlias = tuple[int, ...]
Base = Literal["middle", "first"]
LEVELS = 4
"""Levels of an axis in the trajectories of Morris, as SALib proposes."""
CONFIDENCE = 0.9
"""Confidence of the intervals of Sobol's indices."""


class Asked(NamedTuple):
    """Numbers of values of each axis, points asked for, a seed, and the values that changes start from."""

    sizes: Sequence[int]
    points: int
    seed: int
    base: Base

    @property
    def varied(self) -> list[int]:
        """Axes with more than one value."""
        return [at for at, size in enumerate(self.sizes) if size > 1]

    @property
    def whole(self) -> int:
        """Points of the whole space."""
        return prod(self.sizes)


def _sample(asked: Asked, latin: bool) -> Iterator[Row]:
    """Different points at random; the first ones of a Latin hypercube have each value of an axis equally often."""
    random = generator(asked.seed)
    count = min(asked.points, asked.whole)
    seen: set[Row] = set()
    while len(seen) < count:
        for row in zip(*(_column(random, size, count, latin and not seen) for size in asked.sizes), strict=True):
            if row not in seen and len(seen) < count:
                seen.add(row)
                yield row


def _column(random: np.random.Generator, values: int, count: int, latin: bool) -> list[int]:
    if latin:
        return [int(at) for at in random.permutation(np.arange(count) * values // count)]
    return [int(at) for at in random.integers(0, values, count)]


def _one_at_a_time(asked: Asked) -> Iterator[Row]:
    """The base point, then each other value of each axis with all others at the base."""
    base = tuple(size // 2 if asked.base == "middle" else 0 for size in asked.sizes)
    yield base
    for axis, size in enumerate(asked.sizes):
        yield from ((*base[:axis], at, *base[axis + 1 :]) for at in range(size) if at != base[axis])


class Method(NamedTuple):
    """A method of SALib for sensitivities: points of one of its groups beyond one for each varied axis, names of its
    figures -> ours, and the options of its sample and of its analysis."""

    beyond: int
    figures: Mapping[str, str]
    options: Mapping[str, object]


METHODS = {
    "morris": Method(1, {"mu_star": "mu_star", "sigma": "sigma"}, {"num_levels": LEVELS}),
    "sobol": Method(
        2,
        {"S1": "first", "S1_conf": "first_plus_minus", "ST": "total", "ST_conf": "total_plus_minus"},
        {"calc_second_order": False},
    ),
}
"""Methods by the names of their designs: trajectories of Morris, on which one axis changes after the other; Saltelli's
groups of points, which give Sobol's indices."""


def _places(by: str, asked: Asked) -> Floats:
    """Return places from 0 to 1 on the varied axes, group by group; groups x points x axes. They need SALib."""
    sample = import_module(f"SALib.sample.{by}").sample
    found = sample(_problem(asked), asked.points, **METHODS[by].options, seed=asked.seed)
    return np.asarray(found, dtype=np.float64).reshape(asked.points, -1, len(asked.varied))


def _salib(by: str) -> Callable[[Asked], Iterator[Row]]:
    def rows(asked: Asked) -> Iterator[Row]:
        for places in _places(by, asked).reshape(-1, len(asked.varied)) if asked.varied else np.zeros((1, 0)):
            row = [0] * len(asked.sizes)
            for axis, place in zip(asked.varied, places, strict=True):
                row[axis] = min(int(place * asked.sizes[axis]), asked.sizes[axis] - 1)
            yield tuple(row)

    return rows


def _salib_size(by: str) -> Callable[[Asked], int]:
    return lambda asked: asked.points * (len(asked.varied) + METHODS[by].beyond) if asked.varied else 1


def sensitivities(by: str, asked: Asked, objective: Floats) -> tuple[dict[int, dict[str, float]], int]:
    """Return the figures of each varied axis on the logarithm of an objective, the axis with the largest first, and the
    number of groups left out, as points of them have no figure. They need SALib.

    Of Morris: mean size and spread of the change over a whole axis. Of Sobol: the shares of the variance that the axis
    causes alone and in all, with half the widths of their 90 % intervals.
    """
    method, places = METHODS[by], _places(by, asked)
    logs = np.log(objective).reshape(places.shape[:2])
    whole = np.asarray(np.isfinite(logs).all(axis=1), dtype=np.bool_)
    if not whole.any():
        return {}, len(whole)
    found: Mapping[str, object] = {}
    if by == "morris" or np.ptp(logs[whole]):
        given = [places[whole].reshape(-1, places.shape[2])] if by == "morris" else []
        analyze = import_module(f"SALib.analyze.{by}").analyze
        found = analyze(
            _problem(asked), *given, logs[whole].ravel(), **method.options, conf_level=CONFIDENCE, seed=asked.seed
        )
    columns = {
        ours: np.nan_to_num(np.asarray(found.get(theirs, np.zeros(places.shape[2])), dtype=np.float64))
        for theirs, ours in method.figures.items()
    }
    rows = {axis: {name: float(own[at]) for name, own in columns.items()} for at, axis in enumerate(asked.varied)}
    largest = "mu_star" if by == "morris" else "total"
    return dict(sorted(rows.items(), key=lambda row: (-row[1][largest], row[0]))), int((~whole).sum())


def _problem(asked: Asked) -> dict[str, object]:
    count = len(asked.varied)
    return {"num_vars": count, "names": [str(at) for at in asked.varied], "bounds": [[0.0, 1.0]] * count}


class Design(NamedTuple):
    """A design: its ``rows`` (None: they follow from results, see ``search``), how many it has at most, and the package
    that it ``needs``."""

    rows: Callable[[Asked], Iterator[Row]] | None
    size: Callable[[Asked], int]
    needs: str = ""

    @property
    def is_there(self) -> bool:
        """Return whether the package is installed."""
        return not self.needs or find_spec(self.needs) is not None


def _drawn(asked: Asked) -> int:
    return min(asked.points, asked.whole)


DESIGNS: Mapping[str, Design] = {
    "random": Design(lambda asked: _sample(asked, False), _drawn),
    "latin": Design(lambda asked: _sample(asked, True), _drawn),
    "one-at-a-time": Design(_one_at_a_time, lambda asked: 1 + sum(size - 1 for size in asked.sizes)),
    **{by: Design(_salib(by), _salib_size(by), "SALib") for by in METHODS},
    "tpe": Design(None, lambda asked: asked.points, "optuna"),
    "nsga2": Design(None, lambda asked: asked.points, "optuna"),
}
"""Designs by the names that users write."""
