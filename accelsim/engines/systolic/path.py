"""The critical path through a systolic array.

An array loads the next tile while it streams one; a row that streams comes before a load: only the part of a load is a
shift on the path during which nothing streams, if it was the array that let the load begin.
"""

from __future__ import annotations

from typing import cast

from accelsim.engines.device import Point, Walk
from accelsim.engines.systolic.process import leaving_of, timing_of
from accelsim.engines.systolic.records import FoldRecord, held_edges, last_fold, stream_edges, streamed
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.program.commands import Command, Folds, Wait
from accelsim.program.roles import unit_of
from accelsim.time import Clock


class ArrayPath:
    """The way back through the commands of one array; the event 'stream' is somewhere in the time of a MatMul."""

    def __init__(self, walk: Walk, unit: MatrixUnit, clock: Clock) -> None:
        self._walk, self._unit, self._clock = walk, unit, clock

    def back(self, command: Command, event: str) -> Point | None:
        """Go from an event of a MatMul back to what let it happen."""
        walk, record, at = self._walk, self._record(command.id), self._clock.at
        if event == "w" and record.load and record.folds == 1:  # released before its first row
            walk.emit(at(record.load_first - 1), command.id, "weight_shift", unit_of(command.engine))
            return self._load(command, record)
        last, work = streamed(record), cast(Folds, command.work)
        between, behind = leaving_of(self._unit, work)
        late = max(last, self._clock.edge(walk.t) - (behind if event == "done" else between))
        walk.emit(at(late), command.id, "port_width", work.sums)
        walk.emit(at(last), command.id, "fill_drain", unit_of(command.engine))
        self._stream(command, record, min(self._clock.edge(walk.t), last))
        return self._first_row(command, record)

    def _stream(self, command: Command, record: FoldRecord, until: int) -> None:
        """The edges from the first row to ``until``; those that a port held up count as the last."""
        walk, at, work = self._walk, self._clock.at, cast(Folds, command.work)
        rows, sums = held_edges(record, until)
        walk.emit(at(until - sums), command.id, "port_width", work.sums)
        walk.emit(at(until - sums - rows), command.id, "port_width", work.held_by)
        streamed, shifted, idle = stream_edges(record, until)
        edges = streamed - rows, shifted, idle - sums
        walk.emit(at(record.stream_first - 1), command.id, "stream", unit_of(command.engine), edges)

    def _record(self, command: int) -> FoldRecord:
        return cast(FoldRecord, self._walk.record(command))

    def _first_row(self, command: Command, record: FoldRecord) -> Point | None:
        """From the first row of a command to what let it stream."""
        walk, before = self._walk, self._before(command)
        interval = self._interval(before) if before is not None else 1
        shifted = record.load_first + record.load if record.load else 0
        ready = record.ready
        first = max(interval, shifted, ready["w"], ready["a"], ready["acc"])
        walk.check(
            command, record.stream_first == max(first, ready["port"]), f"streams at {record.stream_first}"
        )
        walk.emit(self._clock.at(first - 1), command.id, "buffer_port", walk.buffer(command))
        if first == interval:
            walk.linked("queue" if before is not None else "start")
            return None if before is None else Point(before.command, "stream")
        if first == shifted:
            return self._shift(command, record, before)
        why = next(why for why in ("w", "a", "acc") if ready[why] == first)
        wait, _ = walk.latest(command, why)
        walk.check(command, wait is not None, f"waited for {why}, which nothing gives")
        return walk.follow(command, cast(Wait, wait), first, self._clock)

    def _shift(self, command: Command, record: FoldRecord, before: FoldRecord | None) -> Point | None:
        """The stationary operand came last. If the array let its load begin, what streamed meanwhile counts first."""
        walk, at = self._walk, self._clock.at
        if before is not None and record.load_first == last_fold(before) + before.reload:
            start = max(at(record.load_first - 1), at(streamed(before)))
            walk.emit(start, command.id, "weight_shift", unit_of(command.engine))
            walk.linked("queue")
            return Point(before.command, "stream")
        walk.emit(at(record.load_first - 1), command.id, "weight_shift", unit_of(command.engine))
        return self._load(command, record)

    def _load(self, command: Command, record: FoldRecord) -> Point | None:
        """From the first stationary row of a command to what let it be loaded."""
        walk, before = self._walk, self._before(command)
        earliest = last_fold(before) + before.reload if before is not None else 1
        walk.check(
            command, record.load_first == max(earliest, record.ready["w"]), f"loads at {record.load_first}"
        )
        if record.load_first == earliest:
            walk.linked("queue" if before is not None else "start")
            return None if before is None else Point(before.command, "stream")
        wait, _ = walk.latest(command, "w")
        walk.check(command, wait is not None, "waited for a stationary tile that nothing gives")
        return walk.follow(command, cast(Wait, wait), record.load_first, self._clock)

    def _before(self, command: Command) -> FoldRecord | None:
        before = self._walk.queue_before(command.id)
        return None if before < 0 else self._record(before)

    def _interval(self, record: FoldRecord) -> int:
        """First edge at which the array can stream the next command."""
        work = cast(Folds, self._walk.program.commands[record.command].work)
        return last_fold(record) + timing_of(self._unit, work).interval
