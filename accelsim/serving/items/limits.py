"""Limits of a service of items: CPU, PCIe or chip; what batches and a filter change; what the CPU does alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from accelsim.errors import UsageError
from accelsim.request import Request
from accelsim.request.job import execute, prepare
from accelsim.serving.items.asked import Asked, Bounds, Question, read
from accelsim.serving.items.measures import latencies
from accelsim.serving.loads import read_load
from accelsim.spec.yaml.chips import load_chip

PLENTY = 4
"""Batches whose requests wait at any time where a service is measured at its limit."""
REQUESTS = 8000
"""Requests that are simulated for that."""


class Variant(NamedTuple):
    """A service: what is changed in words, whether it makes batches, the share of requests that need the chip."""

    text: str
    most: int
    keep: float


class Limited(NamedTuple):
    """A service at its limit: what its parts could do, the answers a second that a simulation gives with always enough
    requests, and the mean time of a request that comes alone, s."""

    variant: Variant
    bounds: Bounds
    per_s: float
    alone_s: float


@dataclass(frozen=True)
class Limits:
    """Services of one question: ``found``, of all variants; ``host_s``: seconds of a core for the work around the chip;
    ``cpu_s``: those for the whole request on a core of ``cpu``, without a chip."""

    question: Question
    cpu: str
    found: tuple[Limited, ...]
    host_s: float
    cpu_s: float

    @property
    def alone_per_s(self) -> float:
        """Answers a second that the cores give without the chip."""
        return self.question.cores / self.cpu_s

    def cores_for(self, limited: Limited) -> float:
        """Return the cores from which on the CPU no longer limits a variant."""
        bounds = limited.bounds
        return self.question.cores * min(bounds.pcie, bounds.chip, bounds.instances) / bounds.cpu


def limits(question: Question, keep: float, most: int, cpu: str) -> Limits:
    """Simulate a service one request at a time and in batches of at most ``most``, with all requests and with the share
    ``keep`` that a filter on the host lets pass. Raises UsageError, SpecError and ModelError."""
    if not 0 < keep <= 1:
        raise UsageError(f"{keep:g}", "--keep", "a share above 0, at most 1")
    variants = (
        Variant("one by one", 1, 1.0), Variant(f"batches of {most}", most, 1.0),
        Variant(f"a filter keeps {keep:.0%}", 1, keep), Variant("both", most, keep),
    )  # fmt: skip
    found = [_limited(question, each) for each in variants]
    made = read(question)
    around_s = made.before.seconds + made.after.seconds
    return Limits(question, cpu, tuple(found), around_s, around_s + core_s(question, cpu))


def _limited(question: Question, variant: Variant) -> Limited:
    kept = f",keep={variant.keep!r}" if variant.keep < 1 else ""
    asked = read(replace(question, before=question.before + kept, scheduler=f"dynamic:max={variant.most}"))
    return Limited(variant, asked.bounds, _most_per_s(asked, variant), _alone_s(asked))


def _most_per_s(asked: Asked, variant: Variant) -> float:
    """Answers a second if always enough requests wait for every part."""
    waiting = round(PLENTY * (variant.most / variant.keep + asked.question.cores))
    many = replace(asked, question=replace(asked.question, requests=REQUESTS))
    flow = many.run(read_load(f"closed:{waiting}"))
    ends = sorted(each.end_s for each in flow.answered)
    skip = len(ends) // 4  # the service fills first, and runs empty at the end
    first_s, last_s = ends[skip], ends[-skip - 1]
    return sum(first_s < each <= last_s for each in ends) / (last_s - first_s)


def _alone_s(asked: Asked) -> float:
    few = replace(asked, question=replace(asked.question, requests=1), before=asked.before._replace(keep=1.0))
    return latencies(few.run(read_load("closed:1")))["e2e"]["mean"].value


def core_s(question: Question, cpu: str) -> float:
    """Return the seconds in which one core of a processor computes an item, while each core has one. Raises UsageError
    for what is no processor."""
    chip = load_chip(cpu)
    if chip.kind != "cpu" or chip.host is None:
        raise UsageError(f"{cpu} is no processor", "--cpu", "a chip of kind cpu, such as xeon-8375c")
    run = execute(prepare(Request(question.model, chip, batch=chip.host.cores, values="off", edges="outside")))
    return run.seconds


def by_cores(found: Limits, cores: Sequence[int]) -> Iterator[tuple[str, list[float]]]:
    """Yield what each variant, and the CPU alone, answers a second, by cores of the host."""
    for each in found.found:
        rest = min(each.bounds.pcie, each.bounds.chip, each.bounds.instances)
        yield each.variant.text, [min(each.bounds.cpu * n / found.question.cores, rest) for n in cores]
    yield "CPU alone", [n / found.cpu_s for n in cores]
