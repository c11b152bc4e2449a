"""End of a step, after the pipelines: gradients of the replicas added up, the embedding's, the update."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accelsim.cluster.buckets import Fusion, Gradient, overlap
from accelsim.cluster.schedules.played import PlayedSchedule
from accelsim.cluster.step.fleet import Comm
from accelsim.cluster.step.memory import bandwidth_Bps
from accelsim.cluster.step.ops import Options, Planned, beside
from accelsim.cluster.step.result import Synced
from accelsim.cluster.step.tensor import SHORT_B
from accelsim.cluster.step.work import units_of


def synced(planned: Planned, played: Sequence[PlayedSchedule], options: Options) -> list[Synced]:
    """Return the end of each stage. The tied embedding is summed when both its stages have their gradients."""
    plan, shared = planned.plan, planned.work.shared_B(planned.plan)
    stages = [_Stage(planned, played, options, p) for p in range(plan.pp)]
    if shared:
        ends = stages[0], stages[-1]
        comm = planned.fleet.collective("all_reduce", shared, planned.tied_pairs())
        start = max(max(stage.end, stage.reduced) for stage in ends)
        for stage in ends:
            stage.send(start, comm, "embedding")
            comm = comm._replace(energy_J=0.0, by_link_B=())
    return [stage.finished() for stage in stages]


class _Stage:
    """One stage after its last backward pass."""

    def __init__(self, planned: Planned, played: Sequence[PlayedSchedule], options: Options, p: int) -> None:
        self.planned, self.plan, self.options, self.p = planned, planned.plan, options, p
        self.fleet, self.groups = planned.fleet, planned.data_groups(p)
        self.played, self.comms = played, list[Comm]()
        self.busy: list[tuple[int, int, str]] = []
        self.end = max(int(pipe.end_fs[p][-1]) for pipe in played)
        self.reduced = self.end
        self.parameters = planned.parameters(p)
        if self.plan.shares_gradients:
            self._scatter_last()
        elif self.plan.dp > 1 and any(self.parameters):
            everything = [self._gradient("all", self.end, sum(self.parameters))]
            self._reduce(self._ready() if options.overlap else everything)

    def _reduce(self, gradients: Sequence[Gradient]) -> None:
        kind = "all_reduce" if self.plan.zero == 0 else "reduce_scatter"
        found = overlap(
            gradients,
            self.end,
            lambda nbytes: self.fleet.collective(kind, nbytes, self.groups).time_fs // self.plan.period,
            self._fusion(),
        )
        for bucket in found.buckets:
            comm = self.fleet.collective(kind, bucket.sent_B, self.groups)
            self.send(bucket.start_fs, comm, kind, bucket.copy_fs)
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
        first_B = self.options.sent_B(units_of(piece.parameters)[0])
        comm = self.fleet.collective("reduce_scatter", first_B, self.groups)
        waited = self.planned.ops(0)[self.p][0].backward.data_fs
        left = comm._replace(time_fs=max(0, comm.time_fs - waited), energy_J=0.0, by_link_B=())
        if left.time_fs:
            self.send(self.end, left, "reduce_scatter")

    def _fusion(self) -> Fusion:
        """Return the fusion as asked for, with copies as fast as the slowest memory; local SGD copies once in a period
        too."""
        asked, chips = self.options.gradients, self.fleet.chips
        kinds = {id(chips[rank]): chips[rank] for rank in self.plan.stage_ranks(self.p)}
        rate = asked.memory_Bps or min(map(bandwidth_Bps, kinds.values()))
        policy = asked.policy if self.options.overlap else "whole"
        return replace(asked, policy=policy, memory_Bps=self.plan.period * rate)

    def send(self, start: int, comm: Comm, what: str, copy_fs: int = 0) -> None:
        """Note a collective of the stage."""
        self.comms.append(comm)
        self.reduced = start + copy_fs + comm.time_fs // self.plan.period
        self.busy.append((start, self.reduced, what))

    def _ready(self) -> list[Gradient]:
        """Return the gradients of layers: they come in the order of the backward pass of the last microbatch of each
        chunk, spread over its time, and are ready when all replicas have them."""
        found: list[Gradient] = []
        kind = "W" if any(op.kind == "W" for op in self.played[0].orders[self.p]) else "B"
        for chunk in reversed(range(self.plan.chunks)):
            counts = self.planned.pieces[self.p][chunk].parameters[::-1]
            spans = [self._spans(pipe, kind, chunk)[-1] for pipe in self.played]
            passed, total = 0, max(1, sum(counts))
            for layer, count in enumerate(counts):
                passed += count
                when = max(end - (end - start) * (total - passed) // total for start, end in spans)
                if count:
                    found.append(self._gradient(f"chunk {chunk}, layer {layer} from behind", when, count))
        return found

    def _spans(self, pipe: PlayedSchedule, kind: str, chunk: int) -> list[tuple[int, int]]:
        times = zip(pipe.orders[self.p], pipe.start_fs[self.p], pipe.end_fs[self.p], strict=True)
        return [(int(a), int(b)) for op, a, b in times if op.kind == kind and op.chunk == chunk]

    def _gradient(self, name: str, ready_fs: int, count: int) -> Gradient:
        return Gradient(name, ready_fs, self.options.gradient_B * count, self.options.gradient_format)

    def finished(self) -> Synced:
        """The update after the gradients, and with ZeRO 1 and 2 the new weights from all who have a part of them."""
        plan, count, ranks = self.plan, sum(self.parameters), self.plan.stage_ranks(self.p)
        share = -(-count // plan.dp) if plan.zero else count
        kinds = {self.planned.kind(rank): rank for rank in ranks}
        costs = {kind: self.fleet.costs(rank).update(share) for kind, rank in kinds.items()}
        reduced = max(self.end, self.reduced)
        done = updated = reduced + max(self.planned.own_fs(kinds[kind], cost) for kind, cost in costs.items())
        update_J = sum(costs[self.planned.kind(rank)].energy_J for rank in ranks)
        if plan.zero in (1, 2) and plan.dp > 1:
            comm = self.fleet.collective("all_gather", SHORT_B * count, self.groups)
            if self.options.overlap_gather:
                comm = comm._replace(time_fs=self._late_fs())
            self.send(updated, comm, "all_gather")
            done = self.reduced
        sent = Comm.joined(self.comms)
        links = tuple((name, moved // plan.period) for name, moved in sent.by_link_B)
        joules = sent.energy_J / plan.period
        return Synced(reduced, updated, done, tuple(self.busy), update_J, joules, links, sent.factor)

    def _late_fs(self) -> int:
        """Delay of the next step where its first forward passes hide the all-gather of new weights:
        each unit of layers waits for its own."""
        arrived = late = 0
        for chunk, piece in enumerate(self.planned.pieces[self.p]):
            start, end = min(self._spans(pipe, "F", chunk)[0] for pipe in self.played)
            before, total = 0, max(1, sum(piece.parameters))
            for count in units_of(piece.parameters):
                arrived += self.fleet.collective("all_gather", SHORT_B * count, self.groups).time_fs
                late = max(late, arrived - start - (end - start) * before // total)
                before += count
        return late
