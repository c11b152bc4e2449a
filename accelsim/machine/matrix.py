"""The matrix unit: a weight loader and a streamer that walk all folds of all commands in order, each on its own.

The loader is at most one fold ahead: it may start when the fold before starts to stream (plus what the shadow-load
rule asks), and needs the stationary tile. The streamer starts a fold when the fold before has streamed, the weights
are in, and, for the first fold of a command, its activation tile and a free accumulator slot are there. Within one
command nothing else can happen, so its later folds follow from the first in closed form (``array.timing``).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, cast

import simpy

from accelsim.array.timing import FoldTiming, fold_timing
from accelsim.compiler.program import Command, Folds, Wait
from accelsim.machine.clock import Clock
from accelsim.machine.context import Context
from accelsim.machine.run import FoldRecord
from accelsim.machine.sram import acquire
from accelsim.spec.models import MatrixUnit

Process = Generator[simpy.Event, Any, None]


class _Loaded(NamedTuple):
    first: int  # first edge of the first weight load of the command
    ready: int  # first edge at which the weight token was there, 0 without one


class MatrixEngine:
    """One systolic array; ``dataflow`` and ``schedule`` may differ from the spec's when the user asked for it."""

    def __init__(
        self, context: Context, engine: str, unit: MatrixUnit, clock: Clock, queue: Sequence[Command]
    ) -> None:
        self._context, self._engine, self._unit, self._clock, self._queue = (
            context,
            engine,
            unit,
            clock,
            queue,
        )
        self._timings: dict[tuple[int, int], FoldTiming[int]] = {}
        self._loaded = [context.env.event() for _ in queue]
        self._streamed = [context.env.event() for _ in queue]

    def start(self) -> None:
        """Start both processes."""
        self._context.env.process(self._loader())
        self._context.env.process(self._streamer())

    def _timing(self, work: Folds) -> FoldTiming[int]:
        key = (work.rows, work.cycles_per_row)
        if key not in self._timings:
            unit = self._unit
            self._timings[key] = fold_timing(
                unit.rows, unit.cols, unit.dataflow, unit.schedule, unit.shadow_load,
                work.rows * work.cycles_per_row, unit.load_rows_per_clock, unit.min_interval * work.cycles_per_row,
            )  # fmt: skip
        return self._timings[key]

    def _edge_when(self, waits: Sequence[Wait]) -> Generator[simpy.Event, Any, int]:
        available, _ = yield from self._context.milestones.available(waits)
        return self._clock.edge(available)

    def _loader(self) -> Process:
        """Start of the first weight load of each command; the loads of its other folds are the streamer's."""
        earliest = 1
        for index, command in enumerate(self._queue):
            ready = yield from self._edge_when([wait for wait in command.waits if wait.why == "w"])
            if index:
                earliest = yield self._streamed[index - 1]
            first = max(earliest, ready)
            self._loaded[index].succeed(_Loaded(first, ready))
            work = cast(Folds, command.work)
            timing = self._timing(work)
            if work.n == 1 and timing.load:
                self._release_weights(command, first, first + timing.load - 1)

    def _streamer(self) -> Process:
        free = earliest = 1
        for index, command in enumerate(self._queue):
            loaded: _Loaded = yield self._loaded[index]
            work = cast(Folds, command.work)
            timing = self._timing(work)
            ready = {"w": loaded.ready}
            for why in ("a", "acc"):
                ready[why] = yield from self._edge_when([wait for wait in command.waits if wait.why == why])
            first = max(earliest, loaded.first + timing.load, *ready.values())
            ready["port"] = yield from self._port(command, timing, first)
            first = max(first, ready["port"])
            record = self._record(command, timing, free, loaded, first, ready)
            free = first + (record.folds - 1) * record.step + record.rows
            last = first + (record.folds - 1) * record.step
            earliest = last + timing.interval
            self._streamed[index].succeed(last + timing.reload)
            self._finish(command, record, last)

    def _port(
        self, command: Command, timing: FoldTiming[int], first: int
    ) -> Generator[simpy.Event, Any, int]:
        """First edge at which the buffers have ports free for this command, 0 where they always have."""
        ports = self._context.buffers.needed(command)
        if not ports:
            return 0
        work = cast(Folds, command.work)
        yield self._context.sleep_until(self._clock.at(first))
        streaming = (work.n - 1) * timing.step + work.rows * work.cycles_per_row
        held = yield from acquire(ports, self._engine, self._clock.at(streaming))
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
            reload=timing.reload, load=timing.load, rows=rows, folds=work.n,
            done=last + rows - 1 + timing.drain + self._unit.accumulator_latency, ready=ready,
        )  # fmt: skip
        self._context.folds.append(record)
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
        context.milestones.publish(command.id, "a", at(streamed))
        context.check_reads(command, "a", at(record.stream_first), at(streamed))
        context.begin(command, at(record.stream_first))
        context.complete(
            command, at(max(record.free, record.load_first) - 1), at(record.stream_first - 1), at(record.done)
        )
        self._log(record, last)

    def _release_weights(self, command: Command, first: int, last: int) -> None:
        self._context.milestones.publish(command.id, "w", self._clock.at(last))
        self._context.check_reads(command, "w", self._clock.at(first), self._clock.at(last))

    def _log(self, record: FoldRecord, last: int) -> None:
        log, at = self._context.logs[self._engine], self._clock.at
        for start, end, why in gaps(record):
            log.wait(at(start - 1), at(end - 1), why)
        log.busy.append((at(record.stream_first - 1), at(last + record.rows - 1)))
        log.within["shift" if record.load else "array"] += at(
            (record.folds - 1) * (record.step - record.rows)
        )


def gaps(record: FoldRecord) -> list[tuple[int, int, str]]:
    """Why no row was streamed before this command's first: (first edge, edge after the last, reason).

    Each edge has one reason, the first that applies: there is no weight tile to shift in ('weights'), the fold before
    does not allow the shift yet ('array'), the weights are being shifted in ('shift'), there is no activation tile
    ('activations'), no free accumulator slot ('accumulator'), no free port of a buffer ('buffer port'), the array itself is
    not free ('array').
    """
    until = (
        (record.ready["w"], "weights"),
        (record.load_first, "array"),
        (record.load_first + record.load, "shift"),
        (record.ready["a"], "activations"),
        (record.ready["acc"], "accumulator"),
        (record.ready["port"], "buffer port"),
        (record.stream_first, "array"),
    )
    found, edge = [], record.free
    for limit, why in until:
        end = min(limit, record.stream_first)
        if end > edge:
            found.append((edge, end, why))
            edge = end
    return found
