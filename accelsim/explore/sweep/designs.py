"""Designs: which points of a space a sweep takes. A point is a row of indices, one for the values of each axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


def trajectories(asked: Asked) -> Floats:
    """Return places from 0 to 1 on the varied axes, point by point: trajectories of Morris, on which one axis changes
    after the other. They need SALib."""
    from SALib.sample import morris

    sample = morris.sample(_problem(asked), asked.points, num_levels=LEVELS, seed=asked.seed)
    return np.asarray(sample, dtype=np.float64)


def _morris(asked: Asked) -> Iterator[Row]:
    for places in trajectories(asked) if asked.varied else np.zeros((1, 0)):
        row = [0] * len(asked.sizes)
        for axis, place in zip(asked.varied, places, strict=True):
            row[axis] = min(int(place * asked.sizes[axis]), asked.sizes[axis] - 1)
        yield tuple(row)


class Elementary(NamedTuple):
    """Elementary effects of an axis by Morris: mean size and spread of the change of a logarithm over a whole axis."""

    axis: int
    mean: float
    spread: float


def elementary(asked: Asked, objective: Floats) -> tuple[list[Elementary], int]:
    """Return the effect of each varied axis on the logarithm of an objective, the largest first, and the number of
    trajectories left out, as points of them have no figure. They need SALib."""
    from SALib.analyze import morris

    long = len(asked.varied) + 1
    places, logs = trajectories(asked).reshape(-1, long, long - 1), np.log(objective).reshape(-1, long)
    whole = np.asarray(np.isfinite(logs).all(axis=1))
    if not whole.any():
        return [], len(whole)
    found = morris.analyze(
        _problem(asked), places[whole].reshape(-1, long - 1), logs[whole].ravel(), num_levels=LEVELS, seed=asked.seed
    )
    spreads = np.nan_to_num(np.asarray(found["sigma"], dtype=np.float64))
    effects = [
        Elementary(axis, float(mean), float(spread))
        for axis, mean, spread in zip(asked.varied, found["mu_star"], spreads, strict=True)
    ]
    return sorted(effects, key=lambda each: (-each.mean, each.axis)), int((~whole).sum())


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
    "morris": Design(_morris, lambda asked: asked.points * (len(asked.varied) + 1) if asked.varied else 1, "SALib"),
    "tpe": Design(None, lambda asked: asked.points, "optuna"),
    "nsga2": Design(None, lambda asked: asked.points, "optuna"),
}
"""Designs by the names that users write."""
