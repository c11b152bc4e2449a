"""Time one step without the events of the machine: for steps of few commands, where the first loads and the last stores
decide and a closed form knows too little.

Queues are in order, so the time of a command follows from the commands before it; only the order at the port of a
memory depends on time. Commands that wait for no port are timed as soon as their inputs are known; then the earliest
request is served, because every request not yet known comes later. Memories are as in ``accelsim.machine.rates``. Ports
of buffers that can run out, the framing of links, and caches are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple, cast

from accelsim.engines.clocked import clocks_of
from accelsim.engines.systolic.streaming import timing_of
from accelsim.program.commands import Command, Phase
from accelsim.program.program import Program
from accelsim.program.roles import Roles, spec_of
from accelsim.program.work import Cycles, Folds, Transfer, Work
from accelsim.time import FS_PER_S, Clock, clock_of, transfer_fs

PHASES: dict[Phase, int] = {"done": 0, "w": 1, "a": 2}
"""Phase of a command -> where its time stands among those of the command."""
UNKNOWN = -1
"""Time of what has not happened yet."""
Keys = tuple[int, ...]
"""Waits of a command: three times the number of another, plus a phase of ``PHASES``."""
Entry = tuple[Any, ...]
"""A command on a tape, beginning with its key; see ``_move``, ``_clocks`` and ``_stream``."""
Edges = dict[tuple[str, Work], Keys]
"""Edges of products that are known already, by engine and work."""


class _TooLate(Exception):
    """It takes longer than anybody wants to know."""


class Tape(NamedTuple):
    """A program as a rehearsal needs it, whatever the rates of its memories: (engine, work, entries) of each queue."""

    queues: list[tuple[str, type, list[Entry]]]
    commands: int


def tape_of(program: Program, roles: Roles) -> Tape | None:
    """Return the tape of a program; None where it has commands that cannot be rehearsed."""
    queues: dict[tuple[str, type], list[Entry]] = defaultdict(list)
    edges: Edges = {}
    for command in program.commands:
        work = type(command.work)
        if work not in KINDS:
            return None
        queues[command.engine, work].append(KINDS[work][0](roles, command, edges))
    return Tape([(*key, entries) for key, entries in queues.items()], len(program.commands))


def _waits(command: Command, why: str = "") -> Keys:
    return tuple([3 * number + PHASES[phase] for number, phase, each in command.waits if not why or each == why])


def _move(roles: Roles, command: Command, edges: Edges) -> Entry:
    """(key, waits, memory, write, bytes, whether it loads weights for which there is a slot at once)."""
    work = cast(Transfer, command.work)
    first = command.effect.what == "load_b" and not command.waits
    return 3 * command.id, _waits(command), work.memory, work.write, work.nbytes, first


def _clocks(roles: Roles, command: Command, edges: Edges) -> Entry:
    """(key, waits, clocks)."""
    return 3 * command.id, _waits(command), clocks_of(command)


def _stream(roles: Roles, command: Command, edges: Edges) -> Entry:
    """(key, waits for the stationary operand, the streamed one, the sums), then edges, see ``FoldTiming``: to shift in
    the first stationary operand; from the first row of the first fold to that of the last; from there to the next
    command, to its shift, to the end of the last shift and to the last row; from that to the last sum."""
    if (command.engine, command.work) not in edges:
        work, unit = cast(Folds, command.work), cast(Any, spec_of(roles.chip, command.engine))
        timing, end = timing_of(unit, work), work.rows * work.cycles_per_row - 1
        again = timing.reload + timing.load - 1 - timing.step if timing.load and work.n > 1 else 0
        last, drain = (work.n - 1) * timing.step, timing.drain + unit.accumulator_latency
        found = timing.load, last, timing.interval, timing.reload, again, end, drain
        edges[command.engine, command.work] = found
    waits = [_waits(command, why) for why in ("w", "a", "acc")]
    return 3 * command.id, *waits, *edges[command.engine, command.work]


@dataclass(slots=True)
class Queue:
    """Entries of an engine: which comes next, when the engine is free (an edge), whether it waits for a port."""

    engine: str
    work: type
    entries: list[Entry]
    clock: Clock
    at: int = 0
    free: int = 0
    asked: bool = False
    reload: int = 1  # edge from which on the next stationary operand may be shifted in
    loaded: int = UNKNOWN  # edge from which on it is there


class Request(NamedTuple):
    """A transfer that may begin: from when, its rank among requests of one instant, its time at the port."""

    at_fs: int
    rank: tuple[int, str]
    occupied_fs: int
    key: int
    queue: Queue


@dataclass(slots=True)
class Port:
    """A port of a memory: its latency; the earliest next acceptance, the last data beat so far, and who asks."""

    latency_fs: int
    pipelined: bool
    accepting_fs: int = 0
    free_fs: int = 0
    asked: list[Request] = field(default_factory=list)

    def next_fs(self) -> int:
        """Return when the port accepts the next request, fs; at least one must wait."""
        return max(self.accepting_fs, min([request.at_fs for request in self.asked]))

    def take(self) -> tuple[int, Request]:
        """Accept the first request: return the time and the request."""
        now = self.next_fs()
        first = min((each for each in self.asked if each.at_fs <= now), key=lambda each: each.rank)
        self.asked.remove(first)
        return now, first

    def end_fs(self, accepted_fs: int, occupied_fs: int) -> int:
        """Return the time of the last data beat of a request accepted at ``accepted_fs``, fs."""
        if self.pipelined:
            start = max(accepted_fs + self.latency_fs, self.free_fs)
        else:
            start = max(accepted_fs, self.free_fs) + self.latency_fs
        self.free_fs = start + occupied_fs
        return self.free_fs


class Rehearsal:
    """Rehearsal of one tape on a chip; ``sharing``: cores that use the memories at one time, each at its share;
    ``ahead``: weights for which there are slots at once have been loaded before."""

    def __init__(self, tape: Tape, roles: Roles, sharing: int = 1, ahead: bool = False) -> None:
        self._roles, self._sharing, self._ahead = roles, sharing, ahead
        self._clock = clock_of(roles.chip.clock)
        self._delay_fs = self._clock.at(roles.chip.token_delay)
        self._times = [UNKNOWN] * (3 * tape.commands)
        self._queues = [Queue(name, work, entries, self._own(name, work)) for name, work, entries in tape.queues]
        self._ports: dict[tuple[str, bool], Port] = {}
        self._news = True  # a time has become known
        self._most_fs = inf

    def _own(self, engine: str, work: type) -> Clock:
        if work is Transfer:
            return self._clock
        return clock_of(spec_of(self._roles.chip, engine).clock or self._roles.chip.clock)

    def time_fs(self, most_fs: float = inf) -> int | None:
        """The end of the last command; None where one ends behind ``most_fs``."""
        self._most_fs = most_fs
        try:
            self._play()
        except _TooLate:
            return None
        return max(self._times[::3])

    def _play(self) -> None:
        while True:
            while self._news:
                self._news = False
                for queue in self._queues:
                    if not queue.asked and queue.at < len(queue.entries):
                        KINDS[queue.work][1](self, queue)
            waiting = [port for port in self._ports.values() if port.asked]
            if not waiting:
                return
            self._serve(min(waiting, key=Port.next_fs))

    def _serve(self, port: Port) -> None:
        accepted_fs, (_, _, occupied_fs, key, queue) = port.take()
        queue.free = self._clock.edge(accepted_fs)
        port.accepting_fs = self._clock.at(queue.free + 1)
        self._done(key, port.end_fs(accepted_fs, occupied_fs))
        queue.at, queue.asked = queue.at + 1, False

    def _done(self, key: int, t_fs: int) -> None:
        if t_fs > self._most_fs:
            raise _TooLate
        self._times[key], self._news = t_fs, True

    def _port(self, memory: str, write: bool) -> Port:
        attached = self._roles.memory(memory)
        key = memory, write and attached.full_duplex
        if key not in self._ports:
            latency = attached.memory.latency + (attached.link.latency if attached.link else 0.0)
            self._ports[key] = Port(int(latency * FS_PER_S), attached.memory.pipelined)
        return self._ports[key]

    def _available(self, waits: Iterable[int]) -> int:
        """From when on all tokens can be acquired, 0 where there are none, ``UNKNOWN`` where one of them is."""
        latest = UNKNOWN
        for key in waits:
            released = self._times[key]
            if released == UNKNOWN:
                return UNKNOWN
            if released > latest:
                latest = released
        return 0 if latest == UNKNOWN else latest + self._delay_fs

    def transfers(self, queue: Queue) -> None:
        """Go on with a DMA queue: one request per edge, in order."""
        while queue.at < len(queue.entries):
            key, waits, memory, write, nbytes, first = queue.entries[queue.at]
            if first and self._ahead:
                self._done(key, 0)
                queue.at += 1
                continue
            available = self._available(waits)
            if available != UNKNOWN:
                attached = self._roles.memory(memory)
                occupied_fs = transfer_fs(nbytes, attached.memory.beats_B, attached.rate_Bps) * self._sharing
                rank = int(write == (attached.arbitration == "loads_first")), queue.engine
                at_fs = self._clock.at(max(queue.free + 1, self._clock.edge(available)))
                self._port(memory, write).asked.append(Request(at_fs, rank, occupied_fs, key, queue))
                queue.asked = True
            return

    def clocked(self, queue: Queue) -> None:
        """Go on with commands that take a known number of clocks, one after the other."""
        while queue.at < len(queue.entries):
            key, waits, clocks = queue.entries[queue.at]
            available = self._available(waits)
            if available == UNKNOWN:
                return
            queue.free = max(queue.free + 1, queue.clock.edge(available)) + clocks - 1
            self._done(key, queue.clock.at(queue.free))
            queue.at += 1

    def products(self, queue: Queue) -> None:
        """Go on with products: the first stationary rows of each, when the fold before streams, then all its folds
        (``process.MatrixEngine``); with the last of them it is known when its operands have been read."""
        at, edge, times = queue.clock.at, queue.clock.edge, self._times
        while queue.at < len(queue.entries):
            key, of_w, of_a, of_acc, load, last, interval, reload, again, end, drain = queue.entries[queue.at]
            if queue.loaded == UNKNOWN:
                available = self._available(of_w)
                if available == UNKNOWN:
                    return
                ready = edge(available)
                first = max(queue.reload, ready)
                if load and not last:
                    times[key + 1], self._news = at(first + load - 1), True
                queue.loaded = max(first + load, ready)
            a, acc = self._available(of_a), self._available(of_acc)
            if a == UNKNOWN or acc == UNKNOWN:
                return
            last += max(queue.free, queue.loaded, edge(a), edge(acc))
            queue.free, queue.reload, queue.loaded = last + interval, last + reload, UNKNOWN
            end += last
            if not load:
                times[key + 1] = at(end)
            elif again:
                times[key + 1] = at(last + again)
            times[key + 2] = at(end)
            self._done(key, at(end + drain))
            queue.at += 1


KINDS: dict[type, tuple[Callable[[Roles, Command, Edges], Entry], Callable[[Rehearsal, Queue], None]]] = {
    Transfer: (_move, Rehearsal.transfers),
    Cycles: (_clocks, Rehearsal.clocked),
    Folds: (_stream, Rehearsal.products),
}
"""Work of the commands of a queue -> the function that makes an entry of one, and that which goes on with them."""
