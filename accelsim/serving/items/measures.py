"""Figures of a service of items: latencies by stage, throughput, use of its parts, energy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf

import numpy as np

from accelsim.serving.capacity import Probe
from accelsim.serving.items.asked import Asked
from accelsim.serving.items.flow import Flow
from accelsim.serving.measures import SHARES, Figure, growth_per_s, mean, percentile

STAGES = {
    "queue": "waiting", "before": "CPU before", "transfer": "transfer", "chip": "chip", "after": "CPU after",
    "e2e": "end to end",
}  # fmt: skip
"""Parts of a latency by name, fields of ``Item`` without their unit; the last is the sum of the others."""
Latencies = dict[str, dict[str, Figure]]


def latencies(flow: Flow) -> Latencies:
    """Return mean and percentiles of each stage, s, over requests with an answer; empty without one."""
    items = flow.answered
    found = {name: np.array([getattr(each, f"{name}_s") for each in items]) for name in STAGES}
    return {
        name: {"mean": mean(values)} | {key: percentile(values, share) for key, share in SHARES.items()}
        for name, values in found.items()
        if len(values)
    }


def within(flow: Flow, limit_s: float) -> float:
    """Return the share of requests that are answered within a time, s; lost ones are not."""
    return sum(each.e2e_s <= limit_s for each in flow.answered) / len(flow.requests)


def use(asked: Asked, flow: Flow) -> dict[str, float]:
    """Return the share of the time in which cores of the host, links and chips work."""
    span, chips = flow.span_s, asked.question.replicas
    costs = [batch.cost for batch in flow.batches]
    return {
        "cpu": flow.core_s / span / asked.question.cores,
        "pcie": sum(each.link_s for each in costs) / span / chips,
        "chip": sum(each.seconds - each.transfer_s for each in costs) / span / chips,
    }


def joules(asked: Asked, flow: Flow) -> float:
    """Return the energy of all chips, J, idle time included."""
    idle = asked.question.replicas * asked.times.static_W * flow.span_s
    return idle + sum(batch.cost.joules for batch in flow.batches)


def grows_per_s(flow: Flow) -> float:
    """Return by how many items a second the service fills, see ``growth_per_s``."""
    return growth_per_s([each.arrival.arrival_s for each in flow.requests], [each.end_s for each in flow.requests])


def lost(flow: Flow) -> Mapping[str, int]:
    """Return how many requests got no answer, by reason."""
    return Counter(each.lost for each in flow.requests if each.lost)


def sizes(flow: Flow) -> Mapping[int, int]:
    """Return how many batches there were of each size."""
    return dict(sorted(Counter(batch.size for batch in flow.batches).items()))


def probe(asked: Asked, limits: Mapping[str, float], rate: float, factor: float = 1.0) -> Probe:
    """Return what a service does at a rate; ``limits``: s, that of the time from end to end; all batches take
    ``factor`` times as long."""
    flow = asked.run(asked.load._replace(rate=rate), factor)
    total = [each.e2e_s for each in flow.answered] or [inf]
    p50, p99 = (float(each) for each in np.quantile(total, (0.5, 0.99)))
    return Probe(
        rate, within(flow, limits["e2e"]), rate <= asked.bounds_of(factor).rate, {"e2e": p50}, {"e2e": p99}
    )  # fmt: skip
