"""Arrivals: processes that say when requests come, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim.types import Array


class Process(NamedTuple):
    """A process of arrivals: its parameters with defaults (None: must be given), and a function that draws the times of
    ``count`` arrivals, s, at a mean rate of ``rate`` per second."""

    params: Mapping[str, float | None]
    draw: Callable[[Generator, int, float, Mapping[str, float]], Array]


def _constant(random: Generator, count: int, rate: float, params: Mapping[str, float]) -> Array:
    return np.arange(1, count + 1) / rate


def _poisson(random: Generator, count: int, rate: float, params: Mapping[str, float]) -> Array:
    return np.cumsum(random.exponential(1 / rate, count))


def _gamma(random: Generator, count: int, rate: float, params: Mapping[str, float]) -> Array:
    shape = params["cv"] ** -2
    return np.cumsum(random.gamma(shape, 1 / (rate * shape), count))


def _mmpp(random: Generator, count: int, rate: float, params: Mapping[str, float]) -> Array:
    """Two states that alternate, each exponential: a burst is ``burst`` times as fast as calm, takes ``share`` of the
    time and lasts ``lasts`` seconds."""
    burst, share, lasts = params["burst"], params["share"], params["lasts"]
    calm_rate = rate / (1 - share + burst * share)
    means = lasts * (1 - share) / share, lasts
    times, now, state = list[Array](), 0.0, 0
    while sum(map(len, times)) < count:
        spell = random.exponential(means[state])
        number = random.poisson(spell * calm_rate * (burst if state else 1))
        times.append(now + np.sort(random.uniform(0, spell, number)))
        now, state = now + spell, 1 - state
    return np.concatenate(times)[:count]


Profile = tuple[tuple[float, float], ...]
"""Spells of a profile of rates, in order: how long each lasts, s, and its rate, 1/s."""


def profiled(random: Generator, count: int, rate: float, profile: Profile) -> Array:
    """Return the times of ``count`` independent arrivals, s, whose rate follows a profile with the mean ``rate``.

    The profile passes once with so many arrivals on average, faster than it was recorded if these are fewer. It starts
    anew for arrivals beyond its end.
    """
    lasts, rates = np.array(profile).T
    expected = np.concatenate([[0.0], np.cumsum(lasts * rates)]) / (lasts @ rates) * count
    ends = np.concatenate([[0.0], np.cumsum(lasts)]) / lasts.sum() * (count / rate)
    again, inside = np.divmod(np.cumsum(random.exponential(1.0, count)), count)
    found: Array = again * ends[-1] + np.interp(inside, expected, ends)
    return found


PROCESSES: dict[str, Process] = {
    "poisson": Process({}, _poisson),
    "constant": Process({}, _constant),
    "gamma": Process({"cv": None}, _gamma),
    "mmpp": Process({"burst": 5.0, "share": 0.2, "lasts": 10.0}, _mmpp),
}
"""Processes of arrivals by name: independent users; equal times; times with a coefficient of variation; bursts."""
BOUNDS = {
    "rate": (1e-6, 1e6), "share": (1e-6, 1 - 1e-6), "burst": (1.0, 1e6), "cv": (1e-3, 1e3), "lasts": (1e-6, 1e9),
}  # fmt: skip
"""Least and largest value of a rate (1/s) and of each parameter."""
CYCLE = 1e-2, 1e7
"""Fewest and most requests, on average, of a calm and a busy spell together."""
