"""A service as it is asked for: texts become a model on devices, requests and schedulers, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import floor
from pathlib import Path

from accelsim.account.energy import static_power_W
from accelsim.account.interval import TOKEN
from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.serving.pieces import Devices, serving_library
from accelsim.cluster.serving.serve import Asked, check_memory, interval, needs, problems
from accelsim.cluster.serving.step import Layout, step
from accelsim.cluster.step.costs import PLAIN, Setting
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.memory import capacity_B
from accelsim.cluster.step.transformer import Transformer, transformer_of
from accelsim.errors import Gather, Problem, UsageError, known, nearest
from accelsim.kernels.whole import widened
from accelsim.serving.blocks import TOKENS, Pool
from accelsim.serving.loads import Load, drawn, read_lengths, read_load
from accelsim.serving.requests import Request
from accelsim.serving.schedulers.vllm import Vllm
from accelsim.serving.service import ROUTERS, Service, simulate
from accelsim.serving.times import StepTimes
from accelsim.serving.traces import read_trace
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.yaml.clusters import load_devices
from accelsim.workload.sources.load import split_parameters
from accelsim.workload.zoo import ZOO

UTILISATION = 0.9
"""Share of a device's memory that vLLM takes (its --gpu-memory-utilization)."""


@dataclass(frozen=True)
class Question:
    """A question. ``trace``: a file with requests, in place of a load; ``plan``: of one replica; ``scheduler``:
    settings of vLLM's (``Vllm``) that differ from its own."""

    model: str
    on: str
    load: str = "poisson:1/s"
    lengths: str = "lognormal:1024,256"
    requests: int = 1000
    seed: int = 0
    plan: str = ""
    replicas: int = 1
    router: str = "round-robin"
    scheduler: Mapping[str, float] = field(default_factory=dict)
    setting: Setting = PLAIN
    overrides: tuple[str, ...] = ()
    trace: Path | None = None
    memory: float = UTILISATION


@dataclass(frozen=True)
class Served:
    """Outcome of a question: the service with step times as predicted; the ``ends``, where all steps take as long as
    at the ends of the interval of a step (None without one); ``blocks`` of keys and values of a replica, and bytes of
    one; ``static_W`` of all replicas."""

    question: Question
    model: Transformer
    devices: Devices
    times: StepTimes
    load: Load
    service: Service
    ends: tuple[Service, Service] | None
    blocks: int
    block_B: int
    static_W: float


def served(question: Question) -> Served:
    """Simulate a service. Raises UsageError, SpecError and OutOfMemory."""
    load, requests, model, plan, spec = _read(question)
    fleet = fleet_of(spec, question.setting, serving_library(spec, "", question.setting))
    devices = Devices(fleet, fleet.setting)
    UsageError.raise_for(problems(model, fleet, plan, Asked(1, 1, 1)))
    times, layout = StepTimes(model, devices, plan), Layout(model, plan, 1)
    blocks, block_B = blocks_of(devices, layout, int(question.scheduler.get("budget", 8192)), question.memory)
    _check(requests, blocks, model, question)

    def run(factor: float) -> Service:
        """The service if all steps take so many times as long."""
        pools = [Pool(blocks) for _ in range(question.replicas)]
        schedulers = [Vllm(pool, **question.scheduler) for pool in pools]  # type: ignore[arg-type]
        route = ROUTERS[question.router]()
        return simulate(requests, schedulers, partial(times.scaled, factor), route, load.clients, load.think_s)

    found = run(1.0)
    factors = _factors(found, devices, layout)
    ends = None if factors is None else (run(factors[0]), run(factors[1]))
    watts = question.replicas * plan.tp * sum(static_power_W(fleet.chips[0]).values())
    return Served(question, model, devices, times, load, found, ends, blocks, block_B, watts)


def _read(question: Question) -> tuple[Load, list[Request], Transformer, Plan, ClusterSpec]:
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
        known("router", question.router, ROUTERS)
    with gather.also():
        model = _decoder(question.model)
    with gather.also():
        plan = parse_plan(question.plan) if question.plan else Plan()
        if plan.pp > 1 or plan.dp > 1:
            raise UsageError(f"{plan}", "--plan", "tp=N: the devices of one replica; --replicas for more of them")
    with gather.also():
        spec = load_devices(question.on, question.overrides)
    gather.done()
    if recorded is not None:
        last_s = recorded[-1].arrival_s
        return Load("trace", len(recorded) / last_s if last_s else 0.0), recorded, model, plan, spec
    return load, list(drawn(load, lengths, question.requests, question.seed)), model, plan, spec


def _decoder(text: str) -> Transformer:
    """Return the decoder of a text. Raises UsageError with the nearest one."""
    found = transformer_of(text)
    if found is None:
        decoders = [name for name, entry in ZOO.items() if entry.generates]
        near = nearest(split_parameters(text)[0], decoders)
        raise UsageError(f"{text} does not generate tokens", "", "a decoder, such as llama3-8b", near)
    return found


def blocks_of(devices: Devices, layout: Layout, budget: int, share: float) -> tuple[int, int]:
    """Return the blocks of keys and values that a replica has room for, and bytes of one on one device: what ``share``
    of its memory leaves after weights and a step of ``budget`` tokens. Raises OutOfMemory for too little memory."""
    check_memory(devices, layout, TOKENS, 1, permanent=True)
    (parts,) = needs(devices, layout, budget, 0)
    room = share * min(capacity_B(devices.fleet.chips[rank]) for rank in layout.plan.stage_ranks(0))
    (one,) = needs(devices, layout, TOKENS, 0, permanent=True)
    block_B = one["keys and values"]
    return floor((room - parts["weights"] - parts["activations"]) / block_B), block_B


def _check(requests: list[Request], blocks: int, model: Transformer, question: Question) -> None:
    """Raise UsageError where a request alone is longer than memory or model allow."""
    longest = max(each.prompt + each.output for each in requests)
    room = blocks * TOKENS
    problems = []
    if longest > room:
        what = f"a request of {longest:,} tokens, and room for the keys and values of {max(0, room):,}"
        problems.append(Problem(what, question.on, "more devices (--plan tp=N), a narrower --dtype, shorter requests"))
    if model.positions and longest > model.positions:
        problems.append(Problem(f"a request of {longest:,} tokens", model.name, f"at most {model.positions:,}"))
    UsageError.raise_for(problems)


def _factors(service: Service, devices: Devices, layout: Layout) -> tuple[float, float] | None:
    """Return how much faster and slower all steps may be: the interval of a step that decodes the usual number of
    sequences at their usual length (90 %); None on chips without measured kernels."""
    decoding = [n for steps in service.steps for n in steps.decoding if n]
    if not decoding:
        return None
    usual = sorted(decoding)[len(decoding) // 2]
    tokens = [each.request.prompt + each.request.output // 2 for each in service.sequences]
    call = step(devices, layout._replace(sequences=usual), 1, sum(tokens) // len(tokens))
    found = widened(interval(call, call.period_s), call.period_s, TOKEN)
    return found and (found.low_s / call.period_s, found.high_s / call.period_s)
