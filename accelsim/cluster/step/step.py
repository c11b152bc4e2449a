"""One training step of a plan on a cluster, by the kind of its schedule; the problems of an impossible plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from accelsim.cluster.plan.plan import (
    Plan,
    batch_problems,
    context_problems,
    schedule_problems,
    size_problems,
    update_problems,
)
from accelsim.cluster.schedules.base import Orders
from accelsim.cluster.schedules.played import MemoryTrace, PlayedSchedule
from accelsim.cluster.schedules.registry import SCHEDULES, schedule
from accelsim.cluster.step.fleet import Fleet
from accelsim.cluster.step.flushed import FlushedStep
from accelsim.cluster.step.ops import DEFAULTS, FUSED, Options, Planned, ReplicaOps
from accelsim.cluster.step.result import Device, Slice, StepResult, Synced
from accelsim.cluster.step.work import Work
from accelsim.errors import Infeasible, Problem, UsageError
from accelsim.time import FS


def train_step(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = DEFAULTS) -> StepResult:
    """Simulate one step on ``batch`` samples of all replicas together. ``plan`` has the microbatches of a replica.

    Raises UsageError with all that is wrong of the plan, OutOfMemory for devices that hold more than they can.
    """
    return _played(work, fleet, plan, batch, options).result()


def step_s(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = DEFAULTS) -> float:
    """Return the seconds of such a step without the other results of ``train_step``. Raises as that does."""
    return sum(_played(work, fleet, plan, batch, options).timed()[0].values()) * FS


def _played(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options) -> FlushedStep:
    found = [*problems(work, fleet.size, plan, batch, fleet.resized(plan.devices))]
    kind = SCHEDULES.get(plan.schedule)
    if kind is not None and not kind.synchronous and options.gradients.policy != FUSED.policy:
        what = f"gradients by {options.gradients.policy} with {plan.schedule}, which sums them behind each update"
        found.append(Problem(what, "--gradients", "a schedule that flushes"))
    if options.overlap_gather and plan.zero not in (1, 2):
        what = f"--overlap-gather with zero={plan.zero}, which gathers no new weights behind the update"
        found.append(Problem(what, "--plan", "zero=1 or 2"))
    UsageError.raise_for(found)
    planned = Planned(work, fleet, plan, batch, options)
    return (FlushedStep if schedule(plan.schedule).synchronous else SteadyStep)(planned)


def problems(work: Work, devices: int, plan: Plan, batch: int, other: str = "") -> Iterator[Problem]:
    """Yield each problem of a plan: devices, widths, layers, microbatches, the laws of its schedule. ``other``: see
    ``size_problems``."""
    widths = work.widths()
    yield from size_problems(plan, devices, widths, work.depth(), other, plan.ep)
    yield from context_problems(plan)
    if plan.ep > 1:
        what = f"ep={plan.ep} in a step without values, which knows no exchange of tokens between experts"
        yield Problem(what, "--plan", "'accelsim train', or dp, tp, pp and zero")
    if plan.tp > 1 and not widths:
        yield Problem(f"tp={plan.tp} of {work.name}", "--plan", "tp=1: only decoders are cut into parts of layers here")
    if plan.sp and plan.tp == 1:
        yield Problem("sp without tensor parallelism", "--plan", "tp=2 or more with it")
    if plan.zero and plan.dp == 1:
        yield Problem(f"zero={plan.zero} of one replica", "--plan", "dp=2 or more with it")
    yield from batch_problems(plan, batch)
    yield from schedule_problems(plan)
    if plan.schedule in SCHEDULES and not SCHEDULES[plan.schedule].synchronous:
        yield from _asynchronous(work, plan)


def _asynchronous(work: Work, plan: Plan) -> Iterator[Problem]:
    """Return what needs a pipeline that empties."""
    yield from update_problems(plan)
    for name, least in (("zero", 0), ("period", 1)):
        if getattr(plan, name) > least:
            what = f"{name}={getattr(plan, name)} with {plan.schedule}"
            yield Problem(what, "--plan", f"{name}={least}, or a schedule that flushes")
    if work.shared_B(plan):
        what = f"layers of {work.name} share weights, whose gradients {plan.schedule} never stops to add up"
        yield Problem(what, "--plan", "a schedule that flushes, or a model without such weights")


FILLS = 2
"""Times that a pipeline fills before a step is looked at, and again after it."""


class Window(NamedTuple):
    """The step that is shown: its start and end in the run."""

    start_fs: int
    end_fs: int

    @property
    def took_fs(self) -> int:
        """Duration of the step, fs."""
        return self.end_fs - self.start_fs

    def slices(self, whole: Sequence[Slice], time_fs: int) -> tuple[Slice, ...]:
        """Return the part of a timeline inside the window, from 0, and a wait until ``time_fs``."""
        found = tuple(
            each._replace(
                start_fs=max(each.start_fs, self.start_fs) - self.start_fs,
                end_fs=min(each.end_fs, self.end_fs) - self.start_fs,
            )
            for each in whole
            if each.end_fs > self.start_fs and each.start_fs < self.end_fs
        )
        rest = (Slice(self.took_fs, time_fs, "wait", ""),) if self.took_fs < time_fs else ()
        return (*found, *rest)

    def memory(self, trace: MemoryTrace) -> MemoryTrace:
        """Return the part of a memory trace inside the window; what a device holds at its start is there at 0."""
        times = [max(0, int(time) - self.start_fs) for time in trace.times_fs]
        first = max(index for index, time in enumerate(times) if time == 0)
        inside = [index for index in range(first, len(times)) if times[index] < self.took_fs]
        return MemoryTrace(
            tuple(times[index] for index in inside), tuple(trace.stash_B[index] for index in inside), trace.static_B
        )


class SteadyStep(FlushedStep):
    """A step in the middle of many."""

    def _orders(self) -> Orders:
        m = self.plan.microbatches
        self.rounds = -(-FILLS * self.plan.pp // m) + 1
        stages = range(self.plan.pp)
        counts = [sum(self.planned.parameters(p)) for p in stages]
        self.updates = [
            {rank: self.fleet.costs(rank).update(counts[p]) for rank in self.plan.stage_ranks(p)} for p in stages
        ]
        self.sums = [
            self.fleet.collective("all_reduce", self.options.sent_B(counts[p]), self.planned.data_groups(p))
            for p in stages
        ]
        return schedule(self.plan.schedule).orders(self.plan.pp, 3 * self.rounds * m)

    def _ops(self, d: int, even: bool = False) -> ReplicaOps:
        """Backward passes with what of the sum of gradients they do not hide, and the update."""
        each, found = self.plan.microbatches, []
        for sums, updates, stage in zip(self.sums, self.updates, super()._ops(d, even), strict=True):
            update_fs = max(self.planned.own_fs(rank, cost) for rank, cost in updates.items())
            made = []
            for op in stage:
                hidden = op.backward.compute_fs + op.weight.compute_fs
                data_fs = -(-max(0, sums.time_fs - hidden) // each)
                late = op.backward._replace(data_fs=data_fs, update_fs=-(-update_fs // each))
                made.append(op._replace(backward=late))
            found.append(tuple(made))
        return tuple(found)

    def _window(self, pipes: Sequence[PlayedSchedule]) -> Window:
        """From the end of one batch to the end of the next: the mean of the middle, of the device where it is longest.

        No device takes less than it is busy, which a run that has not settled may seem to show.
        """
        count, found = self.rounds * self.plan.microbatches, Window(0, 0)
        for pipe in pipes:
            for ops, ends, busy in zip(pipe.orders, pipe.end_fs, pipe.busy_fs, strict=True):
                done = [int(end) for op, end in zip(ops, ends, strict=True) if op.kind == "B"]
                took = max(done[2 * count - 1] - done[count - 1], int(busy) // 3) // self.rounds
                if took > found.took_fs:
                    found = Window(done[count - 1], done[count - 1] + took)
        return found

    def _synced(self) -> list[Synced]:
        """Return the sums after the last pass, which nothing follows: joules and bytes of all sums and updates of a
        step."""
        end, found = max(int(pipe.makespan_fs) for pipe in self.played), []
        for comm, updates in zip(self.sums, self.updates, strict=True):
            joules = sum(cost.energy_J for cost in updates.values())
            found.append(Synced(end, end, end, (), joules, comm.energy_J, comm.by_link_B, comm.factor))
        return found

    def _parts(self, sync: Sequence[Synced]) -> dict[str, int]:
        ideal, even, whole = (self._window(pipes) for pipes in ([self.ideal], [self.even], self.played))
        return self._parted((ideal.took_fs, even.took_fs, whole.took_fs), 0, 0)

    def _shown(self, pipe: PlayedSchedule, devices: list[Device], time_fs: int) -> list[Device]:
        """Return devices in their own step; replicas that are done wait for the slowest, whose gradients they need."""
        window = self._window([pipe])
        return [
            replace(
                each,
                made=lambda made=each.made: window.slices(made(), time_fs),  # type: ignore[misc]
                memory=window.memory(each.memory),
            )
            for each in devices
        ]

    def _static_B(self) -> dict[str, list[int]]:
        """With the older versions of the weights."""
        found, weights = super()._static_B(), schedule(self.plan.schedule).weights
        kept = [weights.kept(p, self.plan.pp) - 1 for p in range(self.plan.pp)]
        older = [size * count for size, count in zip(found["weights"], kept, strict=True)]
        return {**found, "older weights": older}


def weak_scaling(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = DEFAULTS) -> list[StepResult]:
    """Simulate steps with 1, 2, 4, ... replicas and those of the plan on the first devices of a fleet, where they
    fit; one replica has nothing to share by ZeRO. ``batch`` is that of the whole plan. Raises as ``train_step``."""
    counts = [1 << power for power in range(plan.dp.bit_length()) if 1 << power < plan.dp]
    each, found = batch // plan.dp, list[StepResult]()
    for count in counts:
        part = replace(plan, dp=count, zero=plan.zero if count > 1 else 0)
        with suppress(Infeasible):
            found.append(train_step(work, fleet.first(part.devices), part, each * count, options))
    return [*found, train_step(work, fleet, plan, batch, options)]
