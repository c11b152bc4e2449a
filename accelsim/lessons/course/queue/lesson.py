"""Lesson 16: waits for a chip, by a formula and request by request; the simulator of services is the check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim.lessons.base import Ask, Figure, Lesson, Sheet
from accelsim.lessons.compare import answer, number, numbers
from accelsim.seeds import generator
from accelsim.serving.items.batcher import Cost, Dynamic
from accelsim.serving.items.flow import simulate
from accelsim.serving.items.line import Arrival
from accelsim.types import Array

LOADS = (0.5, 0.95)
"""Shares of the time that the chip works, for the question."""
CURVE = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Shares of the time in the picture."""
REQUESTS = 4000
"""Requests of the question."""
HAND = "a request waits busy x seconds / (2 (1 - busy)) on average, where busy = rate x seconds"
RECURSION = "a request begins when it is there and a chip is free; its chip is free again after its seconds"


class Numbers(NamedTuple):
    """Seconds that the chip needs for a request, and the seed of arrivals."""

    seconds: float
    seed: int


def waits(arrivals: Array, seconds: float, chips: int = 1) -> Array:
    """Return the wait of each request for one of ``chips`` with a common queue, s, by the simulator of services."""
    flow = simulate(map(Arrival, arrivals.tolist()), Dynamic(most=1), lambda size: Cost(seconds), chips=chips)
    return np.array([each.queue_s for each in flow.items])


def by_hand(rate: float, seconds: float) -> float:
    """Return the mean wait of M/D/1, s (Kleinrock, Queueing Systems I, 5.6)."""
    busy = rate * seconds
    return busy * seconds / (2 * (1 - busy))


def gaps(seed: int, count: int = REQUESTS) -> Array:
    """Return times between requests that know nothing of each other, 1 on average, as the student's file draws them."""
    return generator(seed).exponential(1.0, count)


def p99(numbers: Numbers, busy: float) -> float:
    """Return the 99th percentile of the waits of the question at a load, s."""
    arrivals = np.cumsum(gaps(numbers.seed)) * numbers.seconds / busy
    return float(np.quantile(waits(arrivals, numbers.seconds), 0.99))


class Queue(Lesson):
    """Lesson 16: the queue."""

    number, title, file, minutes = 16, "The queue", "waiting.py", 40
    idea = "A chip that is busy most of the time lets requests wait, the slowest many times longer than the average."
    steps = (
        "the mean wait by hand",
        "a queue, request by request",
        "the 99th percentile",
        "several chips",
        "the question",
    )

    def draw(self, rng: Generator) -> Numbers:
        return Numbers(float(rng.integers(20, 200)) / 1000, int(rng.integers(1 << 30)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        seconds, rate = numbers.seconds, 0.8 / numbers.seconds
        return {
            "milliseconds": f"{1000 * seconds:g}", "seconds": seconds, "rate": f"{rate:.3g}",
            "wait": f"{1000 * by_hand(rate, seconds):.3g}", "seed": numbers.seed, "requests": REQUESTS,
        }  # fmt: skip

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        seconds = numbers.seconds
        for busy in (0.1, 0.5, 0.8, 0.99):
            rate = busy / seconds
            number(f"mean_wait({rate:.4g}, {seconds})", by_hand(rate, seconds), ask("mean_wait", rate, seconds), HAND)
        yield
        _queues(ask, numbers, 1, sheet)
        yield
        rng = generator(numbers.seed)
        for values in ([float(each) for each in range(1, 11)], [3.0], rng.exponential(1.0, 250).tolist()):
            rule = "sort; of n values p99 is at place 0.99 (n - 1), counted from 0, on a line between its neighbours"
            expected = float(np.quantile(values, 0.99))
            number(f"p99 of {len(values)} values", expected, ask("p99", values), rule, 1e-6)
        yield
        _queues(ask, numbers, 2, {})
        _queues(ask, numbers, 5, {})
        yield
        calm, full = (p99(numbers, busy) for busy in LOADS)
        answer(ask, full / calm, "p99 of the waits at 95 % load, divided by that at 50 %, of the same requests", 0.02)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """Waits by load: the formula, and what the student's own queue says of the same requests."""
        from accelsim.report.style import BLUE, GREY, VERMILLION

        axes = figure.subplots()
        loads = np.linspace(0.05, 0.96, 60)
        axes.plot(100 * loads, [1000 * by_hand(each / numbers.seconds, numbers.seconds) for each in loads], color=BLUE,
                  label="mean, by hand")  # fmt: skip
        axes.plot([100 * each for each in CURVE], [1000 * p99(numbers, each) for each in CURVE], "o-", color=VERMILLION,
                  label=f"p99 of {REQUESTS:,} requests")  # fmt: skip
        for busy, mean in sheet.get("means", {}).items():
            if busy < 1:
                axes.plot(100 * busy, 1000 * mean, "x", color=GREY, ms=9, mew=2, label=f"your mean of 60 at {busy:.0%}")
        axes.set_xlabel("% of the time that a chip works")
        axes.set_ylabel("wait (ms)")
        axes.legend(loc="upper left")


def _queues(ask: Ask, asked: Numbers, chips: int, sheet: Sheet) -> None:
    """The student's waits for so many chips, at loads below and above what they can do; the sheet gets the mean of each
    load."""
    for at, busy in enumerate((0.3, 0.8, 1.3)):
        own = gaps(asked.seed + 7 * at + chips, 60)
        arrivals = np.cumsum(own) * asked.seconds / busy / chips
        got: Any = ask("waits", arrivals.tolist(), asked.seconds, chips)
        where = f"waits of {len(arrivals)} requests for {chips} chip{'s' * (chips > 1)}, {busy:.0%} busy"
        names = [f"request {number}" for number in range(len(arrivals))]
        expected = waits(arrivals, asked.seconds, chips).tolist()
        if isinstance(got, list) and got and all(isinstance(each, float) for each in got):
            sheet.setdefault("means", {})[busy] = float(np.mean(got))
        numbers(where, names, [round(each, 9) for each in expected], _rounded(got), RECURSION, 1e-6)


def _rounded(got: Any) -> Any:
    if isinstance(got, np.ndarray):
        got = got.tolist()
    if not isinstance(got, list | tuple):
        return got
    return [round(each, 9) if isinstance(each, float) else each for each in got]


LESSON = Queue()
