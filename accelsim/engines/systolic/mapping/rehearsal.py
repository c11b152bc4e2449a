"""Time one step without the events of the machine: for steps of few commands, where the first loads and the last stores
decide and a closed form knows too little.

Queues are in order, so the time of a command follows from the commands before it; only the order at the port of a
memory depends on time. Commands that wait for no port are timed as soon as their inputs are known; then the earliest
request is served, because every request not yet known comes later. Memories are as in ``accelsim.machine.rates``. Ports
of buffers that can run out, the framing of links, and caches are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, cast

from accelsim.engines.clocked import clocks_of
from accelsim.engines.systolic.streaming import timing_of
from accelsim.engines.systolic.timing import FoldTiming
from accelsim.program.commands import Command, Wait
from accelsim.program.program import Program
from accelsim.program.roles import Roles, spec_of
from accelsim.program.work import Cycles, Folds, Transfer
from accelsim.time import FS_PER_S, Clock, clock_of, transfer_fs

Key = tuple[int, str]
"""A command, and what it passes: a phase, or what the two processes of an array tell each other."""


class _TooLate(Exception):
    """It takes longer than anybody wants to know."""


class Request(NamedTuple):
    """A transfer that may begin: from when, its rank among requests of one instant, its port, its time there."""

    at_fs: int
    rank: tuple[int, str]
    memory: str
    write: bool
    occupied_fs: int
    command: int


Queue = Generator[Key | Request, int, None]
"""Commands one after the other: yields what must happen first; gets the time of it."""


@dataclass
class Port:
    """A port of a memory: its latency; the earliest next acceptance, the last data beat so far, and who asks."""

    latency_fs: int
    pipelined: bool
    accepting_fs: int = 0
    free_fs: int = 0
    asked: list[tuple[Request, Queue]] = field(default_factory=list)

    def next_fs(self) -> int:
        """Return when the port accepts the next request, fs; at least one must wait."""
        return max(self.accepting_fs, min(request.at_fs for request, _ in self.asked))

    def take(self) -> tuple[int, Request, Queue]:
        """Accept the first request: return the time, the request and its queue."""
        now = self.next_fs()
        first = min((each for each in self.asked if each[0].at_fs <= now), key=lambda each: each[0].rank)
        self.asked.remove(first)
        return now, *first

    def end_fs(self, accepted_fs: int, occupied_fs: int) -> int:
        """Return the time of the last data beat of a request accepted at ``accepted_fs``, fs."""
        if self.pipelined:
            start = max(accepted_fs + self.latency_fs, self.free_fs)
        else:
            start = max(accepted_fs, self.free_fs) + self.latency_fs
        self.free_fs = start + occupied_fs
        return self.free_fs


class Rehearsal:
    """Rehearsal of one program on its chip; ``sharing``: cores that use the memories at one time, each at its share;
    ``ahead``: weights for which there are slots at once have been loaded before."""

    def __init__(self, program: Program, roles: Roles, sharing: int = 1, ahead: bool = False) -> None:
        self._program, self._roles, self._sharing, self._ahead = program, roles, sharing, ahead
        self._clock = clock_of(roles.chip.clock)
        self._delay_fs = self._clock.at(roles.chip.token_delay)
        self._times: dict[Key, int] = {}
        self._waiting: dict[Key, list[Queue]] = {}
        self._ports: dict[tuple[str, bool], Port] = {}
        self._timings: dict[Folds, FoldTiming[int]] = {}
        self._most_fs = inf

    def time_fs(self, most_fs: float = inf) -> int | None:
        """The end of the last command; None where there are commands that it does not know, or one ends behind
        ``most_fs``."""
        try:
            return self._time_fs(most_fs)
        except _TooLate:
            return None
        finally:  # queues that wait refer to this object, and the collector of such circles rests while we compile
            self._waiting.clear()
            self._ports.clear()

    def _time_fs(self, most_fs: float) -> int | None:
        self._most_fs = most_fs
        queues: dict[str, list[Command]] = defaultdict(list)
        for command in self._program.commands:
            queues[command.engine].append(command)
        if any(type(command.work) not in KINDS for command in self._program.commands):
            return None
        for engine, commands in queues.items():
            for start in KINDS[type(commands[0].work)]:
                self._go_on(start(self, engine, commands))
        while asked := [port for port in self._ports.values() if port.asked]:
            port = min(asked, key=Port.next_fs)
            accepted_fs, request, queue = port.take()
            port.accepting_fs = self._clock.at(self._clock.edge(accepted_fs) + 1)
            self._publish((request.command, "done"), port.end_fs(accepted_fs, request.occupied_fs))
            self._go_on(queue, accepted_fs)
        return max(time_fs for (_, phase), time_fs in self._times.items() if phase == "done")

    def _go_on(self, queue: Queue, told: int | None = None) -> None:
        """Until it waits for something that is not known yet."""
        try:
            while True:
                needed = next(queue) if told is None else queue.send(told)
                if isinstance(needed, Request):
                    self._port(needed.memory, needed.write).asked.append((needed, queue))
                    return
                told = self._times.get(needed)
                if told is None:
                    self._waiting.setdefault(needed, []).append(queue)
                    return
        except StopIteration:
            return

    def _publish(self, key: Key, t_fs: int) -> None:
        if t_fs > self._most_fs:
            raise _TooLate
        self._times[key] = t_fs
        for queue in self._waiting.pop(key, ()):
            self._go_on(queue, t_fs)

    def _port(self, memory: str, write: bool) -> Port:
        attached = self._roles.memory(memory)
        key = memory, write and attached.full_duplex
        if key not in self._ports:
            latency = attached.memory.latency + (attached.link.latency if attached.link else 0.0)
            self._ports[key] = Port(int(latency * FS_PER_S), attached.memory.pipelined)
        return self._ports[key]

    def _available(self, waits: Sequence[Wait], why: str = "") -> Generator[Key, int, int]:
        """From when on all tokens (of that kind) can be acquired, 0 where there are none."""
        latest = 0
        for wait in waits:
            if not why or wait.why == why:
                key = wait.command, wait.phase
                released = self._times.get(key)
                if released is None:
                    released = yield key
                latest = max(latest, released + self._delay_fs)
        return latest

    def transfers(self, engine: str, commands: Sequence[Command]) -> Queue:
        """Run a DMA queue: one request per edge, in order."""
        issued = 0
        for command in commands:
            if self._ahead and command.effect.what == "load_b" and not command.waits:
                self._publish((command.id, "done"), 0)
                continue
            work = cast(Transfer, command.work)
            attached = self._roles.memory(work.memory)
            ready = self._clock.edge((yield from self._available(command.waits)))
            beat_B = attached.memory.beats_B
            occupied_fs = transfer_fs(work.nbytes, beat_B, attached.rate_Bps) * self._sharing
            rank = int(work.write == (attached.arbitration == "loads_first")), engine
            at_fs = self._clock.at(max(issued + 1, ready))
            issued = self._clock.edge((yield Request(at_fs, rank, work.memory, work.write, occupied_fs, command.id)))

    def clocked(self, engine: str, commands: Sequence[Command]) -> Queue:
        """Run a queue of commands that take a known number of clocks, one after the other."""
        clock, last = self._own(engine), 0
        for command in commands:
            first = max(last + 1, clock.edge((yield from self._available(command.waits))))
            last = first + clocks_of(command) - 1
            self._publish((command.id, "done"), clock.at(last))

    def loading(self, engine: str, commands: Sequence[Command]) -> Queue:
        """The first stationary rows of each command, when the fold before streams (``process.MatrixEngine``)."""
        clock, earliest, before = self._own(engine), 1, None
        for command in commands:
            ready = clock.edge((yield from self._available(command.waits, "w")))
            if before is not None:
                earliest = yield before.id, "reload"
            first, work, timing = (max(earliest, ready), cast(Folds, command.work), self._timing(engine, command))
            if work.n == 1 and timing.load:
                self._publish((command.id, "w"), clock.at(first + timing.load - 1))
            self._publish((command.id, "loaded"), max(first + timing.load, ready))
            before = command

    def streaming(self, engine: str, commands: Sequence[Command]) -> Queue:
        """All folds of each command; with the last of them it is known when its operands have been read."""
        clock, earliest, latency = self._own(engine), 1, spec_of(self._roles.chip, engine).accumulator_latency
        for command in commands:
            work, timing = cast(Folds, command.work), self._timing(engine, command)
            loaded = yield command.id, "loaded"
            a = clock.edge((yield from self._available(command.waits, "a")))
            acc = clock.edge((yield from self._available(command.waits, "acc")))
            last = max(earliest, loaded, a, acc) + (work.n - 1) * timing.step
            earliest, end = last + timing.interval, last + work.rows * work.cycles_per_row - 1
            self._publish((command.id, "reload"), last + timing.reload)
            if not timing.load:
                self._publish((command.id, "w"), clock.at(end))
            elif work.n > 1:
                self._publish((command.id, "w"), clock.at(last - timing.step + timing.reload + timing.load - 1))
            self._publish((command.id, "a"), clock.at(end))
            self._publish((command.id, "done"), clock.at(end + timing.drain + latency))

    def _own(self, engine: str) -> Clock:
        return clock_of(spec_of(self._roles.chip, engine).clock or self._roles.chip.clock)

    def _timing(self, engine: str, command: Command) -> FoldTiming[int]:
        work = cast(Folds, command.work)
        if work not in self._timings:
            self._timings[work] = timing_of(spec_of(self._roles.chip, engine), work)
        return self._timings[work]


KINDS: dict[type, tuple[Callable[[Rehearsal, str, Sequence[Command]], Queue], ...]] = {
    Transfer: (Rehearsal.transfers,),
    Cycles: (Rehearsal.clocked,),
    Folds: (Rehearsal.loading, Rehearsal.streaming),
}
"""Work of commands -> the processes of their queue."""
