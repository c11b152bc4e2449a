"""One training step of a plan on a cluster, by the kind of its schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from accelsim.cluster.plan.plan import Plan
from accelsim.cluster.schedules.base import Schedule
from accelsim.cluster.schedules.played import MemoryTrace, PlayedSchedule
from accelsim.cluster.schedules.registry import SCHEDULES, schedule
from accelsim.cluster.step.fleet import Comm, Fleet
from accelsim.cluster.step.flushed import Pipelines, Step
from accelsim.cluster.step.gradients import Synced
from accelsim.cluster.step.legal import problems
from accelsim.cluster.step.memory import static_B
from accelsim.cluster.step.ops import Ops, Planned, Replica
from accelsim.cluster.step.options import FUSED, PLAIN, Options
from accelsim.cluster.step.result import Device, Slice, StepResult
from accelsim.cluster.step.work import Work
from accelsim.errors import Problem, UsageError


def train_step(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = PLAIN) -> StepResult:
    """One step on ``batch`` samples of all replicas together. ``plan`` has the microbatches of a replica.

    Raises UsageError with all that is wrong of the plan, OutOfMemory for devices that hold more than they can.
    """
    return _made(work, fleet, plan, batch, options).result()


def step_s(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options = PLAIN) -> float:
    """Return the seconds of such a step, without what else ``train_step`` works out. Raises as that does."""
    return _made(work, fleet, plan, batch, options).timed().time_s


def _made(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options) -> Step:
    _check(work, fleet, plan, batch, options)
    planned = Planned(work, fleet, plan, batch // plan.dp // plan.microbatches, options)
    made = Step if schedule(plan.schedule).synchronous else Steady
    return made(planned, options, batch)


def _check(work: Work, fleet: Fleet, plan: Plan, batch: int, options: Options) -> None:
    found = [*problems(work, fleet.size, plan, batch, fleet.resized(plan.devices))]
    kind = SCHEDULES.get(plan.schedule)
    if kind is not None and not kind.synchronous and options.gradients.policy != FUSED.policy:
        what = f"gradients by {options.gradients.policy} with {plan.schedule}, which sums them behind each update"
        found.append(Problem(what, "--gradients", "a schedule that flushes"))
    if options.overlap_gather and plan.zero not in (1, 2):
        what = f"--overlap-gather with zero={plan.zero}, which gathers no new weights behind the update"
        found.append(Problem(what, "--plan", "zero=1 or 2"))
    if found:
        raise UsageError(found)


FILLS = 2
"""Times that a pipeline fills before a step is looked at, and again after it."""


class Window(NamedTuple):
    """The step that is shown: when it starts and ends in the run."""

    start_fs: int
    end_fs: int

    @property
    def took_fs(self) -> int:
        """Return how long it takes."""
        return self.end_fs - self.start_fs

    def slices(self, all_of: Sequence[Slice], time_fs: int) -> tuple[Slice, ...]:
        """Return what of a timeline lies in it, from 0, and a wait until ``time_fs``."""
        found = tuple(
            each._replace(
                start_fs=max(each.start_fs, self.start_fs) - self.start_fs,
                end_fs=min(each.end_fs, self.end_fs) - self.start_fs,
            )
            for each in all_of
            if each.end_fs > self.start_fs and each.start_fs < self.end_fs
        )
        rest = (Slice(self.took_fs, time_fs, "wait", ""),) if self.took_fs < time_fs else ()
        return (*found, *rest)

    def memory(self, trace: MemoryTrace) -> MemoryTrace:
        """Return the same of what a device holds; what it holds at the start is there at 0."""
        times = [max(0, int(time) - self.start_fs) for time in trace.times_fs]
        first = max(index for index, time in enumerate(times) if time == 0)
        inside = [index for index in range(first, len(times)) if times[index] < self.took_fs]
        return MemoryTrace(
            tuple(times[index] for index in inside),
            tuple(trace.stash_B[index] for index in inside),
            trace.static_B,
        )


class Steady(Step):
    """A step in the middle of many."""

    def __init__(self, planned: Planned, options: Options, batch: int) -> None:
        super().__init__(planned, options, batch)
        m, kind = self.plan.microbatches, self.kind
        self.rounds = -(-FILLS * self.plan.pp // m) + 1
        self.orders = kind.orders(self.plan.pp, 3 * self.rounds * m)
        self.sums = [self._sum(p) for p in range(self.plan.pp)]
        self.update_fs = [self._update_fs(p) for p in range(self.plan.pp)]
        self.replicas = [Replica(each.numbers, self._with_updates(each.ops)) for each in self.replicas]

    @property
    def kind(self) -> Schedule:
        """The schedule."""
        return schedule(self.plan.schedule)

    def _even_ops(self) -> tuple[tuple[Ops, ...], ...]:
        return self._with_updates(super()._even_ops())

    def _parameters(self, p: int) -> int:
        return sum(count for piece in self.planned.pieces[p] for count in piece.parameters)

    def _ranks(self, p: int) -> list[int]:
        return [self.plan.rank(p, d, t) for d in range(self.plan.dp) for t in range(self.plan.tp)]

    def _sum(self, p: int) -> Comm:
        """The gradients of a stage, added up once."""
        count = self._parameters(p)
        if self.plan.dp == 1 or not count:
            return Comm()
        return self.fleet.collective("all_reduce", self.options.sent_B(count), self.planned.data_groups(p))

    def _update_fs(self, p: int) -> int:
        count = self._parameters(p)
        return max(self.planned.own_fs(rank, self.fleet.costs(rank).update(count)) for rank in self._ranks(p))

    def _with_updates(self, ops: Sequence[Sequence[Ops]]) -> tuple[tuple[Ops, ...], ...]:
        """Backward passes with what of the sum of gradients they do not hide, and the update."""
        each, found = self.plan.microbatches, []
        for p, stage in enumerate(ops):
            made = []
            for op in stage:
                hidden = op.backward.compute_fs + op.weight.compute_fs
                data = -(-max(0, self.sums[p].time_fs - hidden) // each)
                late = op.backward._replace(data_fs=data, update_fs=-(-self.update_fs[p] // each))
                made.append(op._replace(backward=late))
            found.append(tuple(made))
        return tuple(found)

    def _span_fs(self, pipes: Sequence[PlayedSchedule]) -> Window:
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

    def _synced(self, pipelines: Pipelines) -> list[Synced]:
        """Nothing is behind a run; joules and bytes of all sums and updates of a step."""
        end, found = max(int(pipe.makespan_fs) for pipe in pipelines.played), []
        for p, comm in enumerate(self.sums):
            count = self._parameters(p)
            joules = sum(self.fleet.costs(rank).update(count).energy_J for rank in self._ranks(p))
            found.append(Synced(end, end, end, (), joules, comm.energy_J, comm.by_link_B, comm.factor))
        return found

    def _parts(self, pipelines: Pipelines, sync: Sequence[Synced]) -> dict[str, int]:
        """As of a step that ends; what a pipeline does not fill is here what its stages wait for the busiest."""
        spent = self._spent_fs(pipelines.ideal)
        ideal, even, whole = (
            self._span_fs(pipes).took_fs for pipes in ([pipelines.ideal], [pipelines.even], pipelines.played)
        )
        return {
            "compute": spent[0], "recompute": spent[1], "tensor": spent[2], "host": spent[4],
            "bubble": ideal - sum(spent), "pipeline": even - ideal, "stragglers": whole - even,
            "data": spent[3], "offload": spent[6], "optimiser": spent[5],
        }  # fmt: skip

    def _shown(self, pipe: PlayedSchedule, devices: list[Device], time_fs: int) -> list[Device]:
        """In their own step; replicas that are done with it wait for the slowest, whose gradients they need."""
        window = self._span_fs([pipe])
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
        found = static_B(self.planned.pieces, self.plan, self.options.gradient_B)
        kept = [self.kind.weights.kept(p, self.plan.pp) - 1 for p in range(self.plan.pp)]
        return {
            **found,
            "older weights": [size * count for size, count in zip(found["weights"], kept, strict=True)],
        }
