"""Equal replicas of a service: the times of their steps, and their room for keys and values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

from accelsim.account.energy import static_power_W
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.serving.adapters import adapter_B
from accelsim.cluster.serving.devices import Devices
from accelsim.cluster.serving.serve import Asked, check_memory, needs, problems, routing_of
from accelsim.cluster.serving.step import Layout
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.memory import capacity_B, to_host
from accelsim.cluster.step.transformer import Transformer
from accelsim.errors import UsageError, memory_text
from accelsim.serving.adapters import WHERE, Adapters
from accelsim.serving.blocks import TOKENS, Groups, Pool, groups_of
from accelsim.serving.schedulers.registry import Policy
from accelsim.serving.speculate import Speculation
from accelsim.serving.tables import Values
from accelsim.serving.times import Carried, StepTimes
from accelsim.time import FS

LONGEST = 1 << 40
"""Tokens of a request that is longer than any."""

Drafted = tuple[Speculation, Transformer | None]
"""Speculation, and the model that proposes tokens, if it is one."""


@dataclass(frozen=True)
class Group:
    """Equal replicas: how many, times of their steps, ``blocks`` of keys and values of each, of ``block_B`` bytes on
    each device, and static power of one. ``layers`` of the model share a block, in ``groups``. ``adapter_B``: bytes of
    an adapter on each device, 0 without any."""

    count: int
    times: StepTimes
    blocks: int
    block_B: int
    static_W: float
    layers: int
    groups: Groups
    adapter_B: int = 0

    @property
    def schedulers(self) -> int:
        """Schedulers of all replicas: one for each batch that is in a pipeline at one time (vLLM's virtual engines)."""
        return self.count * self.times.plan.pp


def group_of(
    model: Transformer, fleet: Fleet, key: str, policy: Policy, memory: float, count: int, plan: Plan,
    drafted: Drafted | None, adapters: Adapters | None = None,
) -> Group:  # fmt: skip
    """Return replicas of a plan. ``key``: of ``StepTimes``. Raises UsageError and OutOfMemory."""
    devices, models = Devices(fleet, fleet.setting), [model]
    if drafted and drafted[1]:
        models.append(drafted[1])
    UsageError.raise_for(problem for each in models for problem in problems(each, fleet, plan, Asked(plan.data, 1, 1)))
    layouts = [Layout(each, plan, 1, routing_of(fleet)) for each in models]
    windows = [layer.window for layer in model.kinds]
    hybrid = policy.settings.get("hybrid") and not layouts[1:]
    groups, layers = groups_of(windows) if hybrid else (Groups(), len(windows))
    part = Fraction(layers, len(windows))
    each_B = adapter_B(devices, model, plan.tp, adapters.low) if adapters else 0
    slots_B = each_B * adapters.resident if adapters else 0
    page = policy.kind.PAGE
    blocks, block_B = blocks_of(devices, layouts[0], policy.largest, memory, page, layouts[1:], part, slots_B)
    blocks *= plan.ep
    carried = carried_of(adapters, fleet, plan, each_B) if adapters else None
    times = StepTimes(model, devices, plan, swap_of(fleet, plan, block_B), carried=carried, key=key)
    if drafted:
        own = StepTimes(models[-1], devices, plan, key=key)
        times = replace(times, width=drafted[0].tokens + 1, draft=own, share=drafted[0].cost, follows=len(models) > 1)
    static_W = plan.devices * sum(static_power_W(fleet.chips[0]).values())
    return Group(count, times, blocks, block_B, static_W, layers, groups, each_B)


def room_of(group: Group, policy: Policy) -> int:
    """Return the tokens of the longest request that has room on a replica, or on one of its groups of devices."""
    pool = Pool(group.blocks // (group.times.plan.ep * group.times.plan.pp), policy.kind.PAGE, group.groups)
    most = pool.size * pool.tokens if not pool.groups.sliding else LONGEST
    return bisect_right(range(most), pool.size, key=lambda tokens: pool.peak(tokens + 1, policy.largest))


def blocks_of(
    devices: Devices, layout: Layout, budget: int, share: float, page: int = TOKENS, beside: Iterable[Layout] = (),
    part: Fraction = Fraction(1), slots_B: int = 0,
) -> tuple[int, int]:  # fmt: skip
    """Return the blocks of keys and values, each of ``page`` tokens in a ``part`` of the layers, that a replica has
    room for, the least of its stages, and most bytes of one on one device: what ``share`` of its memory leaves after
    weights, slots of adapters (``slots_B``) and a step of ``budget`` tokens. ``beside``: models whose weights, keys and
    values are there too. Raises OutOfMemory for too little memory."""
    check_memory(devices, layout, TOKENS, 1, True, "more devices (--plan tp=N), or a narrower --dtype")
    every, found = [needs(devices, each, page, 0, permanent=True) for each in (layout, *beside)], list[int]()
    blocks_B = [ceil(part * sum(each["keys and values"] for each in stage)) for stage in zip(*every, strict=True)]
    for stage, (parts, block_B) in enumerate(zip(needs(devices, layout, budget, 0), blocks_B, strict=True)):
        room = share * min(capacity_B(devices.fleet.chips[rank]) for rank in layout.plan.stage_ranks(stage))
        held = sum(each[stage]["weights"] for each in every) + parts["activations"] + slots_B
        found.append(floor((room - held) / block_B))
    return min(found), max(blocks_B)


def swap_of(fleet: Fleet, plan: Plan, block_B: int) -> Values | None:
    """Return time (s) and energy (J) in which all devices of a replica send a block to the memory of their host, or get
    it back; None for chips without such a memory."""
    path = to_host(fleet, 0)
    return path and (path.sent_fs(block_B) * FS, plan.tp * block_B * float(path.link.energy))


def carried_of(adapters: Adapters, fleet: Fleet, plan: Plan, each_B: int) -> Carried:
    """Return the adapters of a replica, each of so many bytes on one device; the parts of all devices come from the
    host at one time. Raises UsageError for a host without room for all, and for none where not all have slots."""
    path, total_B = to_host(fleet, 0), plan.tp * each_B * adapters.many
    if path is None and adapters.resident < adapters.many:
        what = f"adapters in the memory of a host, to which {fleet.chips[0].name} has no link"
        raise UsageError(what, WHERE, f"slots for all, resident={adapters.many}, or a chip with one")
    if path is not None and total_B > path.capacity_B:
        what = f"{memory_text(total_B)} of adapters in {memory_text(path.capacity_B)} of the host's memory"
        raise UsageError(what, WHERE, "fewer adapters, or a smaller rank")
    return Carried(adapters.low, swap_of(fleet, plan, each_B) or (0.0, 0.0))
