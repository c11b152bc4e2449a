"""Bytes of a training step over every single wire, for a picture of the topology."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.cluster.collectives.software import KINDS
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.fleet import Fleet, Group
from accelsim.cluster.step.ops import Planned
from accelsim.cluster.step.options import PLAIN, Options
from accelsim.cluster.step.tensor import SHORT_B
from accelsim.cluster.step.work import Work
from accelsim.types import Floats


def wire_bytes(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = PLAIN) -> Floats:
    """Bytes by the number of the wire. Collectives go round rings, as ``Fleet.collective`` counts them by link: summed
    over the wires of a link they are ``StepResult.by_link_B`` but for the rounding of each."""
    planned = Planned(work, fleet, plan, batch // plan.dp // plan.microbatches, options)
    found = np.zeros(len(fleet.topology.wires))
    sent = _tied(planned)
    for stage in range(plan.pp):
        sent += [*_tensor(planned, stage), *_data(planned, stage, options), *_pipeline(planned, stage)]
    for kind, nbytes, groups in sent:
        for group in groups:
            _add(found, fleet, kind, nbytes, group)
    return found


Sent = tuple[str, float, Sequence[Group]]
"""Kind of collective, bytes of a whole step, groups that do it."""


def _tensor(planned: Planned, stage: int) -> list[Sent]:
    plan = planned.plan
    groups = [plan.tp_group(plan.rank(stage, d, 0)) for d in range(plan.dp)]
    return [
        (call.kind, float(call.nbytes * call.times * plan.microbatches), groups)
        for piece in planned.pieces[stage]
        for calls in piece.calls
        for call in calls
    ]


def _data(planned: Planned, stage: int, options: Options) -> list[Sent]:
    """Gradients, with ZeRO 2 and 3 those of each microbatch, and with ZeRO the weights that come back; local SGD sends
    both every ``period`` steps."""
    plan = planned.plan
    count = sum(count for piece in planned.pieces[stage] for count in piece.parameters)
    groups = planned.data_groups(stage)
    found: list[Sent] = [
        (
            "all_reduce" if plan.zero == 0 else "reduce_scatter",
            options.sent_B(count) * (plan.microbatches if plan.shares_gradients else 1) / plan.period,
            groups,
        )
    ]
    if plan.zero in (1, 2):
        found.append(("all_gather", SHORT_B * count / plan.period, groups))
    if plan.zero == 3:
        found.append(("all_gather", float(2 * plan.microbatches * SHORT_B * count), groups))
    return found


def _pipeline(planned: Planned, stage: int) -> list[Sent]:
    """Activations to the next stage, and gradients back: over the same wires in the other direction."""
    plan = planned.plan
    to = (stage + 1) % plan.pp
    if to == stage or (to == 0 and plan.chunks == 1):
        return []
    times = plan.microbatches * (plan.chunks if stage < plan.pp - 1 else plan.chunks - 1)
    size = planned.pieces[stage][0].result_B
    places = [(d, t) for d in range(plan.dp) for t in range(plan.tp)]
    part = float(-(-size // plan.tp) * times)
    there = [(plan.rank(stage, d, t), plan.rank(to, d, t)) for d, t in places]
    found: list[Sent] = [("send_recv", part, there), ("send_recv", part, [(b, a) for a, b in there])]
    if plan.tp > 1 and not plan.sp:
        for end in (to, stage):
            found.append(
                (
                    "all_gather",
                    float(size * times),
                    [plan.tp_group(plan.rank(end, d, 0)) for d in range(plan.dp)],
                )
            )
    return found


def _tied(planned: Planned) -> list[Sent]:
    """Gradients of an embedding that is the output projection too, between the first and the last stage."""
    plan, shared = planned.plan, planned.work.shared_B(planned.plan)
    pairs = [
        (plan.rank(0, d, t), plan.rank(plan.pp - 1, d, t)) for d in range(plan.dp) for t in range(plan.tp)
    ]
    return [("all_reduce", shared / plan.period, pairs)] if shared else []


def _add(found: Floats, fleet: Fleet, kind: str, nbytes: float, group: Group) -> None:
    if len(group) < 2 or not nbytes:
        return
    passed = nbytes * KINDS[kind].passes(len(group))
    for wire, share in fleet.loads(kind, group).items():
        found[wire] += passed * share
