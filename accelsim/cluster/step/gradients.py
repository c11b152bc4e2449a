"""End of a step, after the pipelines: gradients of the replicas added up, the embedding's, the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from accelsim.cluster.buckets import Fusion, Gradient, overlap
from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.cluster.step.fleet import Comm
from accelsim.cluster.step.memory import bandwidth_Bps
from accelsim.cluster.step.ops import Planned, beside
from accelsim.cluster.step.tensor import SHORT_B
from accelsim.cluster.step.work import units_of

if TYPE_CHECKING:
    from accelsim.cluster.step.options import Options


class Synced(NamedTuple):
    """The end of the step on the devices of a stage: when gradients are added up, weights updated, all done.

    ``busy``: (start, end, what) of its collectives, in order, of buckets with their copies; ``update_J``, ``energy_J``:
    of the update on all its devices, of its collectives; ``by_link_B``: bytes of these; ``factor``: the widest of their
    intervals. With local SGD each step has its share of what is sent once in a period.
    """

    reduced_fs: int
    updated_fs: int
    done_fs: int
    busy: tuple[tuple[int, int, str], ...]
    update_J: float
    energy_J: float
    by_link_B: tuple[tuple[str, int], ...]
    factor: float = 1.0


def synced(planned: Planned, played: Sequence[PlayedSchedule], options: Options) -> list[Synced]:
    """The end of each stage. The tied embedding is added up when both its stages have their gradients."""
    stages = [_Stage(planned, played, options, p) for p in range(planned.plan.pp)]
    shared = planned.work.shared_B(planned.plan)
    if shared:
        tie_ends(planned, stages, shared)
    return [stage.finished() for stage in stages]


class _Stage:
    """One stage behind its last backward pass."""

    def __init__(self, planned: Planned, played: Sequence[PlayedSchedule], options: Options, p: int) -> None:
        self.planned, self.plan, self.options, self.p = planned, planned.plan, options, p
        self.played, self.comms = played, list[Comm]()
        self.busy: list[tuple[int, int, str]] = []
        self.end = max(int(pipe.end_fs[p][-1]) for pipe in played)
        self.reduced = self.end
        if self.plan.shares_gradients:
            self._scatter_last()
        elif self.plan.dp > 1 and any(self.parameters):
            self._reduce(self._ready(played) if options.overlap else self._behind())

    @property
    def parameters(self) -> list[int]:
        """Parameters by layer, of all chunks."""
        return [count for piece in self.planned.pieces[self.p] for count in piece.parameters]

    def _reduce(self, gradients: Sequence[Gradient]) -> None:
        kind = "all_reduce" if self.plan.zero == 0 else "reduce_scatter"
        fleet, groups = self.planned.fleet, self.planned.data_groups(self.p)
        found = overlap(
            gradients,
            self.end,
            lambda nbytes: fleet.collective(kind, nbytes, groups).time_fs // self.plan.period,
            self._fusion(),
        )
        for bucket in found.buckets:
            comm = fleet.collective(kind, bucket.sent_B, groups)
            self._send(bucket.start_fs, comm, kind, bucket.copy_fs)
        copies = sum(bucket.copy_fs for bucket in found.buckets)
        hidden = max(0, found.busy_fs - copies - found.exposed_fs)
        share = self.planned.taken(self.plan.rank(self.p, 0, 0))
        self.reduced = max(self.end, self.reduced) + beside(hidden, hidden, share)

    def _scatter_last(self) -> None:
        """The rest with ZeRO 2 and 3: the gradients of the first unit of layers, which the last pass makes last,
        unless it waited for its collectives anyway. Their bytes and joules are among those of the passes."""
        piece = self.planned.pieces[self.p][0]
        if not self.options.overlap or not any(piece.parameters):
            return
        first = units_of(piece.parameters)[0]
        comm = self.planned.fleet.collective(
            "reduce_scatter", self.options.sent_B(first), self.planned.data_groups(self.p)
        )
        waited = self.planned.ops(0)[self.p][0].backward.data_fs
        left = comm._replace(time_fs=max(0, comm.time_fs - waited), energy_J=0.0, by_link_B=())
        if left.time_fs:
            self._send(self.end, left, "reduce_scatter")

    def _fusion(self) -> Fusion:
        """As asked for, with copies as fast as the slowest memory; local SGD copies once in a period too."""
        asked, plan, fleet = self.options.gradients, self.plan, self.planned.fleet
        ranks = [plan.rank(self.p, d, t) for d in range(plan.dp) for t in range(plan.tp)]
        chips = {id(fleet.chips[rank]): fleet.chips[rank] for rank in ranks}
        rate = asked.memory_Bps or min(bandwidth_Bps(chip) for chip in chips.values())
        return replace(
            asked, policy=asked.policy if self.options.overlap else "whole", memory_Bps=plan.period * rate
        )

    def _send(self, start: int, comm: Comm, what: str, copy_fs: int = 0) -> None:
        self.comms.append(comm)
        took = copy_fs + comm.time_fs // self.plan.period
        self.busy.append((start, start + took, what))
        self.reduced = start + took

    def _behind(self) -> list[Gradient]:
        """All at once, when the pipelines have run."""
        return [_gradient("all", self.end, sum(self.parameters), self.options)]

    def _ready(self, played: Sequence[PlayedSchedule]) -> list[Gradient]:
        """Those of layers: they come in the order of the backward pass of the last microbatch of each chunk, spread
        over its time, and are ready when all replicas have them."""
        found: list[Gradient] = []
        for chunk in reversed(range(self.plan.chunks)):
            counts = self.planned.pieces[self.p][chunk].parameters[::-1]
            spans = [_last_span(pipe, self.p, chunk) for pipe in played]
            passed, total = 0, max(1, sum(counts))
            for layer, count in enumerate(counts):
                passed += count
                when = max(end - (end - start) * (total - passed) // total for start, end in spans)
                if count:
                    found.append(
                        _gradient(f"chunk {chunk}, layer {layer} from behind", when, count, self.options)
                    )
        return found

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
        joules = {kind: fleet.costs(rank).update(share).energy_J for (kind, _), rank in took.items()}
        update_J = sum(joules[id(fleet.chips[rank])] for rank in ranks)
        done = updated
        if plan.zero in (1, 2) and plan.dp > 1:
            comm = fleet.collective("all_gather", SHORT_B * count, self.planned.data_groups(self.p))
            if self.options.overlap_gather:
                comm = comm._replace(time_fs=self._late_fs())
            self._send(updated, comm, "all_gather")
            done = self.reduced
        links = tuple((name, moved // plan.period) for comm in self.comms for name, moved in comm.by_link_B)
        return Synced(
            reduced,
            updated,
            done,
            tuple(self.busy),
            update_J,
            sum(comm.energy_J for comm in self.comms) / plan.period,
            links,
            max((comm.factor for comm in self.comms), default=1.0),
        )

    def _late_fs(self) -> int:
        """Delay of the next step where its first forward passes hide the all-gather of new weights:
        each unit of layers waits for its own."""
        arrived = late = 0
        for chunk, piece in enumerate(self.planned.pieces[self.p]):
            start, end = min(_first_span(pipe, self.p, chunk) for pipe in self.played)
            before, total = 0, max(1, sum(piece.parameters))
            for count in units_of(piece.parameters):
                nbytes, groups = SHORT_B * count, self.planned.data_groups(self.p)
                arrived += self.planned.fleet.collective("all_gather", nbytes, groups).time_fs
                late = max(late, arrived - start - (end - start) * before // total)
                before += count
        return late


def _first_span(pipe: PlayedSchedule, device: int, chunk: int) -> tuple[int, int]:
    """Return start and end of the first forward pass of a chunk, fs."""
    ops = pipe.orders[device]
    at = next(index for index, op in enumerate(ops) if op.kind == "F" and op.chunk == chunk)
    return int(pipe.start_fs[device][at]), int(pipe.end_fs[device][at])


def _last_span(pipe: PlayedSchedule, device: int, chunk: int) -> tuple[int, int]:
    """Return start and end of the last op that makes gradients of weights of a chunk."""
    ops = pipe.orders[device]
    kind = "W" if any(op.kind == "W" for op in ops) else "B"
    at = max(index for index, op in enumerate(ops) if op.kind == kind and op.chunk == chunk)
    return int(pipe.start_fs[device][at]), int(pipe.end_fs[device][at])


def _gradient(name: str, ready_fs: int, count: int, options: Options) -> Gradient:
    """Return the gradient of so many parameters."""
    return Gradient(name, ready_fs, options.gradient_B * count, options.gradient_format)


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
