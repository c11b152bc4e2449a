"""Time one step without the events of the machine: for steps of few commands, where the first loads and the last stores
decide and a closed form knows too little.

Queues are in order, so the time of a command follows from the commands before it; only the order at the port of a
memory depends on time. Commands that wait for no port are timed as soon as their inputs are known; then the earliest
request is served, because every request not yet known comes later. Memories are as in ``accelsim.machine.rates``. Ports
of buffers that can run out, the framing of links, and caches are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from operator import itemgetter
from typing import Any, NamedTuple, cast

from accelsim.engines.systolic.streaming import timing_of
from accelsim.program.commands import Action, CommandKind, Effect, Phase, Wait, record
from accelsim.program.program import Program
from accelsim.program.roles import Roles, spec_of
from accelsim.program.work import Cycles, Folds, Transfer, Work
from accelsim.program.writing.builder import Builder, Touched
from accelsim.time import FS_PER_S, Clock, clock_of, transfer_fs

PHASES: dict[Phase, int] = {"done": 0, "w": 1, "a": 2}
"""Phase of a command -> where its time stands among those of the command."""
UNKNOWN = -1
"""Time of what has not happened yet."""
Keys = tuple[int, ...]
"""Waits of a command: three times the number of another, plus a phase of ``PHASES``."""
Entry = tuple[Any, ...]
"""A command on a tape: its key, and what follows it; see ``_move``, ``_clocks`` and ``_stream``."""
Edges = dict[tuple[str, Work], Keys]
"""Edges of products that are known already, by engine and work."""
Process = Iterator[int]
"""The commands of a queue, one after the other; yields the keys of times that it needs and that are not known yet."""


class _TooLate(Exception):
    """It takes longer than anybody wants to know."""


class Tape(NamedTuple):
    """A program as a rehearsal needs it, whatever the rates of its memories: (engine, work, entries) of each queue.
    ``times``: of rehearsals at certain rates, fs, None where it took more than the second."""

    queues: list[tuple[str, type, list[Entry]]]
    commands: int
    times: dict[Hashable, tuple[int | None, float]]


class TapeWriter(Builder):
    """Writes commands as entries of a tape: what a rehearsal needs of them, and no more."""

    def __init__(self, roles: Roles, engines: dict[str, str], sequential: Container[str]) -> None:
        super().__init__(engines, sequential)
        self._roles = roles
        self._queues: dict[tuple[str, type], list[Entry]] = {}
        self._edges: Edges = {}
        self.commands: Any = list[_Noted]()

    @property
    def tape(self) -> Tape | None:
        """Return all commands so far; None where some cannot be rehearsed."""
        if not all(work in KINDS for _, work in self._queues):
            return None
        return Tape([(*key, entries) for key, entries in self._queues.items()], len(self.commands), {})

    def emit(
        self, kind: CommandKind, engine: str, op: int, label: str, work: Work, effect: Effect,
        reads: Touched = (), writes: Touched = (), actions: Iterable[Action] = (),
    ) -> int:  # fmt: skip
        """Append an entry; see ``Builder.emit``."""
        waits = self.awaited(kind, engine, work, reads, writes)
        return self.note(engine, work, effect.what, tuple(waits))

    def note(self, engine: str, work: Work, what: str, waits: tuple[Wait, ...]) -> int:
        """Append an entry of a command whose waits are known; ``what``: its effect. Returns its number."""
        ident, key = len(self.commands), (engine, type(work))
        entries = self._queues.get(key)
        if entries is None:
            entries = self._queues[key] = []
        made = record(_Noted, (engine, waits, work, what))
        self.commands.append(made)
        if key[1] in KINDS:
            entries.append((3 * ident, *KINDS[key[1]][0](self._roles, made, self._edges)))
        return ident


class _Noted(NamedTuple):
    """A command of a tape while that is written."""

    engine: str
    waits: tuple[Wait, ...]
    work: Any
    what: str


def tape_of(program: Program, roles: Roles) -> Tape | None:
    """Return the tape of a program; None where it has commands that cannot be rehearsed."""
    writer = TapeWriter(roles, program.engines, frozenset())
    for command in program.commands:
        writer.note(command.engine, command.work, command.effect.what, command.waits)
    return writer.tape


def _waits(waits: Sequence[Wait]) -> Keys:
    return tuple([3 * number + PHASES[phase] for number, phase, _ in waits])


def _move(roles: Roles, command: _Noted, edges: Edges) -> Entry:
    """(waits, memory, write, bytes, whether it loads weights for which there is a slot at once)."""
    _, waits, work, what = command
    return _waits(waits), work.memory, work.write, work.nbytes, what == "load_b" and not waits


def _clocks(roles: Roles, command: _Noted, edges: Edges) -> Entry:
    """(waits, clocks)."""
    return _waits(command.waits), command.work.clocks


def _stream(roles: Roles, command: _Noted, edges: Edges) -> Entry:
    """(waits for the stationary operand, the streamed one, the sums), then edges, see ``FoldTiming``: to shift in
    the first stationary operand; from the first row of the first fold to that of the last; from there to the next
    command, to its shift, to the end of the last shift and to the last row; from that to the last sum."""
    engine, waits, work, _ = command
    found = edges.get((engine, work))
    if found is None:
        unit = cast(Any, spec_of(roles.chip, engine))
        timing, end = timing_of(unit, work), work.rows * work.cycles_per_row - 1
        again = timing.reload + timing.load - 1 - timing.step if timing.load and work.n > 1 else 0
        last, drain = (work.n - 1) * timing.step, timing.drain + unit.accumulator_latency
        found = timing.load, last, timing.interval, timing.reload, again, end, drain
        edges[engine, work] = found
    apart: dict[str, list[int]] = {"w": [], "a": [], "acc": []}
    for number, phase, why in waits:
        if why in apart:
            apart[why].append(3 * number + PHASES[phase])
    return *map(tuple, apart.values()), *found


class Request(NamedTuple):
    """A transfer that may begin: from when, its rank among requests of one instant, its time at the port, its key."""

    at_fs: int
    rank: tuple[int, str]
    occupied_fs: int
    key: int


@dataclass(slots=True)
class Port:
    """A port of a memory: its latency; the earliest next acceptance, the last data beat so far, who asks, and how long
    all that is to come occupies it. ``edge``: edge of the last acceptance."""

    latency_fs: int
    pipelined: bool
    accepting_fs: int = 0
    free_fs: int = 0
    asked: list[Request] = field(default_factory=list)
    left_fs: int = 0
    edge: int = 0

    def next_fs(self) -> int:
        """Return when the port accepts the next request, fs; at least one must wait."""
        return max(self.accepting_fs, min(self.asked)[0])

    def take(self, now_fs: int) -> Request:
        """Return the first of the requests that are there, accepted now."""
        asked, first = self.asked, self.asked[0]
        if len(asked) > 1:
            first = min([each for each in asked if each[0] <= now_fs], key=itemgetter(1))
        asked.remove(first)
        return first

    def end_fs(self, accepted_fs: int, occupied_fs: int) -> int:
        """Return the time of the last data beat of a request accepted at ``accepted_fs``, fs."""
        if self.pipelined:
            start = max(accepted_fs + self.latency_fs, self.free_fs)
        else:
            start = max(accepted_fs, self.free_fs) + self.latency_fs
        self.free_fs = start + occupied_fs
        self.left_fs -= occupied_fs
        return self.free_fs


class Rehearsal:
    """Rehearsal of one tape on a chip; ``sharing``: cores that use the memories at one time, each at its share;
    ``ahead``: weights for which there are slots at once have been loaded before."""

    def __init__(self, tape: Tape, roles: Roles, sharing: int = 1, ahead: bool = False) -> None:
        self._roles, self._sharing, self._ahead = roles, sharing, ahead
        self._clock = clock_of(roles.chip.clock)
        self._delay_fs = self._clock.at(roles.chip.token_delay)
        self._times = [UNKNOWN] * (3 * tape.commands)
        self._ports: dict[tuple[str, bool], Port] = {}
        self._waiting: dict[int, list[Process]] = {}
        self._missing = UNKNOWN
        self._ready = [KINDS[work][1](self, name, entries) for name, work, entries in tape.queues]
        self._most_fs = inf

    def time_fs(self, most_fs: float = inf) -> int | None:
        """The end of the last command; None where one ends after ``most_fs``."""
        self._most_fs = most_fs
        try:
            self._play()
        except _TooLate:
            return None
        return max(self._times[::3])

    def _play(self) -> None:
        ready, waiting, clock, ports = self._ready, self._waiting, self._clock, list(self._ports.values())
        while True:
            while ready:
                process = ready.pop()
                key = next(process, None)
                if key is not None:
                    waiting.setdefault(key, []).append(process)
            asked = [(port.next_fs(), place) for place, port in enumerate(ports) if port.asked]
            if not asked:
                return
            accepted_fs, place = min(asked)
            port = ports[place]
            request = port.take(accepted_fs)
            port.edge = clock.edge(accepted_fs)
            port.accepting_fs = clock.at(port.edge + 1)
            end_fs = port.end_fs(accepted_fs, request.occupied_fs)
            self._within(end_fs + port.left_fs)
            self._known(request.key, end_fs)

    def _within(self, t_fs: int) -> None:
        """Give up if what is to come ends no sooner than ``t_fs``, and that is too late."""
        if t_fs > self._most_fs:
            raise _TooLate

    def _known(self, key: int, t_fs: int) -> None:
        """Go on with what waits for a time, which is known now."""
        self._times[key] = t_fs
        if key in self._waiting:
            self._ready += self._waiting.pop(key)

    def _port(self, memory: str, write: bool) -> Port:
        attached = self._roles.memory(memory)
        key = memory, write and attached.full_duplex
        if key not in self._ports:
            latency = attached.memory.latency + (attached.link.latency if attached.link else 0.0)
            self._ports[key] = Port(int(latency * FS_PER_S), attached.memory.pipelined)
        return self._ports[key]

    def _available(self, waits: Keys) -> int:
        """From when on all tokens can be acquired, 0 where there are none, ``UNKNOWN`` where one of them is: that of
        the key ``_missing``."""
        times, latest = self._times, UNKNOWN
        for key in waits:
            released = times[key]
            if released == UNKNOWN:
                self._missing = key
                return UNKNOWN
            if released > latest:
                latest = released
        return 0 if latest == UNKNOWN else latest + self._delay_fs

    def transfers(self, engine: str, entries: list[Entry]) -> Process:
        """Requests of a DMA queue: one per edge, in order."""
        asking, alike = (
            list[tuple[Entry, Port, int, tuple[int, str]]](),
            dict[Entry, tuple[Port, int, tuple[int, str]]](),
        )
        for entry in entries:
            memory, write, nbytes = moved = entry[2:5]
            if moved not in alike:
                attached = self._roles.memory(memory)
                occupied_fs = transfer_fs(nbytes, attached.memory.beats_B, attached.rate_Bps) * self._sharing
                rank = int(write == (attached.arbitration == "loads_first")), engine
                alike[moved] = self._port(memory, write), occupied_fs, rank
            port, occupied_fs, rank = alike[moved]
            port.left_fs += 0 if entry[5] and self._ahead else occupied_fs
            asking.append((entry, port, occupied_fs, rank))
        return self._transfers(asking)

    def _transfers(self, asking: list[tuple[Entry, Port, int, tuple[int, str]]]) -> Process:
        clock, free = self._clock, 0
        for (key, waits, _, _, _, first), port, occupied_fs, rank in asking:
            if first and self._ahead:
                self._known(key, 0)
                continue
            while (available := self._available(waits)) == UNKNOWN:
                yield self._missing
            at_fs = clock.at(max(free + 1, clock.edge(available)))
            port.asked.append(record(Request, (at_fs, rank, occupied_fs, key)))
            yield key
            free = port.edge

    def clocked(self, engine: str, entries: list[Entry]) -> Process:
        """Commands that take a known number of clocks, one after the other."""
        clock, free, left = self._own(engine), 0, sum([entry[2] for entry in entries])
        for key, waits, clocks in entries:
            while (available := self._available(waits)) == UNKNOWN:
                yield self._missing
            free = max(free + 1, clock.edge(available)) + clocks - 1
            left -= clocks
            self._within(clock.at(free + left))
            self._known(key, clock.at(free))

    def products(self, engine: str, entries: list[Entry]) -> Process:
        """Products: the first stationary rows of each, when the fold before streams, then all its folds
        (``process.MatrixEngine``); with the last of them it is known when its operands have been read."""
        clock, free, reloaded = self._own(engine), 0, 1  # from which edges on it may stream, and shift rows in
        at, edge = clock.at, clock.edge
        *_, final, _, _, end, drain = entries[-1]
        left = sum([entry[5] + entry[6] for entry in entries]) + end + drain - final
        for key, of_w, of_a, of_acc, load, last, interval, reload, again, end, drain in entries:
            while (available := self._available(of_w)) == UNKNOWN:
                yield self._missing
            ready = edge(available)
            first = max(reloaded, ready)
            if load and not last:
                self._known(key + 1, at(first + load - 1))
            loaded = max(first + load, ready)
            while (a := self._available(of_a)) == UNKNOWN:
                yield self._missing
            while (acc := self._available(of_acc)) == UNKNOWN:
                yield self._missing
            left -= last + interval
            last += max(free, loaded, edge(a), edge(acc))
            free, reloaded, end = last + interval, last + reload, last + end
            self._within(at(free + left))
            if not load:
                self._known(key + 1, at(end))
            elif again:
                self._known(key + 1, at(last + again))
            self._known(key + 2, at(end))
            self._known(key, at(end + drain))

    def _own(self, engine: str) -> Clock:
        return clock_of(spec_of(self._roles.chip, engine).clock or self._roles.chip.clock)


KINDS: dict[type, tuple[Callable[[Roles, _Noted, Edges], Entry], Callable[[Rehearsal, str, list[Entry]], Process]]] = {
    Transfer: (_move, Rehearsal.transfers),
    Cycles: (_clocks, Rehearsal.clocked),
    Folds: (_stream, Rehearsal.products),
}
"""Work of the commands of a queue -> the function that makes an entry of one, and that which goes through them."""
