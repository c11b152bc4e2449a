"""Messages after a piece of a call: sums of a tensor-parallel group, and tokens that go to experts and come back.

A token goes once to each node that has one of its experts, and there once to each device that has one; results come
back in the same way, those of a device added up (DeepEP, https://github.com/deepseek-ai/DeepEP). Between nodes and in
them these are exchanges, ``all_to_all``, at one time: the longer one sets the pace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.fleet import Comm, Fleet, Group

EXCHANGE = "all_to_all"


TENSORS, TOKENS, RING = "tensors", "tokens", "ring"
GROUPS: dict[str, Callable[[Plan, int], list[Group]]] = {
    TENSORS: Plan.tp_groups, TOKENS: Plan.cp_groups, RING: Plan.ring
}  # fmt: skip
"""Devices that take part in a message, by the plan and a stage: those that share tensors, those that share tokens, or
two that follow each other in a ring of these."""


class Sent(NamedTuple):
    """A message: a collective ``among`` devices, see ``GROUPS``, or ``all_to_all`` among those that share experts. In a
    ring it goes while the piece is computed.

    ``elements``: of the collective, or of all tokens of a device, times how much fuller the fullest device is than the
    mean. ``copies``: number of equal parts of the experts -> parts that a token goes to; ``narrow``: in the format of
    the products' inputs.
    """

    kind: str
    elements: int
    copies: Callable[[int], float] | None = None
    narrow: bool = False
    among: str = TENSORS


def sent(fleet: Fleet, plan: Plan, stage: int, message: Sent, nbytes: int) -> Comm:
    """Return the collective of a message of ``nbytes`` in all groups of a stage at once."""
    if message.copies is None:
        return fleet.collective(message.kind, nbytes, GROUPS[message.among](plan, stage))
    groups = plan.ep_groups(stage)
    if plan.ep == 1:
        return Comm()
    nodes = [_by_node(fleet, group) for group in groups]
    sizes = {tuple(map(len, each)) for each in nodes}
    near = ceil(nbytes * message.copies(plan.ep))
    if len(sizes) > 1 or len(set(*sizes)) > 1 or len(nodes[0]) == 1:
        return fleet.collective(message.kind, near, groups)
    peers = [group for each in nodes for group in zip(*each, strict=True)]
    far = ceil(nbytes * message.copies(len(nodes[0])))
    between = fleet.collective(message.kind, far, peers)
    inside = fleet.collective(message.kind, near, [group for each in nodes for group in each])
    both = Comm.joined((between, inside))
    return both._replace(time_fs=max(between.time_fs, inside.time_fs), taken_fs=max(between.taken_fs, inside.taken_fs))


def _by_node(fleet: Fleet, group: Group) -> Sequence[Group]:
    """The members of a group by node."""
    found: dict[int, list[int]] = {}
    for rank in group:
        found.setdefault(fleet.topology.groups[rank], []).append(rank)
    return [tuple(each) for each in found.values()]
