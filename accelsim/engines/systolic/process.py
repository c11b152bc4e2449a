"""The matrix unit: a weight loader and a streamer that walk all folds of all commands in order, each on its own.

The loader is at most one fold ahead: it may start when the fold before starts to stream (plus what the shadow-load
rule asks), and needs the stationary tile. The streamer starts a fold when the fold before has streamed, the weights
are in, and, for the first fold of a command, its activation tile and a free accumulator slot are there. Within one
command nothing else can happen, so its later folds follow from the first in closed form (``engines.systolic.timing``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import Generic, NamedTuple, TypeVar, cast

import simpy

from accelsim.engines.device import ACTIVE, BUSY, QUEUE, START, Activity, Cause, Device, History, Process
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.engines.systolic.streaming import Timed
from accelsim.program.commands import Command, Wait
from accelsim.program.roles import unit_of
from accelsim.program.work import Folds, Work
from accelsim.time import Clock

T = TypeVar("T")


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

    def take(self) -> Generator[simpy.Event, object, T]:
        """Return the next value; wait for it if it has not been given yet."""
        if not self._values:
            self._waiter = self._env.event()
            yield self._waiter
        return self._values.popleft()


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
        self._loaded: Handoff[_Loaded] = Handoff(context.env)
        self._streamed: Handoff[int] = Handoff(context.env)

    def start(self) -> None:
        """Start both processes."""
        self._context.env.process(self._loader())
        self._context.env.process(self._streamer())

    def _times(self, command: Command) -> Timed:
        if command.work not in self._timed:
            work = cast(Folds, command.work)
            self._timed[work] = Timed(self._unit, self._clock, self._resource, work)
        return self._timed[command.work]

    def _edge_when(self, command: Command, why: str) -> Generator[simpy.Event, object, tuple[int, Wait | None]]:
        available, wait = yield from self._context.available(command.waits, why)
        return self._clock.edge(available) if available else 0, wait

    def _loader(self) -> Process:
        """Start of the first weight load of each command; the loads of its other folds are the streamer's."""
        earliest, before = 1, START
        for index, command in enumerate(self._queue):
            ready, wait = yield from self._edge_when(command, "w")
            if index:
                earliest = yield from self._streamed.take()
            first, timed = max(earliest, ready), self._times(command)
            self._loaded.give(_Loaded(first, ready, wait if wait and ready > earliest else before, wait))
            if timed.timing.load and not timed.to_last:
                self._release_weights(command, first, first + timed.timing.load - 1)
            before = (command.id, STREAM, QUEUE)

    def _streamer(self) -> Process:
        free, earliest, before = 1, 1, START
        for command in self._queue:
            loaded = yield from self._loaded.take()
            timed = self._times(command)
            shifted = loaded.first + timed.timing.load
            a, of_a = yield from self._edge_when(command, "a")
            acc, of_acc = yield from self._edge_when(command, "acc")
            ready = max(earliest, shifted, loaded.ready, a, acc)
            port = yield from self._port(command, timed, ready)
            first = max(ready, port)
            shift = timed.timing.load > 0 and shifted == ready > earliest
            cause: Cause = loaded.cause if shift else before
            if ready > earliest and not shift:
                waits = ((loaded.ready, loaded.wait), (a, of_a), (acc, of_acc))
                cause = next((wait for edge, wait in waits if wait and edge == ready), before)
            limits = loaded.ready, loaded.first, shifted, a, acc, port, first
            self._log_time(command.id, timed, free, limits)
            self._finish(command, timed, loaded, _Rows(free, ready, first, cause, shift))
            last = first + timed.to_last
            free, earliest = last + timed.rows, last + timed.timing.interval
            before = (command.id, STREAM, QUEUE)
            self._streamed.give(last + timed.timing.reload)

    def _port(self, command: Command, timed: Timed, first: int) -> Generator[simpy.Event, object, int]:
        """First edge at which the buffers have ports free for this command, 0 where they always have."""
        if not self._context.narrow_buffer(command):
            return 0
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
