"""Problems of a plan for a model and a cluster, all at once."""

from __future__ import annotations

from collections.abc import Iterator

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.registry import SCHEDULES
from accelsim.cluster.step.work import Work
from accelsim.errors import Problem, count_of, nearest


def problems(work: Work, devices: int, plan: Plan, batch: int, other: str = "") -> Iterator[Problem]:
    """Each thing that does not fit: devices, widths, layers, microbatches, the schedule's own laws.

    ``other``: what to say of a cluster with as many devices as the plan, see ``Fleet.resized``.
    """
    if plan.devices != devices:
        what = f"dp={plan.dp} x tp={plan.tp} x pp={plan.pp} are {count_of(plan.devices, 'device')}"
        yield Problem(what, "--plan", f"{devices:,}, as many as the cluster has{other}")
    widths = work.widths()
    if plan.tp > 1 and not widths:
        yield Problem(
            f"tp={plan.tp} of {work.name}", "--plan", "tp=1: only decoders are cut into parts of layers here"
        )
    for name, size in widths.items():
        if size % plan.tp:
            yield Problem(f"tp={plan.tp} of {name}={size}", "--plan", f"a number that divides {size}")
    if work.depth() < plan.stages:
        what = f"pp={plan.pp} x chunks={plan.chunks} of {count_of(work.depth(), 'layer')}"
        yield Problem(what, "--plan", f"at most {work.depth()} pieces")
    if plan.sp and plan.tp == 1:
        yield Problem("sp without tensor parallelism", "--plan", "tp=2 or more with it")
    if plan.zero and plan.dp == 1:
        yield Problem(f"zero={plan.zero} of one replica", "--plan", "dp=2 or more with it")
    yield from _batches(plan, batch)
    if plan.schedule not in SCHEDULES:
        expected = "one of " + ", ".join(SCHEDULES)
        yield Problem(f"no schedule {plan.schedule!r}", "--plan", expected, nearest(plan.schedule, SCHEDULES))
    else:
        yield from SCHEDULES[plan.schedule].check(plan.pp, plan.microbatches, plan.chunks)
        yield from _asynchronous(work, plan)


def _asynchronous(work: Work, plan: Plan) -> Iterator[Problem]:
    """Return what needs a pipeline that empties."""
    kind = SCHEDULES[plan.schedule]
    if kind.synchronous:
        return
    if kind.weights.per_update == "microbatch" and plan.microbatches > 1:
        what = f"{plan.microbatches} microbatches with {plan.schedule}, where each is an update"
        yield Problem(what, "--plan", "microbatches=1: minibatches of the whole batch")
    for name, least in (("zero", 0), ("period", 1)):
        if getattr(plan, name) > least:
            what = f"{name}={getattr(plan, name)} with {plan.schedule}"
            yield Problem(what, "--plan", f"{name}={least}, or a schedule that flushes")
    if work.shared_B(plan):
        what = f"layers of {work.name} share weights, whose gradients {plan.schedule} never stops to add up"
        yield Problem(what, "--plan", "a schedule that flushes, or a model without such weights")


def _batches(plan: Plan, batch: int) -> Iterator[Problem]:
    if batch < 1 or batch % plan.dp:
        yield Problem(f"a batch of {batch:,} on {plan.dp} replicas", "--batch", f"a multiple of {plan.dp}")
    elif batch // plan.dp % plan.microbatches:
        what = f"{plan.microbatches} microbatches of {batch // plan.dp:,} samples of a replica"
        yield Problem(what, "--plan", "a number that divides them")
