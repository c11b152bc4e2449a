"""Kinds of points: a run on a chip, a prompt and new tokens on a chip or cluster, a training step. Each is read first,
which says on which specs its figures depend, and run then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from accelsim.account.area import die_m2
from accelsim.account.critical_path import by_blame
from accelsim.account.energy import energy_table, total_J
from accelsim.account.energy_totals import joules_of, read_totals, totals
from accelsim.account.interval import energy_interval, joules_ends, latency_interval
from accelsim.account.latency import batch_size, main_format
from accelsim.errors import Problem, UsageError, nearest
from accelsim.machine.run import Run
from accelsim.program.program import Spans
from accelsim.request import Request
from accelsim.request.job import Job, execute, load_graph, prepare
from accelsim.spec.chip import Chip
from accelsim.spec.digest import digest
from accelsim.spec.silicon import node_nm
from accelsim.spec.yaml.chips import load_chip
from accelsim.spec.yaml.clusters import is_cluster, load_cluster, load_devices
from accelsim.time import FS
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import generation_of, split_parameters
from accelsim.workload.zoo import ZOO

if TYPE_CHECKING:
    from accelsim.cluster.serving.serve import Served
    from accelsim.cluster.step.result import StepResult
    from accelsim.explore.generation import Generation
    from accelsim.explore.sizing import Sized
    from accelsim.kernels.whole import Interval
    from accelsim.spec.cluster import ClusterSpec

Facts: TypeAlias = dict[str, object]
"""Figures of a run by key, in SI units, as JSON can hold them."""
Options: TypeAlias = Mapping[str, Any]


class Read(NamedTuple):
    """A point that was read: hashes of the specs that it runs on, and the call that gives its figures.

    ``job``: a run on a chip, whose energy follows from its totals too (``run_or_price``).
    """

    specs: tuple[str, ...]
    figures: Callable[[], Facts]
    job: Job | None = None


class Kind(NamedTuple):
    """A kind of points: options that it takes, and the function that reads a point by model, place and options."""

    takes: frozenset[str]
    read: Callable[[str, str, Options], Read]


def read(model: str, on: str, options: Options) -> Read:
    """Read a point: a model, a chip or cluster, options. Raises UsageError, SpecError and ModelError."""
    kind = KINDS[kind_of(model, on, options)]
    problems = [
        Problem(f"{name!r} means nothing there", "options", "", nearest(name, kind.takes))
        for name in options
        if name not in kind.takes
    ]
    UsageError.raise_for(problems)
    return kind.read(model, on, options)


def text_problems(stated: Mapping[str, Sequence[object]]) -> Iterator[tuple[str, Problem]]:
    """Yield the options of a service under load with what is wrong with their texts. ``stated``: all values of each
    option that points have."""
    from accelsim.errors import known
    from accelsim.serving.loads import read_lengths, read_load, read_prefix
    from accelsim.serving.schedulers.registry import read_scheduler
    from accelsim.serving.service import ROUTERS

    readers: dict[str, Callable[[str], object]] = {
        "load": read_load, "lengths": read_lengths, "prefix": read_prefix, "scheduler": read_scheduler,
        "router": lambda text: known("router", text, ROUTERS),
    }  # fmt: skip
    for name in readers.keys() & stated.keys() if "load" in stated else ():
        for value in stated[name]:
            try:
                readers[name](str(value))
            except UsageError as error:
                yield from ((name, each) for each in error.problems)


def kind_of(model: str, on: str, options: Options) -> str:
    """Return the kind of a point: a key of ``KINDS``."""
    if options.get("train"):
        return "training step"
    if "load" in options:
        return "service"
    generates = generation_of(model, options.get("param")) is not None
    if is_cluster(on):
        if generates:
            return "serving"
        task = "'train: true', or a decoder that generates ('MODEL?prompt=P,new=N')"
        raise UsageError(f"{model} on a cluster needs a task", expected=task)
    return "generation" if generates else "run"


def _run(model: str, on: str, options: Options) -> Read:
    job = prepare(Request(model=model, on=on, **options), load=_graph)
    return Read((digest(job.chip),), lambda: run_or_price(job)[0], job)


def _graph(request: Request, cores: int) -> Graph:
    """Return the model of a request; a listed one without values is the same frozen graph for all points."""
    model = str(request.model)
    if request.values != "off" or request.sparsity or split_parameters(model)[0] not in ZOO:
        return load_graph(request, cores)
    asked = {name: getattr(request, name) for name in ("model", "batch", "weights", "param", "shape")}
    return _frozen(json.dumps(asked, default=str), cores)


@lru_cache(maxsize=4)
def _frozen(asked: str, cores: int) -> Graph:
    graph = load_graph(Request(on="", values="off", **json.loads(asked)), cores)
    graph.frozen = True
    return graph


def _generation(model: str, on: str, options: Options) -> Read:
    from accelsim.explore.generation import generation

    request = Request(model=model, on=on, **options)
    found = generation_of(model, request.param)
    assert found is not None  # else it is another kind
    name, params, _, _ = found
    first = prepare(replace(request, model=name, param={**params, "past": 0, "seq": 1}))
    return Read((digest(first.chip),), lambda: _generated(generation(request)))


def _serving(model: str, on: str, options: Options) -> Read:
    from accelsim.cluster.serving.asked import served
    from accelsim.cluster.step.costs import Setting

    overrides, ignored = options.get("set", ()), bool(options.get("ignore_capacity"))
    setting = Setting(**{name: options[name] for name in SERVES & options.keys()})
    plan, batch, library = options.get("plan", ""), options.get("batch"), options.get("library", "")
    return Read(
        _parts(load_cluster(on, overrides)),
        lambda: _served(served(model, on, overrides, plan, batch, setting, library, ignored)[0]),
    )


def _step(model: str, on: str, options: Options) -> Read:
    from accelsim.cluster.step.asked import Asked, step
    from accelsim.cluster.step.costs import Setting
    from accelsim.cluster.step.ops import DEFAULTS

    overrides, ignored = options.get("set", ()), bool(options.get("ignore_capacity"))
    setting = Setting(**{name: options[name] for name in STEPS & options.keys()})
    choices = replace(DEFAULTS, ignore_capacity=ignored)
    plan, batch, params = options.get("plan", ""), options.get("batch"), options.get("param")
    asked = Asked(model, on, plan, batch, overrides, setting, choices, params)
    return Read(_parts(load_devices(on, overrides)), lambda: _trained(step(asked), options.get("tokens")))


def _service(model: str, on: str, options: Options) -> Read:
    from accelsim.cluster.step.costs import Setting
    from accelsim.explore.sizing import sized
    from accelsim.limits import read_limits
    from accelsim.serving.asked import Question

    asked = {name: value for name, value in options.items() if name in SERVICE}
    setting = Setting(**{name: options[name] for name in SERVICES & options.keys()})
    question = Question(model, on, setting=setting, overrides=tuple(options.get("set", ())), **asked)
    limits = read_limits(options.get("limit", ()), dict.fromkeys(("ttft", "tpot", "e2e"), "s"), "limit")
    return Read(_parts(load_devices(on, question.overrides)), lambda: _sized(sized(question, limits)))


SERVICE = {"load", "lengths", "requests", "seed", "plan", "replicas", "router", "scheduler", "prefix", "memory"}
"""Options of a service under load that its question has."""
SERVICES = {"dtype", "site", "kv_dtype", "stack"}
"""Fields of ``Setting`` that it has."""
ALL = {"values", "set", "batch", "param", "dtype", "fusion", "site", "ignore_capacity"}
"""Options of every kind."""
SERVES = {"dtype", "fusion", "site", "quantiser", "kv_dtype", "stack", "routing"}
STEPS = {"dtype", "fusion", "site", "attention", "overlap_tensor", "offload"}
"""Fields of ``Setting`` that a generation on a cluster has, and a training step."""
RUNS = frozenset(each.name for each in fields(Request)) - {"model", "on"}
KINDS = {
    "run": Kind(RUNS, _run),
    "generation": Kind(RUNS, _generation),
    "serving": Kind(frozenset(ALL | SERVES | {"plan", "library"}), _serving),
    "service": Kind(frozenset({"values", "set", "limit"} | SERVICE | SERVICES), _service),
    "training step": Kind(frozenset(ALL | STEPS | {"plan", "train", "tokens"}), _step),
}
"""Kinds of points by name."""


def _parts(cluster: ClusterSpec) -> tuple[str, ...]:
    """Hashes of a cluster and of the chips in it, with their settings."""
    chips = [load_chip(each.chip, each.settings) for node in cluster.nodes.values() for each in node.devices.values()]
    return (digest(cluster.model_copy(update={"name": ""})), *map(digest, chips))


def _ends(name: str, seconds: float | None, interval: Interval | None) -> Facts:
    """A time with the ends of its interval, None where it has none."""
    low, high = (None, None) if interval is None else (interval.low_s, interval.high_s)
    return {f"{name}_s": seconds, f"{name}_low_s": low, f"{name}_high_s": high}


def _energy(joules: float, ends: tuple[float, float] | None, seconds: float, batch: int) -> Facts:
    low, high = ends or (None, None)
    return {
        "throughput_per_s": batch / seconds if seconds else None,
        "energy_J": joules,
        "energy_low_J": low,
        "energy_high_J": high,
        "energy_per_sample_J": joules / batch,
        "power_W": joules / seconds if seconds else None,
        "batch": batch,
    }


def run_or_price(job: Job, known: str = "") -> tuple[Facts, str, Spans]:
    """Return the figures of a run, its totals as JSON, '' where its energy needs more than totals, and capacities of
    buffers with any of which it is the same.

    ``known``: JSON of figures and totals of a run that differs in energy figures alone, or in such capacities; then
    nothing is simulated.
    """
    if known:
        facts, kept = json.loads(known)
        joules = joules_of(read_totals(kept), job.chip)
        ends = None if facts["energy_high_J"] is None else joules_ends(joules)
        priced = _energy(joules, ends, facts["latency_s"], facts["batch"])
        return facts | priced | _die(job.chip), json.dumps(kept), {}
    run = execute(job)
    found = totals(run)
    joules = total_J(energy_table(run)) if found is None else joules_of(found, run.chip)
    return figures(run, joules), "" if found is None else json.dumps(found.as_facts()), run.program.spans


def figures(run: Run, joules: float) -> Facts:
    """Return the figures of a run that a sweep keeps."""
    seconds, energy = run.seconds, energy_interval(run, joules)
    path = {blame.text: fs * FS for blame, fs in by_blame(run).items()}
    return {
        **_ends("latency", seconds, latency_interval(run)),
        **_energy(joules, energy and energy[:2], seconds, batch_size(run.program.graph) * run.program.cores),
        **_die(run.chip),
        "macs": sum(step.macs for step in run.program.steps) * run.program.cores,
        "dtype": main_format(run),
        "limit": max(path, key=lambda name: path[name]) if path else "",
        "critical_path_s": path,
    }


def _die(chip: Chip) -> Facts:
    return {"area_m2": die_m2(chip), "node_nm": node_nm(chip)}


def _tokens(found: Generation | Served, first: Interval | None, token: Interval | None) -> Facts:
    """Figures that a generation has on a chip and on a cluster."""
    return {
        **_ends("ttft", found.time_to_first_token_s, first),
        **_ends("tpot", found.token_s, token),
        "tokens_per_s": found.tokens_per_s,
        "energy_per_token_J": found.energy_per_token_J,
        "dtype": found.dtype,
    }


def _generated(found: Generation) -> Facts:
    spans, ends = found.intervals, None
    if spans.total is not None:
        ends = joules_ends(found.total_J)
    return {
        **_ends("latency", found.total_s, spans.total),
        **_energy(found.total_J, ends, found.total_s, found.sequences),
        **_tokens(found, spans.first, spans.token),
        **_die(found.chip),
    }


def _served(found: Served) -> Facts:
    return {
        **_ends("latency", found.total_s, found.total_interval),
        **_energy(found.total_J, found.ends_J(found.total_J), found.total_s, found.asked.sequences),
        **_tokens(found, found.first_interval, found.token_interval),
        "plan": str(found.plan),
        "devices": found.fleet.size,
    }


def _sized(sized: Sized) -> Facts:
    """Figures of a service: of latencies what 99 of 100 requests keep."""
    from accelsim.explore.sizing import LATENCIES

    found, service = sized.found, sized.found.service
    ends, count, tokens = found.ends or (), len(found.requests), sum(each.output for each in found.requests)
    times: Facts = {}
    for name, key in LATENCIES.items():
        low, high = (sized.percentile_s(key, each) for each in ends) if ends else (None, None)
        times |= {f"{name}_s": sized.percentile_s(key), f"{name}_low_s": low, f"{name}_high_s": high}
    return {
        **times,
        **_energy(found.joules, (ends and joules_ends(found.joules)) or None, service.span_s, count),
        "tokens_per_s": tokens / service.span_s,
        "energy_per_token_J": found.joules / tokens,
        "replicas": sized.replicas,
        "replicas_low": sized.ends[0],
        "replicas_high": sized.ends[1],
        "devices": sized.replicas * found.last.times.plan.tp,
        "busy": service.busy,
        "dtype": found.devices.dtype,
        "plan": str(found.last.times.plan),
    }


def _trained(found: StepResult, tokens: int | None) -> Facts:
    from accelsim.cluster.step.result import lasting

    whole: Facts = {}
    if tokens:
        all_of_it = lasting(found, int(tokens))
        kept = all_of_it._asdict()
        whole = {f"training_{name}": kept[key] for name, key in TRAINING.items()} | {"days": all_of_it.days}
    return {
        **_ends("latency", found.time_s, found.interval),
        **_energy(found.total_J, found.ends_J, found.time_s, found.batch),
        "tokens_per_s": found.tokens_per_s or None,
        "mfu": found.mfu,
        **whole,
        "dtype": found.dtype,
        "plan": str(found.plan),
        "devices": found.plan.devices,
        "limit": max(found.parts_fs, key=lambda name: found.parts_fs[name]),
    }


TRAINING = {"s": "seconds", "low_s": "low_s", "high_s": "high_s", "steps": "steps", "J": "joules"}
"""Ends of the keys of a whole training -> fields of ``Lasting``."""
