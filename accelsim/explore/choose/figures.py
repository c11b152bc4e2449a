"""Figures of a candidate that was simulated, or their bounds: costs, beliefs with intervals, limits that it breaks."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from typing import NamedTuple, cast

from accelsim.account.odds import Belief, with_own
from accelsim.account.price import DAY_S, HOUR_S
from accelsim.explore.choose.candidates import Candidate
from accelsim.explore.choose.question import GENERATION, MEASURES, SERVICE, Question
from accelsim.explore.choose.services import load_of
from accelsim.explore.choose.work import work_of

Figures = Mapping[str, object]


class Miss(NamedTuple):
    """A limit that is broken: its name, the figure, and by which factor."""

    name: str
    figure: float
    factor: float


def unit_seconds(question: Question, batch: int, facts: Figures, key: str = "latency_s") -> float | None:
    """Return the time that the cost is paid for, s: of 1,000 samples, a million new tokens, a training.

    ``key``: the time, or an end of its interval.
    """
    training = key.replace("latency", "training")
    if training in facts:
        return cast("float | None", facts[training])
    seconds = cast("float | None", facts.get(key))
    if seconds is None:
        return None
    return seconds / batch * _samples(question)


def _samples(question: Question) -> float:
    """Samples or sequences that the cost is of."""
    new = work_of(question.model, False).new if question.task == GENERATION else 0
    return 1e6 / new if new else 1e3


def cost_USD(question: Question, candidate: Candidate, facts: Figures) -> float | None:
    """Return the cost at the cheapest price; None without one. Of a service, and with a limit of throughput, whole
    instances are paid that serve so much, idle or not."""
    return _cost_USD(question, candidate, facts, "")


def hour_USD(candidate: Candidate, replicas: float) -> float | None:
    """Return the price of an hour of the whole instances that so many replicas take; None without one."""
    if candidate.hour_USD is None:
        return None
    holds = candidate.rents[0].holds
    return ceil(replicas / holds) * holds * candidate.hour_USD


def _cost_USD(question: Question, candidate: Candidate, facts: Figures, end: str) -> float | None:
    """Cost at an end of the interval: '', '_low' or '_high'. The number of whole instances follows from it too."""
    if question.task == SERVICE:
        replicas = cast("float | None", facts.get(f"replicas{end}"))
        hour = None if replicas is None else hour_USD(candidate, replicas)
        return None if hour is None else hour / HOUR_S / load_of(question).tokens_per_s * 1e6
    key = f"latency{end}_s"
    seconds = unit_seconds(question, candidate.batch, facts, key)
    if seconds is None or candidate.hour_USD is None:
        return None
    rate = question.limits.get("throughput")
    if rate is not None and not question.train:
        holds, slower = candidate.rents[0].holds, cast(float, facts[key]) / cast(float, facts["latency_s"])
        served = cast(float, facts["throughput_per_s"]) / slower * holds
        seconds = ceil(rate / served) * holds * _samples(question) / rate
    return candidate.hour_USD * seconds / HOUR_S


def cost_belief(question: Question, candidate: Candidate, facts: Figures, spread: bool = True) -> Belief | None:
    """Return the cost with its interval: of the time, and with ``spread`` of the prices of all providers; None where
    the time has none or nobody offers it."""
    ends = [_cost_USD(question, candidate, facts, end) for end in ("", "_low", "_high")]
    if None in ends:
        return None
    found = Belief(*cast("list[float]", ends))
    prices = [each.hour_USD for each in candidate.rents]
    if not spread or len(prices) < 2:
        return found
    return with_own(found, Belief(1.0, 1.0, prices[-1] / prices[0]))


def belief(facts: Figures, key: str) -> Belief | None:
    """Return a time with its interval; None where it has none."""
    stem = "training" if key == "days" else key.removesuffix("_s")
    low, high = facts.get(f"{stem}_low_s"), facts.get(f"{stem}_high_s")
    if not isinstance(low, float) or not isinstance(high, float):
        return None
    scale = DAY_S if key == "days" else 1.0
    return Belief(cast(float, facts[key]), low / scale, high / scale)


def misses(question: Question, figures: Figures) -> list[Miss]:
    """Return the limits that figures break, the worst first; of one without the figure the factor is infinite."""
    found = []
    for name, limit in question.limits.items():
        if name in ("throughput", "accuracy") and not question.train:
            continue  # more instances serve more; accuracy is of the format
        figure = figures.get(MEASURES[name].key)
        if not isinstance(figure, float | int):
            if figure is None and MEASURES[name].key in figures:
                found.append(Miss(name, inf, inf))
            continue
        factor = limit / figure if MEASURES[name].most else figure / limit
        if factor > 1:
            found.append(Miss(name, float(figure), factor))
    return sorted(found, key=lambda each: -each.factor)
