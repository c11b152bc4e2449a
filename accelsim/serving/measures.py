"""Figures of a service: percentiles with the interval that finitely many requests leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, sqrt
from typing import NamedTuple

import numpy as np

from accelsim.serving.capacity import GROWS, Probe
from accelsim.serving.service import Service
from accelsim.types import Array

Z = 1.645
"""Standard normal quantile of 95 %: the ends of an interval of 90 %."""


class Figure(NamedTuple):
    """A figure with the 90 % interval of its estimate from finitely many requests; ends are None where these are too
    few to say."""

    value: float
    low: float | None
    high: float | None


class Measure(NamedTuple):
    """A latency: what it is called, its values in a service (s); ``requests``: one of each request."""

    text: str
    of: Callable[[Service], Array]
    requests: bool = True


def percentile(values: Array, share: float) -> Figure:
    """Return a percentile by linear interpolation between ranks, and its interval by order statistics (binomial ranks
    n p +- 1.645 sqrt(n p (1 - p)); David and Nagaraja, Order Statistics, 7.1)."""
    ordered = np.sort(values)
    count = len(ordered)
    middle, spread = count * share, Z * sqrt(count * share * (1 - share))
    low, high = floor(middle - spread), ceil(middle + spread)
    ends = [float(ordered[at - 1]) if 1 <= at <= count else None for at in (low, high)]
    return Figure(float(np.quantile(ordered, share)), *ends)


def mean(values: Array, batches: int = 20) -> Figure:
    """Return a mean over requests in order of arrival, and its interval by the means of ``batches`` equal parts, since
    neighbours share a queue (Law and Kelton, Simulation Modeling and Analysis, 9.5.3)."""
    found = float(np.mean(values))
    if len(values) < 2 * batches:
        return Figure(found, None, None)
    size = len(values) // batches
    parts = values[: size * batches].reshape(batches, size).mean(axis=1)
    half = STUDENT[batches] * float(np.std(parts, ddof=1)) / sqrt(batches)
    return Figure(found, found - half, found + half)


STUDENT = {20: 1.729}
"""Batches -> quantile of 95 % of Student's distribution with one degree of freedom less."""


def ttft_s(service: Service) -> Array:
    """Return the time to the first token of each request, s."""
    return np.array([each.ttft_s for each in service.sequences])


def tpot_s(service: Service) -> Array:
    """Return the time per token of each request with two or more, s."""
    return np.array([found for each in service.sequences if (found := each.tpot_s) is not None])


def itl_s(service: Service) -> Array:
    """Return the times between two tokens of all requests, s: one for each token but the first of each request, sorted
    by nothing but replica and step."""
    parts = [np.repeat(np.array(steps.gaps_s), np.array(steps.gaps)) for steps in service.steps]
    return np.concatenate(parts)


def end_to_end_s(service: Service) -> Array:
    """Return the time from end to end of each request, s."""
    return np.array([each.e2e_s for each in service.sequences])


MEASURES: dict[str, Measure] = {
    "ttft": Measure("time to first token", ttft_s),
    "tpot": Measure("time per token", tpot_s),
    "itl": Measure("between two tokens", itl_s, False),
    "e2e": Measure("end to end", end_to_end_s),
}
"""Latencies by name."""
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
"""Percentiles by name."""


def latencies(service: Service) -> dict[str, dict[str, Figure]]:
    """Return mean and percentiles of each latency, s; nothing of one that no request has."""
    found = {}
    for name, measure in MEASURES.items():
        values = measure.of(service)
        if len(values):
            average = mean(values) if measure.requests else Figure(float(values.mean()), None, None)
            found[name] = {"mean": average} | {each: percentile(values, share) for each, share in SHARES.items()}
    return found


def growth_per_s(arrivals: Sequence[float], ends: Sequence[float]) -> float:
    """Return by how many requests per second more are in a service over the second half of all arrivals; 0 where
    chance may make as much of it (three standard deviations of Poisson counts). Both in s, by request."""
    middle, last = arrivals[len(arrivals) // 2], arrivals[-1]
    if last <= middle:
        return 0.0
    pairs = [*zip(arrivals, ends, strict=True)]
    inside = [sum(begin <= at < end for begin, end in pairs) for at in (middle, last)]
    more = inside[1] - inside[0]
    return more / (last - middle) if more > 3 * sqrt(sum(inside)) else 0.0


def grown_per_s(service: Service) -> float:
    """Return ``growth_per_s`` of a service."""
    sequences = service.sequences
    return growth_per_s([each.request.arrival_s for each in sequences], [each.last_s for each in sequences])


def within(service: Service, limits: Mapping[str, float]) -> float:
    """Return the share of requests that keep all limits, s by name of ``MEASURES``; a request with one token has no
    time per token, and keeps any."""
    names = [(f"{name}_s", limit) for name, limit in limits.items()]
    kept = sum(all((getattr(each, name) or 0.0) <= limit for name, limit in names) for each in service.sequences)
    return kept / len(service.sequences)


def probe(service: Service, limits: Mapping[str, float], rate: float) -> Probe:
    """Return what a service did at a rate; ``limits``: s, by name of ``MEASURES``."""
    values = {name: MEASURES[name].of(service) for name in limits}
    p50, p99 = (
        {name: float(np.quantile(each, share)) for name, each in values.items() if len(each)} for share in (0.5, 0.99)
    )
    return Probe(rate, within(service, limits), grown_per_s(service) <= GROWS * rate, p50, p99)
