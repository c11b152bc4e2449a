"""Whole training on a cluster: what a plan learns, compared with one device, and the cost of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import gcd
from pathlib import Path

import numpy as np

from accelsim.cluster.plan.check import check, sizes_of
from accelsim.cluster.plan.experts import experts_of
from accelsim.cluster.plan.objective import objective
from accelsim.cluster.plan.plan import Plan, parse_plan
from accelsim.cluster.plan.shard import shard_objective
from accelsim.cluster.step.fleet import fleet_of
from accelsim.cluster.step.step import train_step
from accelsim.cluster.values.parallel import Batch, Parallel
from accelsim.cluster.values.trained import EXACT, ClusterTraining, Curve, differing, synchronous
from accelsim.cluster.values.work import GraphWork
from accelsim.errors import AccelsimError, Gather, count_of, known
from accelsim.explore.training import accuracy
from accelsim.explore.training_inputs import BATCH, Setup, prepare, trained_model
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.yaml.clusters import load_cluster
from accelsim.threads import one_blas_thread
from accelsim.workload.graph import Graph
from accelsim.workload.sources.datasets import batches, one_hot
from accelsim.workload.training import SGD, Adam, with_weights
from accelsim.workload.training.forward import logits_of

PERIOD = 8
"""Steps between two averagings where local SGD is drawn beside a plan without a period."""


@dataclass(frozen=True)
class _Job:
    """Settings that all trainings of a call have in common."""

    setup: Setup
    model: Callable[[int], Graph]
    data: tuple[Batch, ...]
    precision: str

    def run(self, plan: Plan) -> Curve:
        """One training."""
        rule, batch = self.setup.rule, self.setup.batch
        together = plan.microbatches * (plan.data if plan.period == 1 else plan.ep)
        samples = batch // plan.data // plan.microbatches
        made = objective(self.model(samples), together, plan.stages, self.precision)
        training = Parallel(made, plan, rule, rule.lr)
        losses = training.run(self.data)
        weights = training.weights()
        learnt = with_weights(self.setup.graph, weights)
        arrays = self.setup.data
        return Curve(plan, np.asarray(losses), weights, accuracy(learnt, arrays.x_test, arrays.y_test))


@one_blas_thread
def train_on_cluster(
    model: str | Path,
    data: str | Path = "",
    *,
    on: str | Path | ClusterSpec,
    plan: str | Plan,
    steps: int = 20,
    batch: int | None = None,
    lr: float | None = None,
    optimiser: str | SGD | Adam = "sgd",
    precision: str = "fp32",
    seed: int = 0,
    compare: Sequence[str] = (),
    set: Sequence[str] = (),
) -> ClusterTraining:
    """Train ``model`` for ``steps`` batches on every device of the cluster ``on``, with values, under ``plan``.

    The same training on one device runs too. ``compare``: names of ``COMPARED`` to train beside them. ``precision``: as
    for ``train``, those without a loss scale, and 'fp64'. ``set``: overrides of the cluster's spec; the rest as for
    ``accelsim.explore.training.train``. Raises UsageError, ModelError, SpecError with everything that is wrong.
    """
    wanted = parse_plan(plan) if isinstance(plan, str) else plan
    gather = Gather()
    setup = cluster = None
    for name in compare:
        with gather.also():
            known("comparison", name, COMPARED)
    with gather.also():
        cluster = on if isinstance(on, ClusterSpec) else load_cluster(on, set)
    with gather.also():
        setup = prepare(model, data, steps=steps, batch=batch, lr=lr, optimiser=optimiser, seed=seed)
    with suppress(AccelsimError):  # told by ``prepare``
        graph, size = trained_model(model, 1, seed), None if cluster is None else cluster.size
        with gather.also():
            check(wanted, graph, batch or BATCH, size, sizes_of(model), precision)
    gather.done()
    assert cluster is not None and setup is not None
    job = _Job(setup, lambda size: trained_model(model, size, seed), _data(setup, steps, seed), precision)
    trained = job.run(wanted)
    alone = job.run(Plan(microbatches=wanted.data * wanted.microbatches))
    others = {name: job.run(COMPARED[name](wanted, job)) for name in dict.fromkeys(compare)}
    origin = f"training on {cluster.name}, {count_of(steps, 'step')}"
    learnt = with_weights(setup.graph, trained.weights, origin)
    shares = wanted.ep > 1  # its ranks are next to each other, as those of a tensor-parallel group
    experts = {"experts": gcd(*experts_of(setup.graph).values())}
    work = GraphWork(setup.graph.name, job.model, experts if shares else sizes_of(model), experts=shares)
    timed = replace(wanted, tp=wanted.ep, ep=1) if shares else wanted
    step = train_step(work, fleet_of(cluster), timed, setup.batch)
    cut = objective(job.model(1), 1, wanted.stages) if wanted.tp > 1 else None
    notes = tuple(shard_objective(cut, wanted.tp, wanted.sp).notes) if cut else ()
    asked = (setup.graph.name, cluster.name, wanted, precision, setup.batch, seed)
    wide = _in_fp64(wanted, job, trained, alone)
    return ClusterTraining(*asked, trained, alone, others, learnt, step, notes, wide)


def _in_fp64(plan: Plan, job: _Job, trained: Curve, alone: Curve) -> float | None:
    """Return how far both are apart in FP64, where they are farther apart in FP32 than another order of sums
    explains."""
    if not synchronous(plan) or job.precision != "fp32" or differing(trained, alone)[1] <= EXACT["fp32"]:
        return None
    wide = replace(job, precision="fp64")
    return differing(wide.run(plan), wide.run(Plan(microbatches=plan.data * plan.microbatches)))[1]


def _data(setup: Setup, steps: int, seed: int) -> tuple[Batch, ...]:
    """The batches of a training on one device, in their order."""
    arrays = setup.data
    classes = setup.graph.tensors[logits_of(setup.graph)].shape[1]
    drawn = islice(batches(arrays.x, arrays.y, setup.batch, seed), steps)
    return tuple((x, one_hot(y, classes)) for x, y in drawn)


def _local(plan: Plan, job: _Job) -> Plan:
    dp = plan.dp if plan.dp > 1 else plan.devices
    return Plan(dp=dp, period=plan.period if plan.period > 1 else PERIOD)


def _pipedream(plan: Plan, job: _Job) -> Plan:
    layers = 1 + max(objective(job.model(1)).block.values())
    return Plan(pp=min(layers, plan.pp if plan.pp > 1 else plan.devices), schedule="pipedream")


COMPARED: dict[str, Callable[[Plan, _Job], Plan]] = {
    "plain": lambda plan, job: Plan(),
    "local-sgd": _local,
    "pipedream": _pipedream,
    "pipedream-vertical": lambda plan, job: replace(_pipedream(plan, job), schedule="pipedream-vertical"),
}
"""Trainings to compare with a plan, by name: one device on whole batches, and trainings that see other weights."""
