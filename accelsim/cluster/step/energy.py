"""Energy of a step (devices, links, static power), and the bytes that each wire carries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from accelsim.account.energy import static_power_W
from accelsim.cluster.collectives.software import KINDS
from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.step.fleet import Comm, Fleet, Group
from accelsim.cluster.step.memory import to_host
from accelsim.cluster.step.ops import DEFAULTS, Options, Planned
from accelsim.cluster.step.result import Synced
from accelsim.cluster.step.tensor import SHORT_B
from accelsim.cluster.step.work import Piece, Work
from accelsim.time import FS
from accelsim.types import Floats


def energies(
    planned: Planned, replicas: Sequence[Sequence[int]], transfers: Sequence[Comm], sync: Sequence[Synced], time_fs: int
) -> tuple[dict[str, float], dict[str, int]]:
    """Return (joules of devices and links by part, bytes over all wires by link) of a whole step."""
    plan, m = planned.plan, planned.plan.microbatches
    found = dict.fromkeys(("forward", "backward", "recompute", "optimiser", "links"), 0.0)
    links = Counter[str]()
    devices = _Devices(planned)
    busy_W_fs = 0.0
    for d in (d for numbers in replicas for d in numbers):
        for p in range(plan.pp):
            busy_W_fs += devices.add_stage(d, p, found)

    def add(comm: Comm, times: int) -> None:
        found["links"] += comm.energy_J * times
        for name, nbytes in comm.by_link_B:
            links[name] += nbytes * times

    for p in range(plan.pp):
        group = plan.tp_group(plan.rank(p, 0, 0))
        sent = [planned.comm(calls, group) for piece in planned.pieces[p] for calls in piece.calls]
        add(Comm.joined(comm.repeated(m) for comm in sent), plan.dp)
        for piece in planned.pieces[p]:
            add(planned.gathers(p, piece).repeated(2), m)
            add(planned.scatters(p, piece), m)
            add(_offloaded(planned, p, piece), 1)
        passes = 2 * m * (plan.chunks if p < plan.pp - 1 else plan.chunks - 1)
        found["links"] += transfers[p].energy_J * passes + sync[p].energy_J
        for name, nbytes in (*transfers[p].repeated(passes).by_link_B, *sync[p].by_link_B):
            links[name] += nbytes
        found["optimiser"] += sync[p].update_J
    idle_W = sum(devices.static_W(rank) for rank in range(plan.devices))
    found["static, computing"] = busy_W_fs * FS
    found["static, waiting"] = idle_W * time_fs * FS - busy_W_fs * FS
    return found, dict(sorted(links.items()))


class _Devices:
    """Energy of devices in a step, worked out once for those of one chip and pace."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self._watts: dict[int, float] = {}
        self._joules: dict[object, list[tuple[float, float, float, float]]] = {}

    def static_W(self, rank: int) -> float:
        """Static power of a device."""
        chip = self.planned.fleet.chips[rank]
        if id(chip) not in self._watts:
            self._watts[id(chip)] = sum(static_power_W(chip).values())
        return self._watts[id(chip)]

    def add_stage(self, d: int, p: int, found: dict[str, float]) -> float:
        """Add what the devices of a stage draw to ``found``; W fs of their static power while they compute."""
        busy, plan = 0.0, self.planned.plan
        for rank in plan.tp_group(plan.rank(p, d, 0)):
            key = (p, self.planned.kind(rank))
            if key not in self._joules:
                self._joules[key] = [self._chunk(p, chunk, rank) for chunk in range(plan.chunks)]
            for forward, backward, again, computing in self._joules[key]:
                found["forward"] += forward
                found["backward"] += backward
                found["recompute"] += again
                busy += computing
        return busy

    def _chunk(self, p: int, chunk: int, rank: int) -> tuple[float, float, float, float]:
        """Joules of forward passes, backward passes and recomputation of a chunk, W fs while it computes."""
        planned, m, watts = self.planned, self.planned.plan.microbatches, self.static_W(rank)
        costs = planned.piece(p, chunk, rank).costs
        passes = (costs.forward, costs.inputs, costs.weights, costs.again) if watts else ()
        took_fs = sum(planned.own_fs(rank, cost) for cost in passes)
        backward_J = (costs.inputs.energy_J + costs.weights.energy_J) * m
        return costs.forward.energy_J * m, backward_J, costs.again.energy_J * m, watts * m * took_fs


def _offloaded(planned: Planned, p: int, piece: Piece) -> Comm:
    """The activations of a stage to the hosts of its devices and back, in a whole step."""
    plan, nbytes = planned.plan, 2 * piece.offloaded_B * planned.plan.microbatches
    path = to_host(planned.fleet, plan.rank(p, 0, 0)) if nbytes else None
    if path is None:
        return Comm()
    moved = nbytes * plan.dp * plan.tp
    return Comm(energy_J=moved * float(path.link.energy or 0.0), by_link_B=((path.name, moved),))


Sent = tuple[str, float, Sequence[Group]]
"""Kind of collective, bytes of a whole step, groups that do it."""


def wire_bytes(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = DEFAULTS) -> Floats:
    """Return the bytes of a step over every wire, by its number. Collectives go round rings, as in
    ``Fleet.collective``. Summed over the wires of a link they equal ``StepResult.by_link_B``, except for rounding."""
    planned = Planned(work, fleet, plan, batch, options)
    found, shared = np.zeros(len(fleet.topology.wires)), work.shared_B(plan)
    sent: list[Sent] = [("all_reduce", shared / plan.period, planned.tied_pairs())] if shared else []
    for stage in range(plan.pp):
        sent += [*_tensor(planned, stage), *_data(planned, stage), *_pipeline(planned, stage)]
    for kind, nbytes, groups in sent:
        for group in groups:
            if len(group) > 1 and nbytes:
                passed = nbytes * KINDS[kind].passes(len(group))
                for wire, share in fleet.loads(kind, group).items():
                    found[wire] += passed * share
    return found


def _tensor(planned: Planned, stage: int) -> Iterator[Sent]:
    plan = planned.plan
    groups = [plan.tp_group(plan.rank(stage, d, 0)) for d in range(plan.dp)]
    for piece in planned.pieces[stage]:
        for call in (call for calls in piece.calls for call in calls):
            yield call.kind, float(call.nbytes * call.times * plan.microbatches), groups


def _data(planned: Planned, stage: int) -> Iterator[Sent]:
    """Gradients, with ZeRO 2 and 3 those of each microbatch, and with ZeRO the weights that come back; local SGD sends
    both every ``period`` steps."""
    plan, count, groups = planned.plan, sum(planned.parameters(stage)), planned.data_groups(stage)
    times = plan.microbatches if plan.shares_gradients else 1
    kind = "all_reduce" if plan.zero == 0 else "reduce_scatter"
    yield kind, planned.options.sent_B(count) * times / plan.period, groups
    if plan.zero in (1, 2):
        yield "all_gather", SHORT_B * count / plan.period, groups
    if plan.zero == 3:
        yield "all_gather", float(2 * plan.microbatches * SHORT_B * count), groups


def _pipeline(planned: Planned, stage: int) -> Iterator[Sent]:
    """Activations to the next stage, and gradients back: over the same wires in the other direction."""
    plan = planned.plan
    if planned.sends_on(stage):
        times = plan.microbatches * (plan.chunks if stage < plan.pp - 1 else plan.chunks - 1)
        size, (pairs, groups) = planned.pieces[stage][0].result_B, plan.to_next(stage)
        part = float(-(-size // plan.tp) * times)
        yield "send_recv", part, pairs
        yield "send_recv", part, [pair[::-1] for pair in pairs]
        if plan.tp > 1 and not plan.sp:
            own = [plan.tp_group(plan.rank(stage, d, 0)) for d in range(plan.dp)]
            yield "all_gather", float(size * times), groups
            yield "all_gather", float(size * times), own
