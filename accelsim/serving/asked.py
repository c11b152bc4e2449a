"""A service as it is asked for: texts become a model on devices, requests and schedulers, and what comes of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path

from accelsim import usercache
from accelsim.account.interval import TOKEN
from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.serving.devices import Devices, serving_library
from accelsim.cluster.serving.serve import cache_B, interval, routing_of
from accelsim.cluster.serving.step import Layout, step
from accelsim.cluster.step.costs import PLAIN, Setting
from accelsim.cluster.step.fleet import Fleet, fleet_of
from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.errors import Gather, Problem, UsageError, known, nearest
from accelsim.kernels.whole import widened
from accelsim.seeds import generator
from accelsim.serving.adapters import Adapters, apart, checked, drawn_adapters, read_adapters
from accelsim.serving.front import Way, hosted, stretched
from accelsim.serving.loads import Load, drawn, read_lengths, read_load, read_prefix, with_prefixes
from accelsim.serving.replica import Line
from accelsim.serving.replicas import Drafted, Group, group_of, room_of
from accelsim.serving.requests import Request, Requests
from accelsim.serving.schedulers.registry import Policy, read_scheduler
from accelsim.serving.service import ROUTERS, Second, Service, simulate
from accelsim.serving.slots import Slots
from accelsim.serving.speculate import Speculating, read_speculation
from accelsim.serving.split import Split, move_of, read_split
from accelsim.serving.steps import Steps
from accelsim.serving.times import key_of
from accelsim.serving.traces import read_trace
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.site import Front
from accelsim.spec.yaml.chips import load_site
from accelsim.spec.yaml.clusters import load_devices
from accelsim.spec.yaml.instances import standing
from accelsim.workload.sources.load import split_parameters
from accelsim.workload.zoo import ZOO

UTILISATION = 0.9
"""Share of a device's memory that vLLM takes (its --gpu-memory-utilization)."""


@dataclass(frozen=True)
class Question:
    """A question. ``trace``: a file with requests, in place of a load; ``prefix``: what prompts share; ``plan``: of one
    replica; ``scheduler``: one of ``SCHEDULERS``, with settings; ``adapters``: of requests; ``prices``: a file
    with instances of the user's."""

    model: str
    on: str
    load: str = "poisson:1/s"
    lengths: str = "lognormal:1024,256"
    requests: int = 1000
    seed: int = 0
    plan: str = ""
    replicas: int = 1
    router: str = "round-robin"
    scheduler: str = "vllm"
    setting: Setting = PLAIN
    overrides: tuple[str, ...] = ()
    trace: Path | None = None
    prefix: str = ""
    disaggregate: str = ""
    speculate: str = ""
    adapters: str = ""
    memory: float = UTILISATION
    prices: Path | None = None


@dataclass(frozen=True)
class Served:
    """A question that was read, and its answers, each simulated when it is asked for. ``groups``: all replicas, or
    those for prompts and those for tokens; ``page``: tokens of a block; ``front``: the engine around the steps;
    ``play``: simulates requests on groups behind an engine, with steps that take so many times as long."""

    question: Question
    model: Transformer
    devices: Devices
    load: Load
    requests: Sequence[Request]
    groups: tuple[Group, ...]
    page: int
    front: Front
    play: Callable[[float, Sequence[Request], Sequence[Group], Front], Service]

    @cached_property
    def service(self) -> Service:
        """The service with step times as predicted."""
        return self.run()

    @cached_property
    def factors(self) -> tuple[float, float] | None:
        """Factors by which all steps may be faster and slower (90 %); None where the chip has no intervals."""
        layout = Layout(self.model, self.last.times.plan, 1, routing_of(self.devices.fleet))
        return factors_of(self.service, self.devices, layout)

    @cached_property
    def ends(self) -> tuple[Service, Service] | None:
        """The service where all steps, and the way to the queue, take as long as at the ends of their intervals; None
        without one of steps."""
        return self.factors and (self.run_at(0), self.run_at(1))

    def run_at(self, end: int, factors: tuple[float, float] | None = None) -> Service:
        """Return the service at the lower (0) or upper (1) end, of these ``factors`` of steps or its own."""
        found = factors or self.factors
        assert found is not None  # there are ends
        return self.run(found[end], front=stretched(self.front, 2 * end - 1))

    def run(
        self, factor: float = 1.0, requests: Sequence[Request] = (), groups: Sequence[Group] = (),
        front: Front | None = None,
    ) -> Service:  # fmt: skip
        """Return the service if all steps take ``factor`` times as long, or with other requests, replicas, engine."""
        return self.play(factor, requests or self.requests, groups or self.groups, front or self.front)

    def at_rate(self, rate: float) -> Served:
        """Return the service at another rate (1/s), with the same requests closer together or farther apart."""
        apart = self.load.rate / rate
        return replace(self, load=self.load._replace(rate=rate), requests=Requests(self.requests).apart(apart))

    def with_replicas(self, count: int) -> Served:
        """Return the same requests to another number of equal replicas."""
        (group,) = self.groups
        return replace(self, question=replace(self.question, replicas=count), groups=(replace(group, count=count),))

    @property
    def joules(self) -> float:
        """Energy of the service from its begin to the end of its last step, idle time included."""
        steps = sum(sum(each.column("joules").tolist()) for each in self.service.steps)
        static_W = sum(each.count * each.static_W for each in self.groups)
        return steps + static_W * self.service.span_s + self.service.moved_J

    @property
    def last(self) -> Group:
        """Replicas that produce tokens."""
        return self.groups[-1]

    @property
    def decoders(self) -> tuple[Steps, ...]:
        """Steps of these replicas."""
        return self.service.steps[-self.last.schedulers :]


def served(question: Question, change: Callable[[Fleet], Fleet] = lambda fleet: fleet) -> Served:
    """Read a service; it is simulated as its answers are asked for. ``change``: of its devices. Raises UsageError,
    SpecError and OutOfMemory."""
    load, requests, model, plan, spec, policy, split, drafted, adapters, front = _read(question)
    plain = fleet_of(spec, question.setting, serving_library(spec, "", question.setting))
    fleet = change(plain)
    key = key_of(spec, Devices(fleet, fleet.setting))
    if key and fleet.topology is not plain.topology:
        key = usercache.digest([key, repr(fleet.topology.wires)])
    pools = [(question.replicas, plan)] if split is None else [split.prefill, split.decode]
    parts = [(_part(fleet, plan, split), count, plan) for count, plan in pools]
    groups = [
        group_of(model, part, key, policy, question.memory, count, plan, drafted, adapters)
        for part, count, plan in parts
    ]
    for group in groups:
        _check(requests, room_of(group, policy), model, question)
    devices, shared = groups[-1].times.devices, bool(requests.prefixes)
    move = split and move_of(split, fleet, cache_B(devices, Layout(model, Plan(), 1), 1, 0))

    def play(factor: float, requests: Sequence[Request], groups: Sequence[Group], front: Front) -> Service:
        """Simulate; see ``Served``."""
        policies = [policy.together(each.times.plan.ep) for each in groups]
        made = [
            [own.made(own.pool(each.blocks // each.times.plan.pp, shared, each.groups)) for _ in range(each.schedulers)]
            for own, each in zip(policies, groups, strict=True)
        ]
        for each in (each for group in made for each in group):
            each.slots = Slots(adapters.resident) if adapters else None
        for at, each in enumerate(made[-1]):
            if drafted:
                each.decoding = Speculating(each.pool, drafted[0], generator(question.seed, 4, at))
        route = ROUTERS[question.router]
        costs = [hosted(each.times, factor, front) for each in groups]
        second = move and Second(made[1], costs[1], route(), move)
        times = groups[0].times
        lines = [Line(partial(times.stages_s, factor)) for _ in range(groups[0].count if times.stages else 0)]
        return simulate(requests, made[0], costs[0], route(), load.clients, load.think_s, second, Way(front), lines)

    return Served(question, model, devices, load, requests, tuple(groups), policy.kind.PAGE, front, play)


def _part(fleet: Fleet, plan: Plan, split: Split | None) -> Fleet:
    """Return the devices of one replica, which are all where replicas are equal. Raises UsageError."""
    if split is None:
        return fleet
    if fleet.size < plan.devices:
        what = f"a replica of {plan.devices} devices, and {fleet.name} has {fleet.size}"
        raise UsageError(what, "--disaggregate", "a cluster with as many, such as dgx-h100")
    return fleet.first(plan.devices)


Read = tuple[
    Load, Requests, Transformer, Plan, ClusterSpec, Policy, Split | None, Drafted | None, Adapters | None, Front
]


def _read(question: Question) -> Read:
    """Read all texts of a question. Raises UsageError and SpecError with all problems."""
    gather = Gather()
    recorded = None
    with gather.also():
        load = read_load(question.load)
    with gather.also():
        lengths = read_lengths(question.lengths)
    if question.trace is not None:
        with gather.also():
            recorded = read_trace(question.trace)
    with gather.also():
        prefix = read_prefix(question.prefix) if question.prefix else None
        gather.refuse(prefix and question.trace, "shared prefixes beside a trace", "--prefix", "columns of the trace")
    with gather.also():
        speculation = read_speculation(question.speculate) if question.speculate else None
        draft = _decoder(speculation.draft, "--speculate") if speculation and speculation.draft else None
    with gather.also():
        split = read_split(question.disaggregate) if question.disaggregate else None
        beside = question.plan or question.replicas > 1
        gather.refuse(split and beside, "replicas or a plan beside it", "--disaggregate", "prefill=2xtp4,decode=4xtp8")
    with gather.also():
        known("router", question.router, ROUTERS, "--router")
    with gather.also():
        policy = read_scheduler(question.scheduler)
    with gather.also():
        model = _decoder(question.model)
    with gather.also():
        plan = parse_plan(question.plan) if question.plan else Plan()
        what = f"--speculate with {plan}, whose pipeline has one token of a sequence at a time"
        gather.refuse(plan.pp > 1 and question.speculate, what, "--plan", "tp=N or ep=N")
        if plan.dp * plan.cp > 1:
            raise UsageError(f"{plan}", "--plan", "tp=N, ep=N, pp=N: the devices of one replica; --replicas for more")
    with gather.also():
        spec = load_devices(standing(question.on, question.prices), question.overrides)
    with gather.also():
        site = question.setting.site
        front = (load_site(site).front if site else None) or Front()
    with gather.also():
        adapters = read_adapters(question.adapters) if question.adapters else None
    gather.done()
    plans = [plan, *(each for _, each in split[:2])] if split else [plan]
    adapters = checked(adapters, model, plans, recorded or ())
    load = load._replace(clients=min(load.clients, question.requests))
    rest = model, plan, spec, policy, split, speculation and (speculation, draft), adapters, front
    if recorded is not None:
        last_s = recorded[-1].arrival_s
        load = Load("trace", len(recorded) / last_s if last_s else 0.0)
    requests: Iterable[Request] = recorded or drawn(load, lengths, question.requests, question.seed)
    requests = with_prefixes(requests, prefix, question.seed) if prefix else requests
    if adapters and not any(each.adapter for each in recorded or ()):
        requests = drawn_adapters(requests, adapters, question.seed)
    return load, Requests(apart(requests) if adapters else requests), *rest


def _decoder(text: str, where: str = "") -> Transformer:
    """Return the decoder of a text. Raises UsageError with the nearest one, at ``where``."""
    found = transformer_of(text)
    if found is None:
        decoders = [name for name, entry in ZOO.items() if entry.generates]
        near = nearest(split_parameters(text)[0], decoders)
        raise UsageError(f"{text} does not generate tokens", where, "a decoder, such as llama3-8b", near)
    return found


def _check(requests: Requests, room: int, model: Transformer, question: Question) -> None:
    """Raise UsageError where a request alone is longer than memory or model allow."""
    longest = max(each.prompt + each.output for each in requests)
    problems = []
    if longest > room:
        what = f"a request of {longest:,} tokens, and room for the keys and values of {max(0, room):,}"
        fewer = ", fewer slots of adapters" if question.adapters else ""
        expected = f"more devices (--plan tp=N), a narrower --dtype, shorter requests{fewer}"
        problems.append(Problem(what, question.on, expected))
    if model.positions and longest > model.positions:
        problems.append(Problem(f"a request of {longest:,} tokens", model.name, f"at most {model.positions:,}"))
    UsageError.raise_for(problems)


def factors_of(service: Service, devices: Devices, layout: Layout) -> tuple[float, float] | None:
    """Return how much faster and slower all steps may be: the interval of a step that decodes the usual number of
    sequences at their usual length (90 %); None on chips without measured kernels."""
    steps = sum((each.by_decoding for each in service.steps), Counter[int]())
    counts = sorted((decoding, count) for decoding, count in steps.items() if decoding)
    if not counts:
        return None
    upto = [*accumulate(count for _, count in counts)]
    usual = -(-counts[bisect_right(upto, upto[-1] // 2)][0] // layout.plan.ep)
    tokens = service.done["prompt"] + service.done["output"] // 2
    call = step(devices, layout._replace(sequences=usual), 1, int(tokens.sum()) // len(tokens))
    found = widened(interval(call, call.period_s), call.period_s, TOKEN)
    return found and (found.low_s / call.period_s, found.high_s / call.period_s)
