"""Size a service: the fewest replicas that keep limits at a load, and their figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from accelsim.serving.asked import Question, Served, served
from accelsim.serving.capacity import fewest
from accelsim.serving.measures import MEASURES, probe
from accelsim.serving.service import Service

SHARE = 0.99
"""Share of the requests that keep each limit."""
LATENCIES = {"latency": "e2e", "ttft": "ttft", "tpot": "tpot"}
"""Figures and limits of times of a service -> its latencies."""


@dataclass(frozen=True)
class Sized:
    """A service with as many replicas as keep the limits, ``replicas``; with as many as there are requests where none
    do (then ``keeps`` is False). ``ends``: the fewest replicas if all steps take as little or as long as the model may
    be off (90 %), None where that is not known or no number is enough."""

    found: Served
    replicas: int
    keeps: bool
    ends: tuple[int | None, int | None]

    def percentile_s(self, name: str, service: Service | None = None) -> float | None:
        """Return the time that 99 of 100 requests keep, s, by name of a latency; None where no request has it."""
        values = MEASURES[name].of(service or self.found.service)
        return float(np.quantile(values, SHARE)) if len(values) else None


def sized(question: Question, limits: Mapping[str, float]) -> Sized:
    """Find the fewest replicas of a service, each as the question has it, with which 99 of 100 requests keep each of
    the limits (s, by name of a latency) and the queue does not grow. Raises UsageError, SpecError and OutOfMemory."""
    found = served(question)
    most = len(found.requests)

    def enough(near: int, run: Callable[[Served], Service]) -> int | None:
        def good(count: int) -> bool:
            service = run(found.with_replicas(count))
            tried = probe(service, limits, found.load.rate)
            return tried.steady and all(tried.p99_s[name] <= limits[name] for name in tried.p99_s)

        return fewest(good, most, near)

    replicas = enough(1, Served.run) if limits else question.replicas
    made = found.with_replicas(replicas or most)
    ends: tuple[int | None, int | None] = (None, None)
    if limits and replicas and (factors := made.factors):
        low, high = (enough(replicas, partial(Served.run_at, end=end, factors=factors)) for end in (0, 1))
        ends = low, high
    return Sized(made, replicas or most, replicas is not None, ends)
