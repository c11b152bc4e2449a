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


PROCESSES: dict[str, Process] = {
    "poisson": Process({}, _poisson),
    "constant": Process({}, _constant),
    "gamma": Process({"cv": None}, _gamma),
    "mmpp": Process({"burst": 5.0, "share": 0.2, "lasts": 10.0}, _mmpp),
}
"""Processes of arrivals by name: independent users; equal times; times with a coefficient of variation; bursts."""
MOST = {"share": 1.0}
"""Parameters that must stay below a number."""
