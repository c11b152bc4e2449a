"""A service of any model as it is asked for, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import NamedTuple

from accelsim import units
from accelsim.compiler.state import EDGES
from accelsim.errors import Gather, UsageError, known
from accelsim.seeds import generator
from accelsim.serving.items.batcher import Cost, Dynamic
from accelsim.serving.items.flow import Flow, Host, simulate
from accelsim.serving.items.line import Arrival
from accelsim.serving.items.rules import NAME, read_dynamic
from accelsim.serving.items.times import BatchTimes
from accelsim.serving.items.trace import CLASSES, Trace, read_trace
from accelsim.serving.items.work import Work, read_work
from accelsim.serving.loads import Load, arrivals, read_load
from accelsim.spec.yaml.chips import load_chip
from accelsim.spec.yaml.clusters import is_cluster, load_cluster
from accelsim.spec.yaml.instances import one_of
from accelsim.workload.sources.load import check_there

INPUTS = ("host", "device")
"""Memories in which items may be when their batch begins: the host's; the chip's, to which a network card or another
chip has written."""
URGENT, USUAL = 0, 1
"""Classes of requests."""


@dataclass(frozen=True)
class Question:
    """A question. ``before``, ``after``: work of the host for an item, on ``cores``; ``timeout``: age from which on no
    work begins for an item; ``urgent``: share of items that go before others; ``replicas``: chips with one queue.
    ``edges``: where inputs become codes, as for a run; ``inputs``: memory in which items are when their batch begins
    (``INPUTS``); ``longest``: tokens of the longest item of a batch, which kernels of attention compute for every item
    (0: as many as the model has). ``site``: host and software around batches; ``trace``: a file with requests, in place
    of a load; ``prices``: a file with instances of the user's."""

    model: str
    on: str
    load: str = "poisson:1/s"
    scheduler: str = ""
    before: str = ""
    after: str = ""
    cores: int = 8
    timeout: str = ""
    urgent: float = 0.0
    requests: int = 1000
    seed: int = 0
    replicas: int = 1
    dtype: str = ""
    edges: str = ""
    inputs: str = "host"
    longest: int = 0
    overrides: tuple[str, ...] = ()
    site: str | None = None
    trace: Path | None = None
    prices: Path | None = None


class Bounds(NamedTuple):
    """Items a second that each part could serve alone: the cores of the host, the links, the chips; and the instances,
    each of which transfers and computes one after the other."""

    cpu: float
    pcie: float
    chip: float
    instances: float

    @property
    def rate(self) -> float:
        """Items a second that the service can serve."""
        return min(self)

    @property
    def limit(self) -> str:
        """Part that limits the service. If instances do, it is where they spend more time: the link or the chip."""
        if self.cpu <= self.rate:
            return "CPU"
        return "chip" if self.chip <= self.pcie else "PCIe"


@dataclass(frozen=True)
class Asked:
    """A question whose texts are read. ``trace``: recorded requests, None for those of ``load``."""

    question: Question
    rules: Dynamic
    before: Work
    after: Work
    load: Load
    timeout_s: float
    times: BatchTimes
    trace: Trace | None = None

    def run(self, load: Load, factor: float = 1.0, change: Callable[[Cost], Cost] = lambda cost: cost) -> Flow:
        """Simulate the service under a load; all batches take ``factor`` times as long. ``change``: of their costs."""
        question = self.question
        host = Host(
            lambda number: self.before.seconds, lambda number: self.after.seconds, question.cores, self.rules.queue,
            self.timeout_s,
        )  # fmt: skip
        return simulate(
            self._arrivals(load), self.rules, lambda size: change(self.times.cost(size).scaled(factor)), host,
            question.replicas, load.clients, load.think_s, len(self.classes),
        )  # fmt: skip

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of requests, in the order in which they go."""
        return (self.trace and self.trace.classes) or CLASSES

    def _arrivals(self, load: Load) -> Iterator[Arrival]:
        """Yield the requests of a load, or those of the trace, so much closer together as its rate is higher."""
        question, seed = self.question, self.question.seed
        count = len(self.trace.arrivals) if self.trace else question.requests
        kept = (generator(seed, 4).random(count) < self.before.keep).tolist()
        if self.trace:
            apart = self.load.rate / load.rate if load.rate < inf else 1.0
            for each, needed in zip(self.trace.arrivals, kept, strict=True):
                yield each._replace(arrival_s=apart * each.arrival_s, kept=needed)
            return
        ranks = URGENT + (generator(seed, 3).random(count) >= question.urgent)
        yield from map(Arrival, arrivals(load, count, seed).tolist(), ranks.tolist(), kept)

    @cached_property
    def full(self) -> int:
        """Items of a batch if more than enough wait."""
        return self.rules.size(self.rules.most, True)

    @cached_property
    def bounds(self) -> Bounds:
        """Rates that the parts could serve, in full batches."""
        return self.bounds_of(1.0)

    def bounds_of(self, factor: float) -> Bounds:
        """Return the bounds if all batches take ``factor`` times as long."""
        cost, chips, keep = self.times.cost(self.full).scaled(factor), self.question.replicas, self.before.keep
        items = chips * self.full / keep
        core_s = self.before.seconds + keep * self.after.seconds
        return Bounds(
            self.question.cores / core_s if core_s else inf,
            items / cost.link_s if cost.link_s else inf,
            items / (cost.seconds - cost.transfer_s),
            items * self.rules.instances / cost.seconds,
        )


@dataclass(frozen=True)
class Served:
    """Outcome of a question: ``flow``, the service; ``ends``: the same if all batches take as little or as long as the
    model may be off (90 %), None without an interval."""

    asked: Asked
    flow: Flow
    ends: tuple[Flow, Flow] | None


def read(question: Question) -> Asked:
    """Read all texts of a question. Raises UsageError, SpecError and ModelError with all problems."""
    gather = Gather()
    with gather.also():
        load = read_load(question.load)
    with gather.also():
        rules = read_dynamic(question.scheduler or NAME)
    with gather.also():
        before = read_work(question.before, "--before")
    with gather.also():
        after = read_work(question.after, "--after")
    with gather.also():
        timeout_s = _timeout_s(question.timeout)
    trace = None
    if question.trace is not None:
        with gather.also():
            trace = read_trace(question.trace)
    gather.check(question.model, check_there)
    with gather.also():
        known("inputs", question.inputs, INPUTS)
    with gather.also():
        known("edges", question.edges or EDGES[0], EDGES)
    with gather.also():
        chip = load_chip(_one_chip(question), question.overrides)
        direct = question.inputs == "device"
        times = BatchTimes(
            question.model, chip, question.dtype, question.edges, direct, question.longest, question.site
        )
    gather.done()
    times.cost(1)
    load = load._replace(clients=min(load.clients, question.requests)) if trace is None else Load("trace", trace.rate)
    return Asked(question, rules, before, after, load, timeout_s, times, trace)


def _one_chip(question: Question) -> str:
    """Return the chip that serves. Raises UsageError for a cluster, with its chip."""
    name = one_of(question.on, question.prices)
    if is_cluster(name):
        nodes = load_cluster(name).nodes.values()
        (chip, *others) = dict.fromkeys(each.chip for node in nodes for each in node.devices.values())
        expected = "a chip ('accelsim serve --replicas N' gives several one queue)"
        raise UsageError(f"{name} is a cluster", "--on", expected, "" if others else chip)
    return name


def _timeout_s(text: str) -> float:
    try:
        seconds = units.parse(text, "s") if text else inf
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise UsageError(f"{text!r}", "--timeout", "a time with its unit, such as 100ms")
    return seconds


def served(question: Question) -> Served:
    """Simulate a service. Raises UsageError, SpecError and ModelError."""
    asked = read(question)
    flow = asked.run(asked.load)
    usual = sorted(batch.size for batch in flow.batches)[len(flow.batches) // 2] if flow.batches else 1
    factors = asked.times.ends(usual)
    ends = None if factors is None else (asked.run(asked.load, factors[0]), asked.run(asked.load, factors[1]))
    return Served(asked, flow, ends)
