"""What a device did in a step, piece by piece, without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.cluster.step.gradients import Synced
from accelsim.cluster.step.ops import Op, Planned, Replica
from accelsim.cluster.step.result import Slice


class Shown(NamedTuple):
    """A device of a stage of a replica, and when the step ends."""

    planned: Planned
    replica: Replica
    pipe: PlayedSchedule
    stage: int
    rank: int
    sync: Synced
    done_fs: int


KINDS = {"F": 0, "B": 1, "W": 2}
"""Kind of op -> its place among the ops of a stage."""


def slices(shown: Shown) -> tuple[Slice, ...]:
    """The timeline of a device: ops of the pipeline, collectives behind them, the update, and waits between."""
    found: list[Slice] = []
    now = 0
    for piece in _all(shown):
        if piece.start_fs > now:
            found.append(Slice(now, piece.start_fs, "wait", ""))
        if piece.end_fs > max(now, piece.start_fs):
            found.append(piece._replace(start_fs=max(now, piece.start_fs)))
            now = piece.end_fs
    if now < shown.done_fs:
        found.append(Slice(now, shown.done_fs, "wait", ""))
    return tuple(found)


def _all(shown: Shown) -> Iterator[Slice]:
    own = _own(shown)
    split = any(op.kind == "W" for op in shown.pipe.orders[shown.stage])
    for op, start in zip(shown.pipe.orders[shown.stage], shown.pipe.start_fs[shown.stage], strict=True):
        kinds = (1, 2) if op.kind == "B" and not split else (KINDS[op.kind],)
        at = int(start)
        for kind in kinds:
            group, mine = shown.replica.ops[shown.stage][op.chunk][kind], own[op.chunk][kind]
            yield from _parts(at, group, mine, str(op))
            at += group.time_fs
    for start, end, what in shown.sync.busy:
        if start < shown.sync.updated_fs:
            yield Slice(start, end, "communication", what)
    yield Slice(shown.sync.reduced_fs, shown.sync.updated_fs, "optimiser", "update")
    for start, end, what in shown.sync.busy:
        if start >= shown.sync.updated_fs:
            yield Slice(start, end, "communication", what)


def _parts(at: int, group: Op, own: Op, label: str) -> Iterator[Slice]:
    """An op: its own part of computing, the wait for the slowest of the group, collectives."""
    parts = (
        ("recompute", own.again_fs, group.again_fs), ("compute", own.compute_fs, group.compute_fs),
        ("communication", group.tensor_fs + group.data_fs, group.tensor_fs + group.data_fs),
        ("wait", group.host_fs, group.host_fs), ("optimiser", group.update_fs, group.update_fs),
    )  # fmt: skip
    for kind, mine, all_fs in parts:
        if mine:
            yield Slice(at, at + mine, kind, label)
        at += all_fs


def _own(shown: Shown) -> list[tuple[Op, Op, Op]]:
    """Compute of the device itself by chunk, without collectives."""
    planned, found = shown.planned, []
    for chunk in range(planned.plan.chunks):
        piece = planned.piece(shown.stage, chunk, shown.rank)
        forward, inputs, weights, again = (
            planned.own_fs(shown.rank, cost)
            for cost in (piece.costs.forward, piece.costs.inputs, piece.costs.weights, piece.again)
        )
        found.append((Op(forward), Op(inputs, again), Op(weights)))
    return found
