"""Weak scaling: the same plan with fewer replicas, each with the same batch."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.options import PLAIN, Options
from accelsim.cluster.step.result import StepResult
from accelsim.cluster.step.step import train_step
from accelsim.cluster.step.work import Work
from accelsim.errors import Infeasible


def weak_scaling(
    work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = PLAIN
) -> list[StepResult]:
    """Steps with 1, 2, 4, ... replicas and those of the plan, on the first devices of the fleet, without those that do
    not fit; one replica has nothing to share by ZeRO. ``batch`` is that of the whole plan. Raises as ``train_step``."""
    counts = [1 << power for power in range(plan.dp.bit_length()) if 1 << power < plan.dp]
    each, found = batch // plan.dp, list[StepResult]()
    for count in counts:
        part = replace(plan, dp=count, zero=plan.zero if count > 1 else 0)
        with suppress(Infeasible):
            found.append(train_step(work, fleet.first(part.devices), part, each * count, options))
    return [*found, train_step(work, fleet, plan, batch, options)]
