"""The run of a program in which nobody competes, without events: all times follow in program order.

Where each port of a memory has one engine that asks it and no port of a buffer can run out, nothing depends on who
comes first. Then the times of a command follow from those of commands that were written before it (``engines.timer``),
also those of the laps of a tile loop that were left out: each of their commands is one of the lap before the cut that
waits for what is as many commands before it (``program.rolled``). So laps need not be alike to be left out: they may
follow each other at a pace that is no whole number of clocks, as where transfers bind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from accelsim.engines.device import EngineLog
from accelsim.engines.registry import ENGINES
from accelsim.engines.timer import Mover, Row, Table, Timer, Token
from accelsim.machine.memory_models import MODELS, caches_of, lone_ports
from accelsim.machine.sram import scarce
from accelsim.program.commands import Command, Phase, Program, Transfer
from accelsim.program.rolled import Loop, Unroller
from accelsim.program.verify import check_length
from accelsim.spec.chip import Chip
from accelsim.spec.levels import caches
from accelsim.time import NEVER, Clock
from accelsim.types import Ints

if TYPE_CHECKING:
    from accelsim.machine.cached import Cached
    from accelsim.machine.run import Run

Numbered = tuple[int, Row]


class _Ask(NamedTuple):
    """A request: the clock edge of it, the port that is asked, and its rank there."""

    edge: int
    port: int
    rank: tuple[int, str]


class Turns:
    """Takes the ``rows`` of a program. ``movers``: engines that ask ports; ``others``: names of the rest, whose
    commands ``take`` times."""

    def __init__(
        self, chip: Chip, rows: Iterator[Numbered], commands: int, movers: dict[str, Mover],
        others: Sequence[str], take: Callable[[int, Row], None],
    ) -> None:  # fmt: skip
        self._rows, self._movers, self._others, self._take = rows, movers, others, take
        self._heads: dict[str, deque[Numbered]] = {engine: deque() for engine in (*movers, *others)}
        self._done = bytearray(commands)
        self._asked: dict[str, _Ask] = {}
        self._accepting: dict[int, int] = {}  # port -> edge from which on it accepts
        self._first = {  # memory -> whether its loads win against its stores
            name: memory.arbitration == "loads_first" for name, memory in chip.memories.items()
        }

    def play(self) -> bool:
        """Time all commands; False where some wait for ever."""
        while True:
            self._pull()
            self._go_on()
            for engine in self._movers:
                if engine not in self._asked:
                    self._ask(engine)
            if not self._asked:
                return not any(self._heads.values())
            self._serve()

    def _pull(self) -> None:
        """Read the program until the next command of each mover is there."""
        for engine in self._movers:
            while not self._heads[engine] and (row := next(self._rows, None)) is not None:
                self._heads[row[1].command.engine].append(row)

    def _go_on(self) -> None:
        """Time what waits for nothing that is unknown, on engines that ask no port."""
        moved = True
        while moved:
            moved = False
            for engine in self._others:
                heads = self._heads[engine]
                while heads and self._known(heads[0]):
                    number, row = heads.popleft()
                    self._take(number, row)
                    self._done[number] = moved = True

    def _known(self, head: Numbered) -> bool:
        """Return whether the times of all that a command waits for are known."""
        (number, row), done = head, self._done
        for tokens in row.tokens:
            for _, at, moves, _ in tokens:
                if not done[number - at if moves else at]:
                    return False
        return True

    def _ask(self, engine: str) -> None:
        heads = self._heads[engine]
        if heads and self._known(heads[0]):
            number, row = heads[0]
            edge, (port, asked) = self._movers[engine].asks(number, row), row.made
            rank = int(asked.write == self._first[row.command.work.memory]), engine  # type: ignore[union-attr]
            self._asked[engine] = _Ask(edge, id(port), rank)

    def _serve(self) -> None:
        """Let the port that decides first accept a request."""
        at, port = min(
            (max(ask.edge, self._accepting.get(ask.port, 0)), ask.port) for ask in self._asked.values()
        )
        _, engine = min(ask.rank for ask in self._asked.values() if ask.port == port and ask.edge <= at)
        number, row = self._heads[engine].popleft()
        self._movers[engine].accept(number, row, self._asked.pop(engine).edge, at)
        self._accepting[port] = at + 1
        self._done[number] = True


class _Competes(Exception):
    """Two engines ask one port, or an engine type cannot tell its times without events."""


class Before(Mapping[int, int]):
    """Command -> another one, of which ``before`` has the number, -1 for none."""

    def __init__(self, before: Ints) -> None:
        self._before = before

    def __getitem__(self, number: int) -> int:
        found = int(self._before[number])
        if found < 0:
            raise KeyError(number)
        return found

    def __len__(self) -> int:
        return int(np.count_nonzero(self._before >= 0))

    def __iter__(self) -> Iterator[int]:
        yield from np.flatnonzero(self._before >= 0).tolist()


@dataclass
class Timetable:
    """Times of all commands of a program whose loops may be rolled up, by their numbers in the whole one, int64
    [commands, 3]: start, data, end. ``timers``: engine -> what worked them out."""

    program: Program
    unroller: Unroller
    times: Ints
    timers: Mapping[str, Timer]
    numbers: Mapping[str, Ints]
    caches: Sequence[Cached] = ()

    @cached_property
    def like(self) -> Ints:
        """Return for each command the written one that it is like, int64 [commands]."""
        found: list[Ints] = []
        begin = 0
        for end, size, times in self.unroller.cuts.spans:
            found += [np.arange(begin, end), np.tile(np.arange(end - size, end), times)]
            begin = end
        return np.concatenate([*found, np.arange(begin, len(self.program.commands))])

    def passed(self, phase: Phase) -> Ints:
        """Return when commands have passed a phase other than 'done', fs, int64 [commands]."""
        table = next(iter(self.timers.values())).table
        return np.frombuffer(table.phases[phase], np.int64)

    def noted(self, engine: str) -> Ints:
        """Figures that were noted of the commands of an engine, by ``numbers``."""
        timer = self.timers[engine]
        return np.frombuffer(timer.noted, np.int64).reshape(-1, timer.columns)

    def record(self, number: int) -> Any:
        """Return what the engine would have noted of a command."""
        command = self.program.commands[int(self.like[number])]
        place = int(np.searchsorted(self.numbers[command.engine], number))
        return self.timers[command.engine].record(number, command, self.noted(command.engine)[place].tolist())

    @cached_property
    def long(self) -> Ints:
        """The whole number of each written command, int64."""
        spans = self.unroller.cuts.spans
        ends = np.array([span.end for span in spans], np.int64)
        more = np.cumsum([0, *(span.size * span.times for span in spans)])
        written = np.arange(len(self.program.commands))
        found: Ints = written + more[np.searchsorted(ends, written, side="right")]
        return found

    def written(self, engine: str) -> Iterator[tuple[int, list[int]]]:
        """Written commands with what was noted of them."""
        places = np.flatnonzero(np.isin(self.numbers[engine], self.long, assume_unique=True))
        commands = self.like[self.numbers[engine][places]]
        return zip(commands.tolist(), self.noted(engine)[places].tolist(), strict=True)

    def with_caches(self, run: Run) -> Run:
        """A run of all commands with what passed between caches and memories."""
        rows = [row for cache in self.caches for row in cache.finish()]
        return replace(run, ledger=run.ledger + rows)

    @cached_property
    def queue_before(self) -> Before:
        """Predecessor of each command on its engine."""
        engines = list(self.program.engines)
        return self._before([engines.index(command.engine) for command in self.program.commands])

    @cached_property
    def port_before(self) -> Before:
        """Transfer that the port accepted before each transfer."""
        duplex = {name for name, each in self.program.chip.memories.items() if each.full_duplex}
        ports: dict[tuple[str, bool], int] = {}
        return self._before([
            ports.setdefault((work.memory, work.write and work.memory in duplex), len(ports))
            if isinstance(work := command.work, Transfer) else -1
            for command in self.program.commands
        ])  # fmt: skip

    def _before(self, lines: Sequence[int]) -> Before:
        """Predecessor of each command, by start, in the line of this number; -1 where it stands in none."""
        of = np.array(lines, np.int64)[self.like]
        found = np.full(len(of), -1, np.int64)
        for line in range(int(of.max(initial=-1)) + 1):
            numbers = np.flatnonzero(of == line)
            order = numbers[np.argsort(self.times[numbers, 0], kind="stable")]
            found[order[1:]] = order[:-1]
        return Before(found)

    def logs(self) -> dict[str, EngineLog]:
        """Return how each engine spent its time, also in laps that were left out."""
        return {engine: EngineLog() for engine in self.program.engines} | {
            engine: timer.log for engine, timer in self.timers.items()
        }


class _Queue(NamedTuple):
    """The commands of one engine while they are timed: its timer, and the numbers of commands that it notes."""

    timer: Timer
    numbers: list[int]


class Timing:
    """Works a timetable out; ``model``: how off-chip memories are followed."""

    def __init__(self, program: Program, model: str) -> None:
        self._program, self._unroller = program, Unroller(program)
        self._table = Table(len(program.commands) + self._unroller.cuts.left_out)
        self._asking: dict[tuple[str, bool], str] = {}
        chip = program.chip
        delay_fs = Clock(chip.clock).at(chip.token_delay)
        self._queues, ports = dict[str, _Queue](), lone_ports(chip, model)
        self._caches = caches_of(program, model)
        ports |= {(memory, write): cache for memory, cache in self._caches.items() for write in (False, True)}
        for engine, kind in program.engines.items():
            timer = ENGINES[kind].timer(chip, engine, self._table, delay_fs, ports)
            if timer is not None:
                self._queues[engine] = _Queue(timer, [])

    def timetable(self) -> Timetable:
        """All of it. Raises _Competes."""
        if self._caches:
            self._in_turns()
        else:
            for number, row in self._rows():
                self._take(number, row)
        return Timetable(
            self._program, self._unroller, self._table.taken(),
            {engine: queue.timer for engine, queue in self._queues.items()},
            {engine: np.array(queue.numbers, np.int64) for engine, queue in self._queues.items() if queue.numbers},
            list(self._caches.values()),
        )  # fmt: skip

    def _rows(self) -> Iterator[tuple[int, Row]]:
        """All commands in program order."""
        loops = iter(self._unroller.loops)
        loop = next(loops, None)
        for number, command in enumerate(self._program.commands):
            if loop is not None and number == loop.span.end:
                yield from self._laps(loop)
                loop = next(loops, None)
            yield self._unroller.cuts.long(number), self._row(command)
        if loop is not None:
            yield from self._laps(loop)

    def _in_turns(self) -> None:
        """Order the requests of engines that share ports."""
        timers = {engine: queue.timer for engine, queue in self._queues.items()}
        movers = {engine: timer for engine, timer in timers.items() if isinstance(timer, Mover)}
        others = [engine for engine in timers if engine not in movers]
        count = len(self._table.start)
        if not Turns(self._program.chip, self._rows(), count, movers, others, self._take).play():
            raise _Competes  # the events tell who waits for what

    def _take(self, number: int, row: Row) -> None:
        queue = self._queues[row.command.engine]
        if queue.timer.columns:
            queue.numbers.append(number)
        queue.timer.take(number, row)

    def _row(self, command: Command, moving: int | None = None) -> Row:
        """A written command; ``moving``: as it comes again in laps, with all that it waits for from this one on."""
        passed, referred, number = self._table.phases, self._unroller.referred, command.id
        tokens = [
            Token(passed[phase], number - other, True, why)
            if moving is not None and other >= moving
            else Token(passed[phase], referred(other, number), False, why)
            for other, phase, why in command.waits
        ]
        queue, work = self._queues.get(command.engine), command.work
        if queue is None:
            raise _Competes
        if isinstance(work, Transfer) and not self._caches:
            port = work.memory, work.write and self._program.chip.memories[work.memory].full_duplex
            if self._asking.setdefault(port, command.engine) != command.engine:
                raise _Competes
        return queue.timer.row(command, tokens)

    def _laps(self, loop: Loop) -> Iterator[tuple[int, Row]]:
        """Return what was left out at a cut: the unit before it again and again."""
        end, size, times = loop.span
        first = self._unroller.cuts.long(end - 1) + 1 - size
        rows = [self._row(command, loop.first) for command in self._program.commands[end - size : end]]
        for copy in range(1, times + 1):
            yield from enumerate(rows, first + copy * size)


def timetable(program: Program, model: str) -> Timetable | None:
    """The times of a program, rolled or not; None where somebody competes for something. Raises UsageError for a run
    longer than ``time.NEVER``."""
    chip = program.chip
    if program.cores > 1 or chip.core_count > 1 or _scarce(chip, program):
        return None
    if caches(chip) and (MODELS[model].dram is not None or not chip.token_delay):
        return (
            None  # a DRAM is followed burst by burst; or what a transfer lets begin asks at the same instant
        )
    try:
        found = Timing(program, model).timetable()
    except _Competes:
        return None
    except OverflowError:
        check_length(program.graph, chip, NEVER)
        raise
    check_length(program.graph, chip, int(found.times.max(initial=0)))
    return found if len(found.numbers) < 2 else None  # records of several arrays alternate as these work


def _scarce(chip: Chip, program: Program) -> bool:
    return bool(scarce(chip, {region.memory for region in program.regions}))
