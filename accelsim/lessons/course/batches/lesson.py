"""Lesson 8: ResNet-50 on two chips in batches; a rule that collects requests and keeps a limit of latency."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from accelsim import run
from accelsim.lessons.base import Ask, Figure, Lesson, Sheet, Wrong
from accelsim.lessons.compare import answer, same
from accelsim.seeds import generator

BUS, CAR = "a100-80-sxm", "t4"
"""A chip for training, a chip for inference."""
BATCHES = (1, 4, 8, 32)
REQUESTS = 300
TICK_S = 1e-4
NEAR = 1.05
"""Energy that is good enough, of the best."""


class Numbers(NamedTuple):
    """Requests per second; the limit, ms; seed of the arrivals."""

    rate: int
    limit_ms: float
    seed: int


class Served(NamedTuple):
    """A batch: when it began and ended, s; requests; seconds from the oldest one's arrival to the end."""

    start: float
    end: float
    requests: int
    longest: float


@cache
def measured(chip: str) -> tuple[tuple[int, float, float], ...]:
    """(batch, latency s, energy J) of ResNet-50 in INT8."""
    found = []
    for batch in BATCHES:
        done = run("resnet50", chip, dtype="int8", batch=batch, values="off", edges="outside")
        found.append((batch, done.latency_s, done.energy_J))
    return tuple(found)


def curve(chip: str, column: int) -> list[float]:
    """Latency (1) or energy (2) of every batch from 0 to 32: between the measured ones along straight lines."""
    table = measured(chip)
    sizes = np.arange(BATCHES[-1] + 1)
    found = np.interp(sizes, [row[0] for row in table], [row[column] for row in table])
    return [0.0, *(float(each) for each in found[1:])]


def arrivals(numbers: Numbers) -> list[float]:
    """Return when requests arrive, s: a Poisson process of the student's rate."""
    gaps = generator(numbers.seed).exponential(1 / numbers.rate, REQUESTS)
    return [float(each) for each in np.cumsum(gaps)]


Decide = Callable[[int, float, list[float]], object]


def serve(numbers: Numbers, decide: Decide) -> Iterator[Served]:
    """The chip for inference under a rule: asked every tick while it is idle and somebody waits."""
    times, latency, limit = arrivals(numbers), curve(CAR, 1), numbers.limit_ms / 1000
    first, now = 0, times[0]
    while first < len(times):
        now = max(now, times[first])
        waiting = sum(each <= now + 1e-12 for each in times[first : first + BATCHES[-1]])
        slack = times[first] + limit - now
        count = decide(waiting, slack, latency)
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= waiting:
            raise Wrong(
                f"decide({waiting}, {slack:.5f}, ...)", f"0 to {waiting}", count, "as many as wait, or 0 for none yet"
            )
        if not count and slack < -limit:
            raise Wrong(f"decide({waiting}, {slack:.5f}, ...)", "1 or more", 0, "nobody may wait for ever")
        if count:
            end = now + latency[count]
            yield Served(now, end, count, end - times[first])
            first, now = first + count, end
        else:
            now += TICK_S


def lazy(most: int) -> Decide:
    """Serve when so many wait, or when the oldest cannot wait any longer."""

    def decide(waiting: int, slack: float, latency: list[float]) -> int:
        return waiting if waiting >= most or slack <= latency[waiting] + 2 * TICK_S else 0

    return decide


def joules(served: list[Served]) -> float:
    """Energy of a prediction, J."""
    energy = curve(CAR, 2)
    return sum(energy[each.requests] for each in served) / REQUESTS


@cache
def best(numbers: Numbers) -> float:
    """The least energy of a prediction among rules that keep the limit, J."""
    found = []
    for most in range(1, BATCHES[-1] + 1):
        served = list(serve(numbers, lazy(most)))
        if max(each.longest for each in served) <= numbers.limit_ms / 1000 + 1e-9:
            found.append(joules(served))
    return min(found)


def most_per_second(limit_s: float) -> float:
    """Predictions per second of the best batch of which two fit into the limit one after the other."""
    return max(batch / latency for batch, latency, _ in measured(CAR) if 2 * latency <= limit_s)


class Batches(Lesson):
    """Lesson 8: bus or sports car."""

    number, title, file, minutes = 8, "Bus or sports car", "batches.py", 40
    idea = "A batch makes each prediction cheaper and every user wait: how large may it be?"
    steps = (
        "the cheapest batch within a limit",
        "nobody waits too long",
        "energy within 5 % of the best",
        "the question",
    )

    def draw(self, rng: Generator) -> Numbers:
        return Numbers(int(rng.integers(12, 22)) * 100, float(rng.integers(16, 25)) / 2, int(rng.integers(1 << 30)))

    def words(self, numbers: Numbers) -> Mapping[str, object]:
        rows = [
            f"| {a[0]} | {' | '.join(_cells(*each) for each in (a, b))} |"
            for a, b in zip(measured(BUS), measured(CAR), strict=True)
        ]
        table = ", ".join(f"({batch}, {latency:.8g})" for batch, latency, _ in measured(CAR))
        return {"rows": "\n".join(rows), "rate": numbers.rate, "limit": f"{numbers.limit_ms:g}", "latencies": table}

    def check(self, ask: Ask, numbers: Numbers, sheet: Sheet) -> Iterator[None]:
        for chip in (BUS, CAR):
            table = [list(row) for row in measured(chip)]
            for limit in (table[0][1] / 2, table[2][1], numbers.limit_ms / 1000, 1.0):
                fits = [row for row in table if row[1] <= limit]
                right = min(fits, key=lambda row: row[2] / row[0])[0] if fits else 0
                rule = "of the batches within the limit the one with the least energy / batch; 0 for none"
                same(f"best_batch on {chip}, limit {limit * 1e3:.4g} ms", right, ask("best_batch", table, limit), rule)
        yield
        sheet["served"] = served = []
        for each in serve(numbers, lambda *args: ask("decide", *args)):
            served.append(each)
            if each.longest > numbers.limit_ms / 1000 + 1e-9:
                where = f"decide: batch of {each.requests} that begins at {each.start * 1e3:.2f} ms"
                got = f"its oldest request is answered after {each.longest * 1e3:.2f} ms"
                rule = "serve while the oldest request still has time for the batch: slack >= latency[batch]"
                raise Wrong(where, f"an answer within {numbers.limit_ms:g} ms", got, rule)
        yield
        mine, least = joules(served), best(numbers)
        if mine > NEAR * least:
            mean = REQUESTS / len(served)
            got = f"{1e3 * mine:.3f} mJ, with {mean:.1f} requests in a batch on average"
            rule = "wait as long as the limit lets you: larger batches cost less for each"
            raise Wrong("decide: energy of a prediction", f"at most {1e3 * NEAR * least:.3f} mJ", got, rule)
        yield
        rule = "the largest batch / latency of which two batches one after the other stay within the limit"
        answer(ask, most_per_second(numbers.limit_ms / 1000), rule)
        yield

    def draw_picture(self, figure: Figure, numbers: Numbers, sheet: Sheet) -> None:
        """Energy against latency by batch on both chips; waiting times under the student's rule."""
        from accelsim.report.style import BLUE, FAINT, GREEN, ORANGE, VERMILLION, log_axis

        left, right = figure.subplots(1, 2)
        for chip, colour in ((BUS, BLUE), (CAR, ORANGE)):
            table = measured(chip)
            points = [(1e3 * latency, 1e3 * energy / batch) for batch, latency, energy in table]
            left.loglog(*zip(*points, strict=True), "o-", color=colour, label=chip)
            for (batch, *_), point in zip(table, points, strict=True):
                left.annotate(str(batch), point, xytext=(0, 5), textcoords="offset points", fontsize=7)
        left.axvline(numbers.limit_ms, color="#222222", ls="--", lw=1)
        left.set(xlabel="latency of a batch, ms (dashed: your limit)", ylabel="energy of a prediction, mJ")
        left.set_title("Two chips, batches of 1 to 32")
        for axis in (left.xaxis, left.yaxis):
            log_axis(axis)
        left.legend()
        for each in sheet.get("served", []):
            late = each.longest > numbers.limit_ms / 1000 + 1e-9
            start, width = 1e3 * each.start, 1e3 * (each.end - each.start)
            right.barh(each.requests, width, 0.8, left=start, color=VERMILLION if late else GREEN)
        right.set_title("Your rule: batches on the " + CAR)
        right.set(xlabel="ms (red: somebody waited too long)", ylabel="requests in the batch", ylim=(0, 33))
        right.grid(True, color=FAINT)


def _cells(batch: int, latency: float, energy: float) -> str:
    return f"{1e3 * latency:.3f} ms | {1e3 * energy / batch:.2f} mJ"


LESSON = Batches()
