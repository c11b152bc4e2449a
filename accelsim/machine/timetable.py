"""The run of a program in which nobody competes, without events: all times follow in program order.

Where each port of a memory has one engine that asks it and no port of a buffer can run out, nothing depends on who
comes first. Then the times of a command follow from those of commands that were written before it (``engines.timer``),
also those of the laps of a tile loop that were left out: each of their commands is one of the lap before the cut that
waits for what is as many commands before it (``program.rolled``). So laps need not be alike to be left out: they may
follow each other at a pace that is no whole number of clocks, as where transfers bind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.device import EngineLog
from accelsim.engines.registry import ENGINES
from accelsim.engines.timer import Row, Table, Timer, Token
from accelsim.machine.memory_models import lone_ports
from accelsim.machine.sram import scarce
from accelsim.program.commands import Command, Phase, Program, Transfer
from accelsim.program.rolled import Loop, Unroller
from accelsim.program.verify import check_length
from accelsim.spec.chip import Chip
from accelsim.time import NEVER, Clock
from accelsim.types import Ints


class _Competes(Exception):
    """Two engines ask one port, or an engine type cannot tell its times without events."""


@dataclass
class Timetable:
    """Times of all commands of a program whose loops may be rolled up, by their numbers in the whole one, int64
    [commands, 3]: start, data, end. ``timers``: engine -> what worked them out."""

    program: Program
    unroller: Unroller
    times: Ints
    timers: Mapping[str, Timer]
    numbers: Mapping[str, Ints]

    @cached_property
    def like(self) -> Ints:
        """Of each command the written one that it is like, int64 [commands]."""
        found: list[Ints] = []
        begin = 0
        for end, size, times in self.unroller.cuts.spans:
            found += [np.arange(begin, end), np.tile(np.arange(end - size, end), times)]
            begin = end
        return np.concatenate([*found, np.arange(begin, len(self.program.commands))])

    def passed(self, phase: Phase) -> Ints:
        """When commands have passed a phase other than 'done', fs, int64 [commands]."""
        table = next(iter(self.timers.values())).table
        return np.frombuffer(table.phases[phase], np.int64)

    def noted(self, engine: str) -> Ints:
        """Figures that were noted of the commands of an engine, by ``numbers``."""
        timer = self.timers[engine]
        return np.frombuffer(timer.noted, np.int64).reshape(-1, timer.columns)

    def record(self, number: int) -> Any:
        """What the engine would have noted of a command."""
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

    def logs(self) -> dict[str, EngineLog]:
        """How each engine spent its time, also in laps that were left out."""
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
        for engine, kind in program.engines.items():
            timer = ENGINES[kind].timer(chip, engine, self._table, delay_fs, ports)
            if timer is not None:
                self._queues[engine] = _Queue(timer, [])

    def timetable(self) -> Timetable:
        """All of it. Raises _Competes."""
        loops, commands = iter(self._unroller.loops), self._program.commands
        loop = next(loops, None)
        for number, command in enumerate(commands):
            if loop is not None and number == loop.span.end:
                self._laps(loop)
                loop = next(loops, None)
            self._take(self._unroller.cuts.long(number), self._row(command))
        if loop is not None:
            self._laps(loop)
        return Timetable(
            self._program, self._unroller, self._table.taken(),
            {engine: queue.timer for engine, queue in self._queues.items()},
            {engine: np.array(queue.numbers, np.int64) for engine, queue in self._queues.items() if queue.numbers},
        )  # fmt: skip

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
        if isinstance(work, Transfer):
            port = work.memory, work.write and self._program.chip.memories[work.memory].full_duplex
            if self._asking.setdefault(port, command.engine) != command.engine:
                raise _Competes
        return queue.timer.row(command, tokens)

    def _laps(self, loop: Loop) -> None:
        """What was left out at a cut: the unit before it again and again."""
        end, size, times = loop.span
        first = self._unroller.cuts.long(end - 1) + 1 - size
        rows = [self._row(command, loop.first) for command in self._program.commands[end - size : end]]
        for copy in range(1, times + 1):
            for number, row in enumerate(rows, first + copy * size):
                self._take(number, row)


def timetable(program: Program, model: str) -> Timetable | None:
    """The times of a program, rolled or not; None where somebody competes for something. Raises UsageError for a run
    longer than ``time.NEVER``."""
    chip = program.chip
    if program.cores > 1 or chip.core_count > 1 or _scarce(chip, program):
        return None
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
