"""One training step of a plan on a cluster, by the kind of its schedule."""

from __future__ import annotations

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.registry import SCHEDULES, schedule
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.flushed import Step
from accelsim.cluster.step.legal import problems
from accelsim.cluster.step.ops import Planned
from accelsim.cluster.step.options import FUSED, PLAIN, Options
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.steady import Steady
from accelsim.cluster.step.work import Work
from accelsim.errors import Problem, UsageError


def train_step(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = PLAIN) -> StepResult:
    """One step on ``batch`` samples of all replicas together. ``plan`` has the microbatches of a replica.

    Raises UsageError with all that is wrong of the plan, OutOfMemory for devices that hold more than they can.
    """
    return _made(work, fleet, plan, batch, options).result()


def step_s(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = PLAIN) -> float:
    """Return the seconds of such a step, without what else ``train_step`` works out. Raises as that does."""
    return _made(work, fleet, plan, batch, options).timed().time_s


def _made(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options) -> Step:
    _check(work, fleet, plan, batch, options)
    planned = Planned(work, fleet, plan, batch // plan.dp // plan.microbatches)
    made = Step if schedule(plan.schedule).synchronous else Steady
    return made(planned, options, batch)


def _check(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options) -> None:
    found = [*problems(work, fleet.size, plan, batch, fleet.resized(plan.devices))]
    kind = SCHEDULES.get(plan.schedule)
    if kind is not None and not kind.synchronous and options.gradients.policy != FUSED.policy:
        what = f"gradients by {options.gradients.policy} with {plan.schedule}, which sums them behind each update"
        found.append(Problem(what, "--gradients", "a schedule that flushes"))
    if found:
        raise UsageError(found)
