"""Joules of a step: ledgers of the devices, links, and what is drawn all the time."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.account.energy import static_power_W
from accelsim.cluster.step.fleet import Comm
from accelsim.cluster.step.gradients import Synced
from accelsim.cluster.step.memory import to_host
from accelsim.cluster.step.ops import Planned, Replica
from accelsim.cluster.step.result import merged_links
from accelsim.cluster.step.work import Piece
from accelsim.time import FS

Links = tuple[tuple[str, int], ...]


def energies(
    planned: Planned,
    replicas: Sequence[Replica],
    transfers: Sequence[Comm],
    sync: Sequence[Synced],
    time_fs: int,
) -> tuple[dict[str, float], dict[str, int]]:
    """(joules of devices and links by what draws them, bytes over all wires by link) of a whole step."""
    plan = planned.plan
    found = dict.fromkeys(("forward", "backward", "recompute", "optimiser", "links"), 0.0)
    busy_W_fs, links = 0.0, list[Links]()
    devices = _Devices(planned)
    for replica in replicas:
        for d in replica.numbers:
            for p in range(plan.pp):
                busy_W_fs += devices.add_stage(plan.tp_group(plan.rank(p, d, 0)), p, found)
    for p in range(plan.pp):
        joules, moved = _collectives(planned, p)
        found["links"] += joules * plan.dp
        links.append(_times(moved, plan.dp))
        for piece in planned.pieces[p]:
            for comm, times in ((planned.gathers(p, piece), 2), (planned.scatters(p, piece), 1)):
                found["links"] += comm.energy_J * times * plan.microbatches
                links.append(_times(comm.by_link_B, times * plan.microbatches))
            joules, moved = _offloaded(planned, p, piece)
            found["links"] += joules
            links.append(moved)
        passes = 2 * plan.microbatches * (plan.chunks if p < plan.pp - 1 else plan.chunks - 1)
        found["links"] += transfers[p].energy_J * passes + sync[p].energy_J
        links += [_times(transfers[p].by_link_B, passes), sync[p].by_link_B]
        found["optimiser"] += sync[p].update_J
    idle_W = sum(devices.static_W(rank) for rank in range(plan.devices))
    found["static, computing"] = busy_W_fs * FS
    found["static, waiting"] = idle_W * time_fs * FS - busy_W_fs * FS
    return found, merged_links(links)


class _Devices:
    """What devices draw in a step, worked out once for those of one chip and pace."""

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

    def add_stage(self, group: Sequence[int], p: int, found: dict[str, float]) -> float:
        """Add what the devices of a stage draw to ``found``; W fs of their static power while they compute."""
        busy, fleet = 0.0, self.planned.fleet
        for rank in group:
            key = (p, id(fleet.chips[rank]), fleet.speeds[rank])
            if key not in self._joules:
                self._joules[key] = self._chunks(p, rank)
            for forward, backward, again, computing in self._joules[key]:
                found["forward"] += forward
                found["backward"] += backward
                found["recompute"] += again
                busy += computing
        return busy

    def _chunks(self, p: int, rank: int) -> list[tuple[float, float, float, float]]:
        """Joules of forward passes, backward passes and recomputation of each chunk, W fs while it computes."""
        planned, m, watts = self.planned, self.planned.plan.microbatches, self.static_W(rank)
        found = []
        for chunk in range(planned.plan.chunks):
            piece = planned.piece(p, chunk, rank)
            costs, again = piece.costs, piece.again
            passes = (costs.forward, costs.inputs, costs.weights, again) if watts else ()
            took_fs = sum(planned.own_fs(rank, cost) for cost in passes)
            backward_J = (costs.inputs.energy_J + costs.weights.energy_J) * m
            found.append((costs.forward.energy_J * m, backward_J, again.energy_J * m, watts * m * took_fs))
        return found


def _collectives(planned: Planned, p: int) -> tuple[float, Links]:
    """Joules and bytes by link of all collectives of a tensor-parallel group of a stage."""
    plan = planned.plan
    joules, moved = 0.0, list[tuple[str, int]]()
    for piece in planned.pieces[p]:
        for calls in piece.calls:
            comm = planned.comm(calls, plan.tp_group(plan.rank(p, 0, 0)))
            joules += comm.energy_J * plan.microbatches
            moved += _times(comm.by_link_B, plan.microbatches)
    return joules, tuple(moved)


def _offloaded(planned: Planned, p: int, piece: Piece) -> tuple[float, Links]:
    """Joules and bytes of the activations of a stage to the hosts of its devices and back."""
    plan, nbytes = planned.plan, 2 * piece.offloaded_B * planned.plan.microbatches
    way = to_host(planned.fleet, plan.rank(p, 0, 0)) if nbytes else None
    if way is None:
        return 0.0, ()
    moved = nbytes * plan.dp * plan.tp
    return moved * float(way.link.energy or 0.0), ((way.name, moved),)


def _times(links: Links, times: int) -> Links:
    return tuple((name, size * times) for name, size in links)
