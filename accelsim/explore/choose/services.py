"""Services under load: the requests of a question, and what they take at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from accelsim.cluster.step.transformer import Transformer
from accelsim.errors import Gather
from accelsim.explore.choose.question import Question, kept
from accelsim.serving.loads import drawn, read_lengths, read_load
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.registry import read_scheduler

LEAST, LASTS_S = 1000, 60
"""Requests that are simulated at least, and for how long they come at least, s."""
QUEUED = 0.9
"""Share of the arriving work that replicas at the peak of their arithmetic compute at least: with less the queue grows,
and even the requests that come last would be late."""


@dataclass(frozen=True)
class Load:
    """Requests of a question: options of their points, their rate (1/s), their number and new tokens of one."""

    options: Mapping[str, Any]
    rate: float
    requests: Sequence[Request]

    @property
    def tokens_per_s(self) -> float:
        """New tokens per second."""
        return self.rate * sum(each.output for each in self.requests) / len(self.requests)


def load_of(question: Question) -> Load:
    """Return the requests of a question. Raises UsageError with all problems."""
    from accelsim.explore.sizing import LATENCIES

    gather = Gather()
    with gather.also():
        load = read_load(question.load)
        gather.refuse(not load.rate, f"{question.load} comes at no rate", "--load", "poisson:8/s")
    with gather.also():
        read_lengths(question.lengths)
    for scheduler in question.schedulers:
        with gather.also():
            read_scheduler(scheduler)
    times = {LATENCIES[name]: limit for name, limit in question.limits.items() if name in LATENCIES}
    gather.refuse(not times, "no limit of a time", "--limit", "ttft=1s,tpot=50ms, which 99 of 100 requests keep")
    gather.done()
    count = question.requests or max(LEAST, ceil(LASTS_S * load.rate))
    options = {
        "load": question.load, "lengths": question.lengths, "requests": count,
        "limit": [f"{name}={limit!r}s" for name, limit in times.items()],
    }  # fmt: skip
    return Load(options, load.rate, _drawn(question.load, question.lengths, count))


@kept
def _drawn(load: str, lengths: str, count: int) -> Sequence[Request]:
    return tuple(drawn(read_load(load), read_lengths(lengths), count, 0))


def least_of(load: Load, sizes: Transformer, rate_flops: float, read_Bps: float, element_B: float) -> dict[str, float]:
    """Return what a service takes at least: replicas, and the times that 99 of 100 requests keep, s.

    ``rate_flops``, ``read_Bps``: of a replica, whose weights have ``element_B`` bytes. A prompt takes the arithmetic of
    its tokens, and each further token reads all weights that it meets once.
    """
    from accelsim.explore.sizing import SHARE

    matrices = sizes.counts.products
    prompts = np.array([each.prompt for each in load.requests], float)
    outputs = np.array([each.output for each in load.requests], float)
    read_s, token_s = matrices * element_B / read_Bps, 2 * matrices / rate_flops
    first_s = np.maximum(prompts * token_s, read_s)
    busy = load.rate * float(np.mean(prompts + outputs - 1)) * token_s
    return {
        "replicas": max(1.0, ceil(QUEUED * busy)),
        "ttft_s": float(np.quantile(first_s, SHARE)),
        "tpot_s": read_s if np.mean(outputs > 1) > 1 - SHARE else 0.0,
        "latency_s": float(np.quantile(first_s + (outputs - 1) * read_s, SHARE)),
    }
