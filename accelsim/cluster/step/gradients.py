"""What happens when the pipelines have run: gradients of the replicas added up, the embedding's, the update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.cluster.step.fleet import Comm
from accelsim.cluster.step.ops import Planned, Replica
from accelsim.cluster.step.work import SHORT_B

if TYPE_CHECKING:
    from accelsim.cluster.step.step import Options


class Synced(NamedTuple):
    """The end of the step on the devices of a stage: when gradients are added up, weights updated, all done.

    ``busy``: (start, end, what) of its collectives, in order; ``update_J``, ``energy_J``: of the update on all its
    devices, of its collectives; ``by_link_B``: bytes of these.
    """

    reduced_fs: int
    updated_fs: int
    done_fs: int
    busy: tuple[tuple[int, int, str], ...]
    update_J: float
    energy_J: float
    by_link_B: tuple[tuple[str, int], ...]


def synced(
    planned: Planned, played: Sequence[PlayedSchedule], replicas: Sequence[Replica], options: Options
) -> list[Synced]:
    """The end of each stage. The tied embedding is added up when both its stages have their gradients."""
    stages = [_Stage(planned, played, replicas, options, p) for p in range(planned.plan.pp)]
    shared = planned.work.shared_B(planned.plan)
    if shared:
        tie_ends(planned, stages, shared)
    return [stage.finished() for stage in stages]


class _Stage:
    """One stage behind its last backward pass."""

    def __init__(
        self, planned: Planned, played: Sequence[PlayedSchedule], replicas: Sequence[Replica], options: Options,
        p: int,
    ) -> None:  # fmt: skip
        self.planned, self.plan, self.options, self.p = planned, planned.plan, options, p
        self.comms: list[Comm] = []
        self.busy: list[tuple[int, int, str]] = []
        self.end = max(int(pipe.end_fs[p][-1]) for pipe in played)
        self.reduced = self.end
        if self.plan.dp > 1:
            self._reduce(self._ready(played, replicas) if options.overlap else [])

    @property
    def parameters(self) -> list[int]:
        """By layer, of all chunks."""
        return [count for piece in self.planned.pieces[self.p] for count in piece.parameters]

    def _reduce(self, ready: Sequence[tuple[int, int]]) -> None:
        kind = "all_reduce" if self.plan.zero == 0 else "reduce_scatter"
        groups = self.planned.data_groups(self.p)
        for start, count in ready or [(self.end, sum(self.parameters))]:
            comm = self.planned.fleet.collective(kind, self.options.gradient_B * count, groups)
            self._send(max(start, self.reduced if self.comms else start), comm, kind)

    def _send(self, start: int, comm: Comm, what: str) -> None:
        self.comms.append(comm)
        took = comm.time_fs // self.plan.period
        self.busy.append((start, start + took, what))
        self.reduced = start + took

    def _ready(self, played: Sequence[PlayedSchedule], replicas: Sequence[Replica]) -> list[tuple[int, int]]:
        """(when, parameters) of each bucket: gradients come in the order of the backward pass of the last microbatch of
        each chunk, spread over its time; a bucket is sent when it is full, by then by all replicas."""
        found: list[tuple[int, int]] = []
        for chunk in reversed(range(self.plan.chunks)):
            counts = self.planned.pieces[self.p][chunk].parameters[::-1]
            spans = [_last_span(pipe, self.p, chunk) for pipe in played]
            passed, total = 0, max(1, sum(counts))
            for count in counts:
                passed += count
                found.append(
                    (max(end - (end - start) * (total - passed) // total for start, end in spans), count)
                )
        return _buckets(sorted(found, key=lambda each: each[0]), self.options)

    def finished(self) -> Synced:
        """The update behind the gradients, and with ZeRO 1 and 2 the new weights from all who have a part of them."""
        plan, fleet = self.plan, self.planned.fleet
        count = sum(self.parameters)
        share = -(-count // plan.dp) if plan.zero else count
        ranks = [plan.rank(self.p, d, t) for d in range(plan.dp) for t in range(plan.tp)]
        took = {(id(fleet.chips[rank]), fleet.speeds[rank]): rank for rank in ranks}
        reduced = max(self.end, self.reduced)
        updated = reduced + max(
            self.planned.own_fs(rank, fleet.costs(rank).update(share)) for rank in took.values()
        )
        update_J = sum(fleet.costs(rank).update(share).energy_J for rank in ranks)
        done = updated
        if plan.zero in (1, 2) and plan.dp > 1:
            comm = fleet.collective("all_gather", SHORT_B * count, self.planned.data_groups(self.p))
            self._send(updated, comm, "all_gather")
            done = self.reduced
        links = tuple(link for comm in self.comms for link in comm.by_link_B)
        return Synced(
            reduced,
            updated,
            done,
            tuple(self.busy),
            update_J,
            sum(comm.energy_J for comm in self.comms),
            links,
        )


def _last_span(pipe: PlayedSchedule, device: int, chunk: int) -> tuple[int, int]:
    """Of the last op that makes gradients of weights of a chunk."""
    ops = pipe.orders[device]
    kind = "W" if any(op.kind == "W" for op in ops) else "B"
    at = max(index for index, op in enumerate(ops) if op.kind == kind and op.chunk == chunk)
    return int(pipe.start_fs[device][at]), int(pipe.end_fs[device][at])


def _buckets(found: Sequence[tuple[int, int]], options: Options) -> list[tuple[int, int]]:
    """Layers joined until a bucket is full."""
    made: list[tuple[int, int]] = []
    held = 0
    for index, (when, count) in enumerate(found):
        held += count
        if held * options.gradient_B >= options.bucket_B or index == len(found) - 1:
            made.append((when, held))
            held = 0
    return made


def tie_ends(planned: Planned, stages: Sequence[_Stage], nbytes: int) -> None:
    """The gradients of the embedding on the first and the last stage, added up between the two."""
    plan = planned.plan
    first, last = stages[0], stages[-1]
    pairs = [
        (plan.rank(0, d, t), plan.rank(plan.pp - 1, d, t)) for d in range(plan.dp) for t in range(plan.tp)
    ]
    comm = planned.fleet.collective("all_reduce", nbytes, pairs)
    start = max(first.end, last.end, first.reduced, last.reduced)
    for stage in (first, last):
        stage._send(start, comm if stage is first else comm._replace(energy_J=0.0, by_link_B=()), "embedding")
