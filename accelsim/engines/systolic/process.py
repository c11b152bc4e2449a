"""The matrix unit: it loads the weights of each fold of all commands in order, and streams the fold.

The load is at most one fold ahead: it may start when the fold before starts to stream (plus what the shadow-load rule
asks), and needs the stationary tile. A fold streams when the fold before has streamed, the weights are in, and, for
the first fold of a command, its activation tile and a free accumulator slot are there. Within one command nothing else
can happen, so its later folds follow from the first in closed form (``engines.systolic.timing``).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, cast

import simpy

from accelsim.engines.device import ACTIVE, BUSY, QUEUE, START, Activity, Cause, Device, History, Process
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.streaming import Timed
from accelsim.program.commands import Command, Wait
from accelsim.program.roles import unit_of
from accelsim.program.work import Folds, Work
from accelsim.time import Clock


class _Loaded(NamedTuple):
    """The load of the stationary operand of a command: its ``first`` edge, that at which the token was there (0 without
    one), and what let the load begin."""

    first: int
    ready: int
    cause: Cause
    wait: Wait | None


class _Rows(NamedTuple):
    """Edges of a command: ``free``, after the last row before; ``ready``, when all but ports is there; ``first``, of
    its first row. ``cause``: what came last; ``shift``: of the stationary operand, which then was shifted in."""

    free: int
    ready: int
    first: int
    cause: Cause
    shift: bool


STREAM = "stream"
"""Event of a product: it streams, or has streamed, and the array can go on with the next."""
WAITS = ("weights", "array", "shift", "activations", "accumulator", "buffer port", "array")
"""Reasons why no row streams before the first of a command, in the order in which they are asked: no weight tile to
shift in, the fold before does not allow the shift yet, the weights are being shifted in, no activation tile, no free
accumulator slot, no free port of a buffer, the array itself is not free."""


class MatrixEngine:
    """One systolic array; ``dataflow`` and ``schedule`` may differ from the spec's when the user asked for it."""

    def __init__(self, context: Device, engine: str, unit: MatrixUnit, clock: Clock, queue: Sequence[Command]) -> None:
        self._context, self._engine, self._unit, self._clock, self._queue = (context, engine, unit, clock, queue)
        self._log = context.logs[engine]
        self._log.listed = (BUSY, "buffer port", *WAITS)
        self._resource = unit_of(engine)
        self._shift = (Activity("weight_shift", self._resource),)
        self._timed: dict[Work, Timed] = {}

    def start(self) -> None:
        """Start the process."""
        self._context.env.process(self._run())

    def _times(self, command: Command) -> Timed:
        work = cast(Folds, command.work)
        timed = self._timed.get(work)
        if timed is None:
            timed = self._timed[work] = Timed(self._unit, self._clock, self._resource, work)
        return timed

    def _run(self) -> Process:
        """Load and stream the folds of each command; the load of its first may begin as soon as the array allows it
        behind the command before (``load``)."""
        released, available, edge = self._context.released, self._context.available, self._clock.edge
        narrow = self._context.narrow_buffer
        free, earliest, load, before = 1, 1, 1, START
        for command in self._queue:
            waits, timed = command.waits, self._times(command)
            at, of_w = released(waits, "w") or (yield from available(waits, "w"))
            there = edge(at) if at else 0
            loaded = _Loaded(max(load, there), there, of_w if of_w and there > load else before, of_w)
            if timed.timing.load and not timed.to_last:
                self._release_weights(command, loaded.first, loaded.first + timed.timing.load - 1)
            at, of_a = released(waits, "a") or (yield from available(waits, "a"))
            a = edge(at) if at else 0
            at, of_acc = released(waits, "acc") or (yield from available(waits, "acc"))
            acc = edge(at) if at else 0
            shifted = loaded.first + timed.timing.load
            ready = max(earliest, shifted, there, a, acc)
            port = 0
            if narrow(command):
                port = yield from self._port(command, timed, ready)
            first = max(ready, port)
            shift = timed.timing.load > 0 and shifted == ready > earliest
            cause: Cause = loaded.cause if shift else before
            if ready > earliest and not shift:
                waited = ((there, of_w), (a, of_a), (acc, of_acc))
                cause = next((wait for came, wait in waited if wait and came == ready), before)
            self._log_time(command.id, timed, free, (there, loaded.first, shifted, a, acc, port, first))
            self._finish(command, timed, loaded, _Rows(free, ready, first, cause, shift))
            last = first + timed.to_last
            free, earliest, load = last + timed.rows, last + timed.timing.interval, last + timed.timing.reload
            before = (command.id, STREAM, QUEUE)

    def _port(self, command: Command, timed: Timed, first: int) -> Generator[simpy.Event, object, int]:
        """First edge at which the buffers have ports free for this command."""
        yield self._context.sleep_until(self._clock.at(first))
        streaming = timed.to_last + timed.rows
        held = yield from self._context.hold_ports(command, self._engine, self._clock.at(streaming))
        return self._clock.edge(held)

    def _log_time(self, command: int, timed: Timed, free: int, limits: tuple[int, ...]) -> None:
        """Log how long rows stream, and why none did from the edge ``free`` on: the first of ``WAITS`` that applies,
        each at most until its one of ``limits``."""
        at, spend, edge, first = self._clock.at, self._log.spend, free, limits[-1]
        if free < first:
            for why, limit in zip(WAITS, limits, strict=True):
                if edge < (end := min(limit, first)):
                    spend(command, why, at(end - 1) - at(edge - 1))
                    edge = end
        spend(command, ACTIVE, timed.active_fs)
        spend(command, "buffer port", timed.port_fs)
        spend(command, timed.gap, timed.gaps_fs)
        spend(command, BUSY, at(first - 1 + timed.edges) - at(first - 1) - timed.gaps_fs - timed.port_fs)

    def _finish(self, command: Command, timed: Timed, loaded: _Loaded, rows: _Rows) -> None:
        """Publish when the operands are read and the sums are complete; check and take them at those times."""
        context, at, first = self._context, self._clock.at, rows.first
        streamed = first + timed.edges - 1
        read = timed.weights_read(loaded.first, first)
        if not timed.timing.load:
            self._release_weights(command, first, read)
        elif timed.to_last:
            self._release_weights(command, loaded.first, read)
        a, first_fs = at(streamed), at(first)
        context.publish(command.id, "a", a)
        context.check_reads(command, "a", first_fs, a)
        context.begin(command, first_fs)
        done = streamed + timed.timing.drain + self._unit.accumulator_latency
        times = at(max(rows.free, loaded.first) - 1), at(first - 1), at(done)
        context.complete(command, times, self._history(command, timed, loaded, rows, (at(read), a)))

    def _history(self, command: Command, timed: Timed, loaded: _Loaded, rows: _Rows, reads: tuple[int, int]) -> History:
        """Return how a command ended; rows that streamed before, while the array shifted, do not count as shift."""
        at, load_fs, early = self._clock.at, self._clock.at(loaded.first - 1), None
        done: tuple[Activity, ...] = (timed.stream,)
        begins: tuple[int, ...] = (at(rows.first - 1),)
        if rows.first > rows.ready:
            done = (Activity("buffer_port", self._context.narrow_buffer(command)), *done)
            begins = (at(rows.ready - 1), *begins)
        if rows.shift:
            done = self._shift + done
            begins = (max(load_fs, at(rows.free - 1)) if rows.cause[2] == QUEUE else load_fs, *begins)
        if timed.timing.load and not timed.to_last:  # released before its first row
            early = ("w", History(loaded.cause, self._shift, (load_fs,)))
        return History(rows.cause, done, begins, early, *reads)

    def _release_weights(self, command: Command, first: int, last: int) -> None:
        self._context.publish(command.id, "w", self._clock.at(last))
        self._context.check_reads(command, "w", self._clock.at(first), self._clock.at(last))
