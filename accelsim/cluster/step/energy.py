"""Joules of a step: ledgers of the devices, links, and what is drawn all the time."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.account.energy import static_power_W
from accelsim.cluster.step.costs import Cost
from accelsim.cluster.step.fleet import Comm
from accelsim.cluster.step.gradients import Synced
from accelsim.cluster.step.ops import Planned, Replica
from accelsim.cluster.step.result import merged_links
from accelsim.time import FS

Links = tuple[tuple[str, int], ...]


def energies(
    planned: Planned,
    replicas: Sequence[Replica],
    transfers: Sequence[Comm],
    sync: Sequence[Synced],
    time_fs: int,
) -> tuple[dict[str, float], dict[str, int]]:
    """(joules by what draws them, bytes over all wires by link) of a whole step."""
    plan, fleet = planned.plan, planned.fleet
    found = dict.fromkeys(("forward", "backward", "recompute", "optimiser", "links"), 0.0)
    busy_W_fs, links = 0.0, list[Links]()
    for replica in replicas:
        for d in replica.numbers:
            for p in range(plan.pp):
                busy_W_fs += _stage(planned, plan.tp_group(plan.rank(p, d, 0)), p, found)
    for p in range(plan.pp):
        joules, moved = _collectives(planned, p)
        found["links"] += joules * plan.dp
        links.append(_times(moved, plan.dp))
        passes = 2 * plan.microbatches * (plan.chunks if p < plan.pp - 1 else plan.chunks - 1)
        found["links"] += transfers[p].energy_J * passes + sync[p].energy_J
        links += [_times(transfers[p].by_link_B, passes), sync[p].by_link_B]
        found["optimiser"] += sync[p].update_J
    idle_W = sum(sum(static_power_W(fleet.chips[rank]).values()) for rank in range(plan.devices))
    found["static, computing"] = busy_W_fs * FS
    found["static, waiting"] = idle_W * time_fs * FS - busy_W_fs * FS
    found["hosts"] = fleet.host_W * plan.devices / fleet.size * time_fs * FS
    return found, merged_links(links)


def _stage(planned: Planned, group: Sequence[int], p: int, found: dict[str, float]) -> float:
    """Adds what the devices of a stage draw to ``found``; W fs of their static power while they compute."""
    m, busy = planned.plan.microbatches, 0.0
    for rank in group:
        watts = sum(static_power_W(planned.fleet.chips[rank]).values())
        for chunk in range(planned.plan.chunks):
            piece = planned.piece(p, chunk, rank)
            found["forward"] += piece.costs.forward.energy_J * m
            found["backward"] += (piece.costs.inputs.energy_J + piece.costs.weights.energy_J) * m
            found["recompute"] += piece.again.energy_J * m
            if watts:
                passes: tuple[Cost, ...] = (
                    piece.costs.forward,
                    piece.costs.inputs,
                    piece.costs.weights,
                    piece.again,
                )
                busy += watts * m * sum(planned.own_fs(rank, cost) for cost in passes)
    return busy


def _collectives(planned: Planned, p: int) -> tuple[float, Links]:
    """Joules and bytes by link of all collectives of a tensor-parallel group of a stage, and of what ZeRO 3 gathers."""
    plan = planned.plan
    joules, moved = 0.0, list[tuple[str, int]]()
    for piece in planned.pieces[p]:
        for calls in piece.calls:
            comm = planned.comm(calls, plan.tp_group(plan.rank(p, 0, 0)))
            joules += comm.energy_J * plan.microbatches
            moved += _times(comm.by_link_B, plan.microbatches)
        if plan.zero == 3 and plan.dp > 1:
            for count in piece.parameters:
                comm = planned.fleet.collective("all_gather", 2 * count, planned.data_groups(p))
                joules += comm.energy_J * 2 * plan.microbatches / plan.dp
                moved += [(name, size * 2 * plan.microbatches // plan.dp) for name, size in comm.by_link_B]
    return joules, tuple(moved)


def _times(links: Links, times: int) -> Links:
    return tuple((name, size * times) for name, size in links)
