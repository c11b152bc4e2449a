"""Problems of a plan for a model, a batch and a number of devices, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from pathlib import Path

from accelsim.cluster.plan.experts import experts_of
from accelsim.cluster.plan.objective import DOUBLE, blocks_of
from accelsim.cluster.plan.placing import split
from accelsim.cluster.plan.plan import (
    Plan,
    batch_problems,
    context_problems,
    schedule_problems,
    size_problems,
    update_problems,
)
from accelsim.cluster.plan.verify import verify
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.errors import ModelError, Problem, UsageError, nearest
from accelsim.workload.graph import Graph
from accelsim.workload.sources.load import split_parameters
from accelsim.workload.training.forward import trainable
from accelsim.workload.training.precision import PRECISIONS
from accelsim.workload.zoo import ZOO

DIVIDED = ("heads", "kv_heads", "hidden", "ffn", "channels")
"""Parameters of models that tensor parallelism divides (others, such as a vocabulary, it may leave whole)."""
WHERE = "--plan"


def sizes_of(model: str | Path) -> dict[str, int]:
    """Return the parameters of a zoo model that tensor parallelism divides; {} for a file."""
    name, given = split_parameters(str(model))
    if name not in ZOO:
        return {}
    params = ZOO[name].sizes(given)
    return {key: params[key] for key in DIVIDED if key in params}


def check(
    plan: Plan,
    graph: Graph,
    batch: int,
    devices: int | None = None,
    sizes: Mapping[str, int] | None = None,
    precision: str = "fp32",
) -> None:
    """Raise UsageError with everything that makes ``plan`` impossible.

    ``graph``: the model with a batch of 1; ``batch``: samples of a step, of all replicas; ``devices``: how many the
    cluster has; ``sizes``: see ``sizes_of``.
    """
    found = [
        *_sizes(plan, graph, devices, sizes or {}),
        *batch_problems(plan, batch),
        *schedule_problems(plan),
        *_replicas(plan),
        *_asynchronous(plan, graph),
        *_precision(precision),
        *_samples(plan, graph),
    ]
    UsageError.raise_for(found)


def _sizes(plan: Plan, graph: Graph, devices: int | None, sizes: Mapping[str, int]) -> Iterator[Problem]:
    layers = 1 + max(blocks_of(graph, {tensor.name for tensor in graph.constants()}).values(), default=0)
    experts = gcd(*experts_of(graph).values())
    yield from size_problems(plan, devices, sizes, layers, experts=experts)
    yield from context_problems(plan)
    if plan.ep > 1 and (plan.tp > 1 or plan.sp):
        yield Problem(f"ep={plan.ep} with tp={plan.tp}", WHERE, "one of the two in a training")
    if plan.sp and plan.tp == 1:
        yield Problem("sp without tensor parallelism", WHERE, "tp=2 or more with it")


def _replicas(plan: Plan) -> Iterator[Problem]:
    for name, value, least in (("zero", plan.zero, 0), ("period", plan.period, 1)):
        if value > least and plan.dp == 1:
            yield Problem(f"{name}={value} with one replica", WHERE, "dp=2 or more with it")
    if plan.zero and plan.period > 1:
        what = f"zero={plan.zero} with period={plan.period}: replicas that differ share nothing out"
        yield Problem(what, WHERE, "one of the two")


def _samples(plan: Plan, graph: Graph) -> Iterator[Problem]:
    """Replicas and microbatches see a part of the batch each: no sample may depend on another.

    Batch normalisation keeps to the statistics of the model, here as on one device, so it passes; statistics of the
    batch do not.
    """
    if plan.data * plan.microbatches == 1:
        return
    samples, scores = dict.fromkeys(graph.inputs, split(0)), dict.fromkeys(graph.outputs, split(0))
    alike = [tensor.name for tensor in graph.constants() if tensor.shape[:1] == (1,)]
    try:
        verify(graph, 2, samples, scores, alike=alike)
    except ModelError as error:
        what = f"samples of {graph.name} cannot be told apart: {error.problems[0]}"
        yield Problem(what, WHERE, "dp=1,microbatches=1, or a model in which no sample depends on another")


def _asynchronous(plan: Plan, graph: Graph) -> Iterator[Problem]:
    schedule = SCHEDULES.get(plan.schedule)
    if schedule is None or schedule.synchronous:
        return
    yield from update_problems(plan)
    if plan.period > 1:
        yield Problem(f"period={plan.period} with {plan.schedule}", WHERE, "a synchronous schedule")
    blocks = blocks_of(graph, {tensor.name for tensor in graph.constants()})
    for name in trainable(graph) if plan.pp > 1 else ():
        if len({blocks[node.name] for node in graph.nodes if name in node.inputs}) > 1:
            what = f"several layers read {name}, whose gradients {plan.schedule} never stops to add up"
            yield Problem(what, WHERE, "a synchronous schedule, or a model without weights that layers share")


def _precision(precision: str) -> Iterator[Problem]:
    plain = [*(name for name, row in PRECISIONS.items() if not row.scaled), DOUBLE]
    expected = "one of " + ", ".join(plain)
    if precision in PRECISIONS and PRECISIONS[precision].scaled:
        what = f"precision {precision} needs a loss scale, which plans do not have"
        yield Problem(what, "--precision", expected)
    elif precision not in plain:
        yield Problem(f"no precision {precision!r}", "--precision", expected, nearest(precision, plain))
