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
    """A latency: what it is called, its values in a service (s); ``requests``: one of each request, in order."""

    text: str
    of: Callable[[Service], Array]
    requests: bool = True


def percentile(values: Array, share: float, counts: Array | None = None) -> Figure:
    """Return a percentile by linear interpolation between ranks, and its interval by order statistics (binomial ranks
    n p +- 1.645 sqrt(n p (1 - p)); David and Nagaraja, Order Statistics, 7.1). ``counts``: of equal values; then
    ``values`` are in order."""
    ordered = np.sort(values) if counts is None else values
    last = np.arange(1, len(values) + 1) if counts is None else np.cumsum(counts)
    count = int(last[-1])

    def at(rank: int) -> float:
        return float(ordered[np.searchsorted(last, rank)])

    middle, spread = count * share, Z * sqrt(count * share * (1 - share))
    low, high = floor(middle - spread), ceil(middle + spread)
    ends = [at(rank) if 1 <= rank <= count else None for rank in (low, high)]
    before = (count - 1) * share
    around = [at(1 + floor(before)), at(min(count, 2 + floor(before)))]
    return Figure(float(np.quantile(around, before - floor(before))), *ends)


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
    found: Array = service.done["first_s"] - service.done["arrival_s"]
    return found


def tpot_s(service: Service) -> Array:
    """Return the time per token of each request with two or more, s."""
    done, gaps = service.done, service.done["output"] - 1
    some = gaps > 0
    found: Array = (done["last_s"] - done["first_s"])[some] / gaps[some]
    return found


def gaps_s(service: Service) -> tuple[Array, Array]:
    """Return the times between two tokens of all requests, s, and how many there are of each, by replica and step."""
    pairs = [(np.array(steps.gaps_s), np.array(steps.gaps)) for steps in service.steps]
    values, counts = (np.concatenate(each) for each in zip(*pairs, strict=True))
    return values, counts


def itl_s(service: Service) -> Array:
    """Return the times between two tokens of all requests, s: one for each token but the first of each request, sorted
    by nothing but replica and step."""
    return np.repeat(*gaps_s(service))


def end_to_end_s(service: Service) -> Array:
    """Return the time from end to end of each request, s."""
    found: Array = service.done["last_s"] - service.done["arrival_s"]
    return found


MEASURES: dict[str, Measure] = {
    "ttft": Measure("time to first token", ttft_s),
    "tpot": Measure("time per token", tpot_s),
    "itl": Measure("between two tokens", itl_s, False),
    "e2e": Measure("end to end", end_to_end_s),
}
"""Latencies by name."""
MANY = 1 << 24
"""Times between tokens that are added up one by one."""
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
"""Percentiles by name."""


def latencies(service: Service) -> dict[str, dict[str, Figure]]:
    """Return mean and percentiles of each latency, s; nothing of one that no request has."""
    found = {}
    for name, measure in MEASURES.items():
        figures = _of_requests(measure.of(service)) if measure.requests else _of_gaps(*gaps_s(service))
        if figures:
            found[name] = figures
    return found


def _of_requests(values: Array) -> dict[str, Figure]:
    if not len(values):
        return {}
    return {"mean": mean(values)} | {name: percentile(values, share) for name, share in SHARES.items()}


def _of_gaps(values: Array, counts: Array) -> dict[str, Figure]:
    total = int(counts.sum())
    if not total:
        return {}
    average = np.repeat(values, counts).mean() if total <= MANY else values @ counts / total
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    return {"mean": Figure(float(average), None, None)} | {
        name: percentile(values, share, counts) for name, share in SHARES.items()
    }


def growth_per_s(arrivals_s: Sequence[float] | Array, ends_s: Sequence[float] | Array) -> float:
    """Return by how many requests per second more are in a service over the second half of all arrivals; 0 where
    chance may make as much of it (three standard deviations of Poisson counts). Both in s, by request."""
    begins, ends = np.asarray(arrivals_s), np.asarray(ends_s)
    middle, last = float(begins[len(begins) // 2]), float(begins[-1])
    if last <= middle:
        return 0.0
    inside = [int(((begins <= at) & (at < ends)).sum()) for at in (middle, last)]
    more = inside[1] - inside[0]
    return more / (last - middle) if more > 3 * sqrt(sum(inside)) else 0.0


def grown_per_s(service: Service) -> float:
    """Return ``growth_per_s`` of a service."""
    return growth_per_s(service.done["arrival_s"], service.done["last_s"])


def within(service: Service, limits: Mapping[str, float]) -> float:
    """Return the share of requests that keep all limits, s by name of ``MEASURES``; a request with one token has no
    time per token, and keeps any."""
    late = np.zeros(len(service.done), bool)
    for name, limit in limits.items():
        has = service.done["output"] > 1 if name == "tpot" else np.ones(len(late), bool)
        late[has] |= MEASURES[name].of(service) > limit
    return int((~late).sum()) / len(late)


def probe(service: Service, limits: Mapping[str, float], rate: float) -> Probe:
    """Return what a service did at a rate; ``limits``: s, by name of ``MEASURES``."""
    values = {name: MEASURES[name].of(service) for name in limits}
    p50, p99 = (
        {name: float(np.quantile(each, share)) for name, each in values.items() if len(each)} for share in (0.5, 0.99)
    )
    return Probe(rate, within(service, limits), grown_per_s(service) <= GROWS * rate, p50, p99)
