"""Times of all commands of a run as arrays, laps of tile loops that were left out of its program among them.

A command has two numbers: that among the commands that are written, and, where laps were left out, that in the whole
program. Here the second counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.registry import ENGINES
from accelsim.machine.run import Run
from accelsim.program.commands import Command, Phase, Wait
from accelsim.program.rolled import Loop
from accelsim.types import Ints


class Instances(NamedTuple):
    """A written command and the whole ``numbers`` that it stands for: its own, or those in the laps of a loop, whose
    commands wait for what lies as many commands before them."""

    command: Command
    numbers: Ints
    loop: Loop | None


class Timeline:
    """``times``: start, data and end, fs, int64 [commands, 3]. ``like``: the written command that each is like;
    ``written``: the number of each written command."""

    def __init__(self, run: Run) -> None:
        self.run, self._table = run, run.table
        self.commands = run.program.commands
        if self._table is None:
            self.times: Ints = np.array([piece[4:] for piece in run.slices], np.int64).reshape(-1, 3)
            self.like: Ints = np.arange(len(self.times))
            self.written: Ints = self.like
        else:
            self.times, self.like, self.written = self._table.times, self._table.like, self._table.long

    @cached_property
    def records(self) -> Mapping[int, Any]:
        """Return what the engines noted, by written command."""
        return {record.command: record for record in self.run.folds}

    def notes(self, command: Command) -> bool:
        """Return whether the engine of a written command notes something of it."""
        return command.id in self.records

    @cached_property
    def engines(self) -> Ints:
        """Return for each command the place of its engine in ``Program.engines``."""
        places = {engine: place for place, engine in enumerate(self.run.program.engines)}
        found: Ints = np.array([places[command.engine] for command in self.commands], np.int64)[self.like]
        return found

    def of(self, engine: str) -> Ints:
        """The numbers of its commands, in order."""
        found: Ints = np.flatnonzero(self.engines == list(self.run.program.engines).index(engine))
        return found

    def long(self, number: int) -> int:
        """The whole number of a written command."""
        return number if self._table is None else self._table.unroller.cuts.long(number)

    def referred(self, number: int, seen_from: int) -> int:
        """The whole number of the command to which the written command ``seen_from`` refers."""
        return number if self._table is None else self._table.unroller.referred(number, seen_from)

    def passed(self, numbers: Ints, phase: Phase) -> Ints:
        """Return when commands of one engine passed a phase, fs."""
        known: Ints | None = self.times[:, 2] if phase == "done" else None
        if self._table is not None and phase != "done":
            known = self._table.passed(phase)
        if known is not None:
            return known[numbers]
        run = self.run
        engine = self.commands[int(numbers[0])].engine
        kind = ENGINES[run.program.engines[engine]]
        noted = [self.records[number] for number in numbers.tolist()]
        return np.array([kind.passed(run.chip, engine, record, phase) for record in noted], np.int64)

    def awaited(self, each: Instances, wait: Wait) -> Ints:
        """The whole numbers of what they wait for."""
        if each.loop is not None and wait.command >= each.loop.first:
            return each.numbers - (each.command.id - wait.command)
        return np.full(len(each.numbers), self.referred(wait.command, each.command.id))

    def instance(self, command: Command) -> Instances:
        """A written command by itself."""
        return Instances(command, np.array([self.long(command.id)]), None)

    def in_laps(self, begin: int) -> Iterator[Instances]:
        """The commands in laps that were left out, from the written command ``begin`` on, those of a loop together."""
        loops: Sequence[Loop] = () if self._table is None else self._table.unroller.loops
        for loop in loops:
            end, size, times = loop.span
            if end > begin:
                laps = size * np.arange(1, times + 1)
                for number in range(end - size, end):
                    yield Instances(self.commands[number], self.long(number) + laps, loop)
