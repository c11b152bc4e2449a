"""A training step simulated as one machine, one treatment of copies."""

from __future__ import annotations

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.one_machine import OneMachine, machines
from accelsim.cluster.step.ops import Options
from accelsim.cluster.step.work import Work


def one_machine(
    work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options | None = None, copies: bool = True
) -> OneMachine:
    """Simulate a training step on ``batch`` samples as one machine. ``copies``: see ``in_sequence``.

    Raises UsageError, all problems at once, for plans that are not legal or are more than this does (tensor
    parallelism, ZeRO, averaging now and then), and for clusters and programs that are too large; OutOfMemory.
    """
    return machines(work, fleet, plan, batch, options, (copies,))[0]
