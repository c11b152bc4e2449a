"""A training step that ends with a flush: pipelines played op by op, gradients, optimiser, memory, energy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import fsum, isfinite

from accelsim.account.spans import peak_mac_rate
from accelsim.cluster.schedules.base import Orders
from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.played import PlayedSchedule, memory_traces
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.energy import energies
from accelsim.cluster.step.fleet import Comm
from accelsim.cluster.step.gradients import synced
from accelsim.cluster.step.memory import OutOfMemory, capacity_B, static_B, to_host
from accelsim.cluster.step.ops import Op, Ops, Planned, ReplicaOps, total
from accelsim.cluster.step.result import NOT_CALIBRATED, Device, Slice, StepResult, Synced
from accelsim.kernels.whole import Interval, together, widened
from accelsim.time import FS


class FlushedStep:
    """A step whose pipelines are played, once for all replicas that are alike, and everything that follows them.

    ``played``: by replica; ``even``: without stragglers; ``ideal``: without stragglers and transfers.
    """

    def __init__(self, planned: Planned) -> None:
        self.planned, self.plan, self.fleet, self.options = planned, planned.plan, planned.fleet, planned.options
        self.orders = self._orders()
        self.transfers = [planned.transfer(stage) for stage in range(self.plan.pp)]
        self.replicas = planned.replicas()
        self.replica_ops = [self._ops(numbers[0]) for numbers in self.replicas]
        self.played = [self._play(ops, self.transfers) for ops in self.replica_ops]
        plain = all(pace == 1.0 for pace in self.fleet.speeds[: self.plan.devices])
        self.even_ops = self.replica_ops[0] if plain else self._ops(0, even=True)
        self.even = self.played[0] if plain else self._play(self.even_ops, self.transfers)
        single = self.plan.pp == 1
        self.ideal = self.even if single else self._play(self.even_ops, [Comm()] * self.plan.pp)

    def _orders(self) -> Orders:
        plan = self.plan
        return schedule(plan.schedule).orders(plan.pp, plan.microbatches, plan.chunks)

    def _ops(self, d: int, even: bool = False) -> ReplicaOps:
        return self.planned.ops(d, even)

    def _play(self, ops: ReplicaOps, transfers: Sequence[Comm]) -> PlayedSchedule:
        forward, backward, weight = ([[op[kind].time_fs for op in stage] for stage in ops] for kind in range(3))
        times, taken = [one.time_fs for one in transfers], [one.taken_fs for one in transfers]
        return play_schedule(self.orders, forward, backward, weight, times, taken)

    def timed(self) -> tuple[dict[str, int], list[Synced], list[Device]]:
        """Return the parts of the time, the end of each stage, and what devices did and held. Raises OutOfMemory for
        devices that hold more than they can."""
        sync = self._synced()
        parts = self._parts(sync)
        devices = self._devices(sync, sum(parts.values()))
        self._check_capacity(devices)
        return parts, sync, devices

    def result(self) -> StepResult:
        """Return everything about the step."""
        parts, sync, devices = self.timed()
        time_fs = sum(parts.values())
        joules, links = energies(self.planned, self.replicas, self.transfers, sync, time_fs)
        wall, work = self.fleet.wall, self.planned.work
        again = sum(piece.costs.again.macs for stage in self.planned.pieces for piece in stage)
        flops = work.sample_flops() * self.planned.batch
        computed_again = 2 * again * self.plan.microbatches * self.plan.dp * self.plan.tp
        formats = dict.fromkeys(self.fleet.costs(each.ranks[0]).dtype for each in devices)
        chips = {chip.name: chip.calibration for chip in self.fleet.chips[: self.plan.devices]}
        return StepResult(
            work.name, self.fleet.name, self.plan, self.planned.batch, self.planned.samples, work.unit,
            work.sample_tokens, time_fs, parts, tuple(devices), flops, flops + computed_again, self._peak(),
            joules, links, {name: each.fitted_on if each else NOT_CALIBRATED for name, each in chips.items()},
            interval=self._interval(parts), dtype=", ".join(formats),
            parts_ends_s=dict(self._collectives_s(parts, sync)),
            wall_J=wall and wall.joules(fsum(joules.values()), self.plan.devices, time_fs * FS),
        )  # fmt: skip

    def _synced(self) -> list[Synced]:
        return synced(self.planned, self.played, self.options)

    def _static_B(self) -> dict[str, list[int]]:
        return static_B(self.planned.pieces, self.plan, self.options.gradient_B)

    def _parts(self, sync: Sequence[Synced]) -> dict[str, int]:
        """Return the parts of the step, see ``PARTS``. Each part is what the step takes longer with it than without."""
        flush = max(int(pipe.makespan_fs) for pipe in self.played)
        reduced, updated, done = (
            max(times) for times in zip(*((s.reduced_fs, s.updated_fs, s.done_fs) for s in sync), strict=True)
        )
        spans = int(self.ideal.makespan_fs), int(self.even.makespan_fs), flush
        after_fs = reduced - flush + done - updated
        return self._parted(spans, after_fs, updated - reduced)

    def _parted(self, spans: tuple[int, int, int], after_fs: int, update_fs: int) -> dict[str, int]:
        """Return parts by the ideal, the even and the real span of the pipelines, collectives and the update after."""
        busiest = max(range(self.plan.pp), key=lambda p: (self.ideal.busy_fs[p], -p))
        ops = (op for chunk in self.even_ops[busiest] for op in chunk)
        spent, (ideal, even, flush) = total(ops, self.plan.microbatches), spans
        return {
            "compute": spent.compute_fs,
            "recompute": spent.again_fs,
            "tensor": spent.tensor_fs,
            "host": spent.host_fs,
            "bubble": ideal - spent.time_fs,
            "pipeline": even - ideal,
            "stragglers": flush - even,
            "data": spent.data_fs + after_fs,
            "offload": spent.offload_fs,
            "optimiser": spent.update_fs + update_fs,
        }

    def _devices(self, sync: Sequence[Synced], time_fs: int) -> list[Device]:
        """The devices that differ: those of a stage by chip and pace."""
        static, pieces = self._static_B(), self.planned.pieces
        stash = [[piece.stash_B for piece in stage] for stage in pieces]
        away = [[piece.offloaded_B for piece in stage] for stage in pieces]
        hosts, found = [0] * self.plan.pp, list[Device]()
        done = max(each.done_fs for each in sync)
        for numbers, ops, pipe in zip(self.replicas, self.replica_ops, self.played, strict=True):
            traces = memory_traces(pipe, stash, static)
            if any(map(any, away)):
                hosts = [trace.peak_stash_B for trace in memory_traces(pipe, away, {})]
            devices = []
            for p, trace in enumerate(traces):
                alike: dict[tuple[int, float], list[int]] = {}
                for rank in (rank for d in numbers for rank in self.plan.tp_group(self.plan.rank(p, d, 0))):
                    alike.setdefault(self.planned.kind(rank), []).append(rank)
                for ranks in alike.values():
                    chip, first = self.fleet.chips[ranks[0]], ranks[0]
                    made = partial(slices, self.planned, ops, pipe, p, first, sync[p], done)
                    same = tuple(sorted(ranks))
                    devices.append(Device(same, p, chip.name, made, trace, capacity_B(chip), hosts[p]))
            found += self._shown(pipe, devices, time_fs)
        return found

    def _shown(self, pipe: PlayedSchedule, devices: list[Device], time_fs: int) -> list[Device]:
        return devices

    def _check_capacity(self, devices: Sequence[Device]) -> None:
        needs = [(device.ranks, device.memory.parts_B(), device.capacity_B) for device in devices if not device.fits]
        for device in devices:
            path = to_host(self.fleet, device.ranks[0]) if device.host_B else None
            if path is not None and device.host_B > path.capacity_B:
                needs.append((device.ranks, {"activations in the host": device.host_B}, path.capacity_B))
        if needs and not self.options.ignore_capacity:
            raise OutOfMemory(self.planned.work.name, needs)

    def _interval(self, parts: Mapping[str, int]) -> Interval | None:
        """Return the interval of the step: the kernels of the stage that computes most are as far off as alone, or all
        as steps are."""
        spent = [
            [each.forward + each.inputs + each.weights + each.again for each in (piece.costs for piece in stage)]
            for stage in self.planned.pieces
        ]
        busiest = max(spent, key=lambda stage: sum(cost.time_fs for cost in stage))
        kernels = [part for cost in busiest for part in cost.parts]
        alone_s, time_fs = sum(part.seconds for part in kernels), sum(parts.values())
        if not alone_s or not time_fs:
            return None
        share = (parts["compute"] + parts["recompute"]) / time_fs
        found = together(kernels).scaled(share, time_fs * FS, alone_s)
        return widened(found, time_fs * FS, f"step: {self.fleet.extent(self.plan.devices)}")

    def _collectives_s(
        self, parts: Mapping[str, int], sync: Sequence[Synced]
    ) -> Iterator[tuple[str, tuple[float, float]]]:
        """Parts of collectives with the ends of their intervals, where the library was measured: what they take longer
        or less by the widest factor of theirs on the stage that sends longest, none of it hidden."""
        many, sent = self.plan.microbatches, dict[str, list[tuple[int, float]]](tensor=[], data=[])
        for p, end in enumerate(sync):
            tensor, data = self.planned.sent_by_tensors(p), self.planned.sent_by_replicas(p)
            sent["tensor"].append((many * tensor.time_fs, tensor.factor))
            after_fs = sum(stop - start for start, stop, _ in end.busy)
            sent["data"].append((many * data.time_fs + after_fs, max(data.factor, end.factor)))
        for name, found in sent.items():
            time_fs, factor = (max(each) for each in zip(*found, strict=True))
            if parts.get(name) and isfinite(factor):
                low, high = parts[name] - time_fs * (1 - 1 / factor), parts[name] + time_fs * (factor - 1)
                yield name, (max(0.0, low) * FS, high * FS)

    def _peak(self) -> float:
        """Operations per second of the cores of all devices that work: each kind of chip is asked once."""
        chips = self.fleet.chips[: self.plan.devices]
        counts = Counter(map(id, chips))
        costs = {id(chip): self.fleet.costs(rank) for rank, chip in enumerate(chips)}
        return sum(2 * counts[kind] * peak_mac_rate(each.working, each.dtype) for kind, each in costs.items())


def slices(
    planned: Planned, ops: ReplicaOps, pipe: PlayedSchedule, stage: int, rank: int, sync: Synced, done_fs: int
) -> tuple[Slice, ...]:
    """Return the timeline of a device: ops of the pipeline, collectives after them, the update, and waits between."""
    found: list[Slice] = []
    now = 0
    for piece in _worked(planned, ops[stage], pipe, stage, rank, sync):
        if piece.start_fs > now:
            found.append(Slice(now, piece.start_fs, "wait", ""))
        if piece.end_fs > max(now, piece.start_fs):
            found.append(piece._replace(start_fs=max(now, piece.start_fs)))
            now = piece.end_fs
    if now < done_fs:
        found.append(Slice(now, done_fs, "wait", ""))
    return tuple(found)


KINDS = {"F": 0, "B": 1, "W": 2}
"""Kind of op -> its place among the ops of a stage."""


def _worked(
    planned: Planned, ops: Sequence[Ops], pipe: PlayedSchedule, stage: int, rank: int, sync: Synced
) -> Iterator[Slice]:
    own = [planned.compute(stage, chunk, [rank]) for chunk in range(planned.plan.chunks)]
    split = any(op.kind == "W" for op in pipe.orders[stage])
    for op, start in zip(pipe.orders[stage], pipe.start_fs[stage], strict=True):
        kinds = (1, 2) if op.kind == "B" and not split else (KINDS[op.kind],)
        at = int(start)
        for kind in kinds:
            yield from _op_slices(at, ops[op.chunk][kind], own[op.chunk][kind], str(op))
            at += ops[op.chunk][kind].time_fs
    sent = [Slice(start, end, "communication", what) for start, end, what in sync.busy]
    yield from (each for each in sent if each.start_fs < sync.updated_fs)
    yield Slice(sync.reduced_fs, sync.updated_fs, "optimiser", "update")
    yield from (each for each in sent if each.start_fs >= sync.updated_fs)


def _op_slices(at: int, group: Op, own: Op, label: str) -> Iterator[Slice]:
    """An op: its own part of computing, the wait for the slowest of the group, collectives."""
    sent_fs = group.tensor_fs + group.data_fs + group.offload_fs
    for kind, mine, all_fs in (
        ("recompute", own.again_fs, group.again_fs),
        ("compute", own.compute_fs, group.compute_fs),
        ("communication", sent_fs, sent_fs),
        ("wait", group.host_fs, group.host_fs),
        ("optimiser", group.update_fs, group.update_fs),
    ):
        if mine:
            yield Slice(at, at + mine, kind, label)
        at += all_fs
