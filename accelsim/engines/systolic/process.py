"""The matrix unit: a weight loader and a streamer that walk all folds of all commands in order, each on its own.

The loader is at most one fold ahead: it may start when the fold before starts to stream (plus what the shadow-load
rule asks), and needs the stationary tile. The streamer starts a fold when the fold before has streamed, the weights
are in, and, for the first fold of a command, its activation tile and a free accumulator slot are there. Within one
command nothing else can happen, so its later folds follow from the first in closed form (``engines.systolic.timing``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

import simpy

from accelsim.engines.device import Device, Process
from accelsim.engines.systolic.records import FoldRecord
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.timing import FoldTiming, fold_timing
from accelsim.program.commands import Command, Folds
from accelsim.time import Clock

T = TypeVar("T")


class _Loaded(NamedTuple):
    first: int  # first edge of the first weight load of the command
    ready: int  # first edge at which the weight token was there, 0 without one


class Handoff(Generic[T]):
    """Values that one process gives to the other, in order; taking one that is there already costs no event."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._values: deque[T] = deque()
        self._waiter: simpy.Event | None = None

    def give(self, value: T) -> None:
        """Hand a value over."""
        self._values.append(value)
        if self._waiter is not None:
            self._waiter.succeed()
            self._waiter = None

    def take(self) -> Generator[simpy.Event, Any, T]:
        """The next value, waited for if need be."""
        if not self._values:
            self._waiter = self._env.event()
            yield self._waiter
        return self._values.popleft()


def timing_of(unit: MatrixUnit, work: Folds) -> FoldTiming[int]:
    """Return when the folds of a command follow each other on its array."""
    return fold_timing(
        unit.rows, unit.cols, unit.dataflow, unit.schedule, unit.shadow_load,
        work.rows * work.cycles_per_row, unit.load_rows_per_clock, unit.min_interval * work.cycles_per_row,
        work.leave,
    )  # fmt: skip


def leaving_of(unit: MatrixUnit, work: Folds) -> tuple[int, int]:
    """Return the edges between two folds, and after the last, in which only the port of the sums is in the way."""
    if work.leave == 1:
        return 0, 0
    timing, wide = timing_of(unit, work), timing_of(unit, work._replace(leave=1))
    return timing.step - wide.step, timing.drain - wide.drain


class MatrixEngine:
    """One systolic array; ``dataflow`` and ``schedule`` may differ from the spec's when the user asked for it."""

    def __init__(
        self, context: Device, engine: str, unit: MatrixUnit, clock: Clock, queue: Sequence[Command]
    ) -> None:
        self._context, self._engine, self._unit, self._clock, self._queue = (
            context,
            engine,
            unit,
            clock,
            queue,
        )
        self._timings: dict[Folds, FoldTiming[int]] = {}
        self._loaded: Handoff[_Loaded] = Handoff(context.env)
        self._streamed: Handoff[int] = Handoff(context.env)

    def start(self) -> None:
        """Start both processes."""
        self._context.env.process(self._loader())
        self._context.env.process(self._streamer())

    def _timing(self, work: Folds) -> FoldTiming[int]:
        if work not in self._timings:
            self._timings[work] = timing_of(self._unit, work)
        return self._timings[work]

    def _edge_when(self, command: Command, why: str) -> Generator[simpy.Event, Any, int]:
        available, _ = yield from self._context.available(command.waits, why)
        return self._clock.edge(available) if available else 0

    def _loader(self) -> Process:
        """Start of the first weight load of each command; the loads of its other folds are the streamer's."""
        earliest = 1
        for index, command in enumerate(self._queue):
            ready = yield from self._edge_when(command, "w")
            if index:
                earliest = yield from self._streamed.take()
            first = max(earliest, ready)
            self._loaded.give(_Loaded(first, ready))
            work = cast(Folds, command.work)
            timing = self._timing(work)
            if work.n == 1 and timing.load:
                self._release_weights(command, first, first + timing.load - 1)

    def _streamer(self) -> Process:
        free = earliest = 1
        for command in self._queue:
            loaded = yield from self._loaded.take()
            timing = self._timing(cast(Folds, command.work))
            a = yield from self._edge_when(command, "a")
            acc = yield from self._edge_when(command, "acc")
            ready = {"w": loaded.ready, "a": a, "acc": acc}
            first = max(earliest, loaded.first + timing.load, loaded.ready, a, acc)
            ready["port"] = yield from self._port(command, timing, first)
            first = max(first, ready["port"])
            record = self._record(command, timing, free, loaded, first, ready)
            last = first + (record.folds - 1) * record.step
            free = last + record.rows
            earliest = last + timing.interval
            self._streamed.give(last + timing.reload)
            self._finish(command, record, last)

    def _port(
        self, command: Command, timing: FoldTiming[int], first: int
    ) -> Generator[simpy.Event, Any, int]:
        """First edge at which the buffers have ports free for this command, 0 where they always have."""
        if not self._context.needs_ports(command):
            return 0
        work = cast(Folds, command.work)
        yield self._context.sleep_until(self._clock.at(first))
        streaming = (work.n - 1) * timing.step + work.rows * work.cycles_per_row
        held = yield from self._context.hold_ports(command, self._engine, self._clock.at(streaming))
        return self._clock.edge(held)

    def _record(
        self,
        command: Command,
        timing: FoldTiming[int],
        free: int,
        loaded: _Loaded,
        first: int,
        ready: dict[str, int],
    ) -> FoldRecord:
        work = cast(Folds, command.work)
        rows = work.rows * work.cycles_per_row
        last = first + (work.n - 1) * timing.step
        record = FoldRecord(
            command=command.id, free=free, load_first=loaded.first, stream_first=first, step=timing.step,
            reload=timing.reload, load=timing.load, rows=rows, folds=work.n, held=work.held,
            leaving=leaving_of(self._unit, work)[0],
            done=last + rows - 1 + timing.drain + self._unit.accumulator_latency, ready=ready,
        )  # fmt: skip
        self._context.records.append(record)
        return record

    def _finish(self, command: Command, record: FoldRecord, last: int) -> None:
        """Publish when the operands are read and the sums are complete; check and take them at those times."""
        context, at = self._context, self._clock.at
        streamed = last + record.rows - 1
        if not record.load:
            self._release_weights(command, record.stream_first, streamed)
        elif record.folds > 1:
            self._release_weights(
                command, record.load_first, last - record.step + record.reload + record.load - 1
            )
        context.publish(command.id, "a", at(streamed))
        context.check_reads(command, "a", at(record.stream_first), at(streamed))
        context.begin(command, at(record.stream_first))
        context.complete(
            command, at(max(record.free, record.load_first) - 1), at(record.stream_first - 1), at(record.done)
        )

    def _release_weights(self, command: Command, first: int, last: int) -> None:
        self._context.publish(command.id, "w", self._clock.at(last))
        self._context.check_reads(command, "w", self._clock.at(first), self._clock.at(last))
