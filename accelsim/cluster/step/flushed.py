"""A training step that ends with a flush: pipelines played op by op, gradients, optimiser, memory, energy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import fsum, isfinite
from typing import NamedTuple

from accelsim.account.spans import peak_mac_rate
from accelsim.cluster.schedules.base import Orders
from accelsim.cluster.schedules.play import play_schedule
from accelsim.cluster.schedules.played import MemoryTrace, PlayedSchedule, memory_traces
from accelsim.cluster.schedules.registry import schedule
from accelsim.cluster.step.energy import energies
from accelsim.cluster.step.fleet import Comm
from accelsim.cluster.step.gradients import Synced, synced
from accelsim.cluster.step.memory import OutOfMemory, capacity_B, static_B, to_host
from accelsim.cluster.step.ops import Op, Ops, Planned, Replica
from accelsim.cluster.step.options import Options
from accelsim.cluster.step.result import NOT_CALIBRATED, Device, Slice, StepResult
from accelsim.kernels.whole import Interval, together, widened
from accelsim.time import FS


class Pipelines(NamedTuple):
    """The pipelines as they run, by replica; without transfers and stragglers; without stragglers."""

    played: list[PlayedSchedule]
    ideal: PlayedSchedule
    even: PlayedSchedule


class Timed(NamedTuple):
    """A step that was played: where its time goes, the end of each stage, what its devices did and held."""

    parts_fs: dict[str, int]
    sync: list[Synced]
    devices: list[Device]

    @property
    def time_s(self) -> float:
        """Seconds of the step."""
        return sum(self.parts_fs.values()) * FS


class Step:
    """A step that is played: pipelines first, then what is behind them."""

    def __init__(self, planned: Planned, options: Options, batch: int) -> None:
        self.planned, self.options, self.batch = planned, options, batch
        self.plan, self.fleet = planned.plan, planned.fleet
        self.orders: Orders = schedule(self.plan.schedule).orders(
            self.plan.pp, self.plan.microbatches, self.plan.chunks
        )
        self.transfers = planned.transfers()
        self.replicas = planned.replicas()

    def timed(self) -> Timed:
        """Play the step. Raises OutOfMemory for devices that hold more than they can."""
        pipelines = self.pipelines()
        sync = self._synced(pipelines)
        parts = self._parts(pipelines, sync)
        devices = self._devices(pipelines.played, sync, sum(parts.values()))
        self._check_capacity(devices)
        return Timed(parts, sync, devices)

    def result(self) -> StepResult:
        """Everything about the step."""
        parts, sync, devices = self.timed()
        time_fs = sum(parts.values())
        joules, links = energies(self.planned, self.replicas, self.transfers, sync, time_fs)
        wall = self.fleet.wall
        return StepResult(
            self.planned.work.name, self.fleet.name, self.plan, self.batch, self.planned.samples,
            self.planned.work.unit, self.planned.work.sample_tokens, time_fs, parts, tuple(devices),
            *self._flops(), self._peak(), joules, links, self._calibrated(),
            interval=self._interval(parts), dtype=", ".join(self._formats(devices)),
            parts_ends_s=dict(self._collectives_s(parts, sync)),
            wall_J=wall and wall.joules(fsum(joules.values()), self.plan.devices, time_fs * FS),
        )  # fmt: skip

    def _formats(self, devices: Sequence[Device]) -> Iterator[str]:
        """Number formats in which the devices compute, each once."""
        yield from dict.fromkeys(self.fleet.costs(each.ranks[0]).dtype for each in devices)

    def pipelines(self) -> Pipelines:
        """Played op by op, one for all replicas that are alike."""
        played = [self._play(replica.ops, self.transfers) for replica in self.replicas]
        plain = all(pace == 1.0 for pace in self.fleet.speeds[: self.plan.devices])
        ops = self.replicas[0].ops if plain else self._even_ops()
        even = played[0] if plain else self._play(ops, self.transfers)
        ideal = self._play(ops, [Comm()] * self.plan.pp) if self.plan.pp > 1 else even
        self.plain_ops = ops
        return Pipelines(played, ideal, even)

    def _even_ops(self) -> tuple[tuple[Ops, ...], ...]:
        """As if all devices kept the pace of their chips."""
        return self.planned.ops(0, even=True)

    def _synced(self, pipelines: Pipelines) -> list[Synced]:
        return synced(self.planned, pipelines.played, self.options)

    def _static_B(self) -> dict[str, list[int]]:
        return static_B(self.planned.pieces, self.plan, self.options.gradient_B)

    def _play(self, ops: Sequence[Sequence[Ops]], transfers: Sequence[Comm]) -> PlayedSchedule:
        forward, backward, weight = (
            [[op[kind].time_fs for op in stage] for stage in ops] for kind in range(3)
        )
        times, taken = [one.time_fs for one in transfers], [one.taken_fs for one in transfers]
        return play_schedule(self.orders, forward, backward, weight, times, taken)

    def _parts(self, pipelines: Pipelines, sync: Sequence[Synced]) -> dict[str, int]:
        """Where the time goes: see ``PARTS``. Each part is what the step takes longer with it than without."""
        flush = max(int(pipe.makespan_fs) for pipe in pipelines.played)
        ideal, even = int(pipelines.ideal.makespan_fs), int(pipelines.even.makespan_fs)
        spent = self._spent_fs(pipelines.ideal)
        reduced = max(each.reduced_fs for each in sync)
        updated = max(each.updated_fs for each in sync)
        done = max(each.done_fs for each in sync)
        return {
            "compute": spent[0], "recompute": spent[1], "tensor": spent[2], "host": spent[4],
            "bubble": ideal - sum(spent),
            "pipeline": even - ideal, "stragglers": flush - even,
            "data": spent[3] + reduced - flush + done - updated, "offload": spent[6],
            "optimiser": updated - reduced,
        }  # fmt: skip

    def _spent_fs(self, ideal: PlayedSchedule) -> list[int]:
        """Return what the ops of the stage that computes most take in a step, by the fields of an ``Op``."""
        busiest = max(range(self.plan.pp), key=lambda p: (ideal.busy_fs[p], -p))
        ops = [op for chunk in self.plain_ops[busiest] for op in chunk]
        return [self.plan.microbatches * sum(taken) for taken in zip(*ops, strict=True)]

    def _devices(
        self, played: Sequence[PlayedSchedule], sync: Sequence[Synced], time_fs: int
    ) -> list[Device]:
        static = self._static_B()
        stash, away = (
            [[getattr(piece, name) for piece in stage] for stage in self.planned.pieces]
            for name in ("stash_B", "offloaded_B")
        )
        found = []
        for replica, pipe in zip(self.replicas, played, strict=True):
            traces = memory_traces(pipe, stash, static)
            hosts = (
                [trace.peak_stash_B for trace in memory_traces(pipe, away, {})] if any(map(any, away)) else []
            )
            stages = [
                self._of_stage(replica, pipe, p, traces[p], sync, hosts[p] if hosts else 0)
                for p in range(self.plan.pp)
            ]
            found += self._shown(pipe, [device for stage in stages for device in stage], time_fs)
        return found

    def _shown(self, pipe: PlayedSchedule, devices: list[Device], time_fs: int) -> list[Device]:
        """The devices of a replica with what they did in the step."""
        return devices

    def _of_stage(
        self, replica: Replica, pipe: PlayedSchedule, p: int, trace: MemoryTrace, sync: Sequence[Synced],
        host_B: int,
    ) -> list[Device]:  # fmt: skip
        """The devices of a stage that differ: those of a tensor-parallel group by chip and pace."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for d in replica.numbers:
            for t in range(self.plan.tp):
                rank = self.plan.rank(p, d, t)
                alike.setdefault((id(self.fleet.chips[rank]), self.fleet.speeds[rank]), []).append(rank)
        done = max(each.done_fs for each in sync)
        return [
            Device(
                tuple(sorted(ranks)), p, self.fleet.chips[ranks[0]].name,
                lambda rank=ranks[0]: slices(Shown(self.planned, replica, pipe, p, rank, sync[p], done)),  # type: ignore[misc]
                trace, capacity_B(self.fleet.chips[ranks[0]]), host_B,
            )
            for ranks in alike.values()
        ]  # fmt: skip

    def _check_capacity(self, devices: Sequence[Device]) -> None:
        needs = [
            (device.ranks, device.memory.parts_B(), device.capacity_B)
            for device in devices
            if not device.fits
        ]
        for device in devices:
            way = to_host(self.fleet, device.ranks[0]) if device.host_B else None
            if way is not None and device.host_B > way.capacity_B:
                needs.append((device.ranks, {"activations in the host": device.host_B}, way.capacity_B))
        if needs and not self.options.ignore_capacity:
            raise OutOfMemory(self.planned.work.name, needs)

    def _interval(self, parts: Mapping[str, int]) -> Interval | None:
        """Return the interval of the step: the kernels of the stage that computes most are as far off as alone, or all
        as steps are."""
        spent = [
            [piece.costs.forward + piece.costs.inputs + piece.costs.weights + piece.again for piece in stage]
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
        stages, many = range(self.plan.pp), self.plan.microbatches
        tensor = [self.planned.sent_by_tensors(p) for p in stages]
        data = [self.planned.sent_by_replicas(p) for p in stages]
        after = [sum(end - start for start, end, _ in each.busy) for each in sync]
        sent = {
            "tensor": [(many * each.time_fs, each.factor) for each in tensor],
            "data": [
                (many * each.time_fs + late, max(each.factor, one.factor))
                for each, late, one in zip(data, after, sync, strict=True)
            ],
        }
        for name, found in sent.items():
            time_fs, factor = (max(each) for each in zip(*found, strict=True))
            if parts.get(name) and isfinite(factor):
                low, high = parts[name] - time_fs * (1 - 1 / factor), parts[name] + time_fs * (factor - 1)
                yield name, (max(0.0, low) * FS, high * FS)

    def _flops(self) -> tuple[int, int]:
        """Of the model, and with what is computed again."""
        again = sum(piece.again.macs for stage in self.planned.pieces for piece in stage)
        of_model = self.planned.work.sample_flops() * self.batch
        return of_model, of_model + 2 * again * self.plan.microbatches * self.plan.dp * self.plan.tp

    def _peak(self) -> float:
        """Operations per second of the cores of all devices that work: each kind of chip is asked once."""
        ranks = {id(self.fleet.chips[rank]): rank for rank in range(self.plan.devices)}
        counts = Counter(id(chip) for chip in self.fleet.chips[: self.plan.devices])
        return sum(
            2 * counts[kind] * peak_mac_rate(self.fleet.costs(rank).working, self.fleet.costs(rank).dtype)
            for kind, rank in ranks.items()
        )

    def _calibrated(self) -> dict[str, str]:
        chips = {chip.name: chip for chip in self.fleet.chips[: self.plan.devices]}
        return {
            name: chip.calibration.fitted_on if chip.calibration else NOT_CALIBRATED
            for name, chip in chips.items()
        }


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
    sent_fs = group.tensor_fs + group.data_fs + group.offload_fs
    parts = (
        ("recompute", own.again_fs, group.again_fs), ("compute", own.compute_fs, group.compute_fs),
        ("communication", sent_fs, sent_fs),
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
