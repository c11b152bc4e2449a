"""Whether the state of the machine recurs inside a loop that is rolled up: what must hold for its laps to be replayed.

Laps overlap: what comes next begins before what came before has ended. So two moments are compared, as far apart as
alike laps are. At both, all that is older than the laps in between is done, and its tokens are there; nobody has begun
anything that lies behind them; and whatever the laps in between did, they did as much later. Then the machine is in the
same state at both moments, and as its engines have the same laps before them, they go on alike as long as there are
laps. So the laps that were left out follow each other by the same shift, and all that comes behind them moves with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from accelsim.engines.registry import ENGINES
from accelsim.machine.recurrence import whole_edges
from accelsim.machine.run import Run
from accelsim.program.commands import Command, Wait
from accelsim.program.rolled import Loop
from accelsim.time import Clock
from accelsim.types import Ints


class Turn(NamedTuple):
    """A loop whose units of laps follow each other by ``shift_fs``; the machine was in the same state at ``at_fs`` and
    a shift before."""

    loop: Loop
    shift_fs: int
    at_fs: int


class Turning:
    """Looks for the turns of the loops of a rolled program, of which ``run`` is the run."""

    def __init__(self, run: Run) -> None:
        self._run, self._commands = run, run.program.commands
        self._times: Ints = np.array([piece[4:] for piece in run.slices], np.int64)
        self._done = np.maximum.accumulate(self._times[:, 2])
        self._begun = np.minimum.accumulate(self._times[::-1, 0])[::-1]
        self._delay_fs = Clock(run.chip.clock).at(run.chip.token_delay)

    @cached_property
    def _records(self) -> dict[int, Any]:
        return {record.command: record for record in self._run.folds}

    def turns(self) -> list[Turn | None]:
        """Return those of all loops, in order; None for one in which the state does not recur."""
        numbers = [record.command for record in self._run.folds]
        inside = numbers == sorted(numbers)  # else there are several arrays, whose records alternate
        return [self._turn(loop) if inside else None for loop in self._run.program.loops]

    def _turn(self, loop: Loop) -> Turn | None:
        size, cut = loop.span.size, (loop.span.end - loop.first) // loop.span.size
        units = cut + loop.tail
        times = self._times[loop.first : loop.first + units * size].reshape(units, size, 3)
        shifts = np.diff(times, axis=0)
        shift_fs = int(shifts[cut - 1].max())
        if shift_fs <= 0 or not whole_edges(self._run.program, shift_fs):
            return None
        like = [
            bool(np.all(shifts[unit] == shift_fs)) and self._noted_alike(loop, unit, shift_fs)
            for unit in range(units - 1)
        ]
        first = last = cut - 1
        while first and like[first - 1]:
            first -= 1
        while last < units - 1 and like[last]:
            last += 1
        if last <= cut - 1:
            return None
        at_fs = self._moment(loop, times[last - 1])
        return Turn(loop, shift_fs, at_fs) if self._recurs(loop, first, last, at_fs, shift_fs) else None

    def _moment(self, loop: Loop, times: Ints) -> int:
        """When no engine of the loop has gone on to the unit behind the one with these ``times``: the first of their
        last commands begins (an array looks one command ahead)."""
        unit = self._commands[loop.span.end - loop.span.size : loop.span.end]
        return min({command.engine: int(times[index, 0]) for index, command in enumerate(unit)}.values())

    def _recurs(self, loop: Loop, first: int, last: int, at_fs: int, shift_fs: int) -> bool:
        """Return whether nothing but units ``first`` to ``last`` was at work from ``at_fs`` less ``shift_fs`` to
        ``at_fs``."""
        start, end = loop.first + first * loop.span.size, loop.first + (last + 1) * loop.span.size
        done_fs = int(self._done[start - 1]) + self._delay_fs if start else 0
        idle = end == len(self._commands) or int(self._begun[end]) >= at_fs
        return done_fs <= at_fs - shift_fs and idle and self._others_wait(loop, end, at_fs)

    def _others_wait(self, loop: Loop, end: int, at_fs: int) -> bool:
        """Return whether the engines that the loop does not use cannot go on before ``at_fs``."""
        working = {
            command.engine for command in self._commands[loop.span.end - loop.span.size : loop.span.end]
        }
        others = set(self._run.program.engines) - working
        for number in range(end, len(self._commands)):
            if not others:
                break
            command = self._commands[number]
            if command.engine in others:
                others.remove(command.engine)
                known = [int(self._times[wait.command, 2 * (wait.phase == "done")]) for wait in command.waits]
                if max(known, default=-1) + self._delay_fs < at_fs:  # other phases: not before it began
                    return False
        return True

    def _noted_alike(self, loop: Loop, unit: int, shift_fs: int) -> bool:
        """Return whether what the engines noted of the unit behind ``unit`` is what they noted of it, as much later."""
        run, size = self._run, loop.span.size
        for number in range(loop.first + unit * size, loop.first + (unit + 1) * size):
            if (number in run.by_link) != (number + size in run.by_link):
                return False
            if number in self._records:
                command = self._commands[number + size]
                tokens = self._stay(command, loop.first)
                kind, before = ENGINES[run.program.engines[command.engine]], self._records[number]
                if (
                    kind.later(run.chip, command.engine, before, size, shift_fs, tokens)
                    != self._records[number + size]
                ):
                    return False
        return True

    @staticmethod
    def _stay(command: Command, first: int) -> Mapping[str, int]:
        """Tokens that all come from what is older than the loop."""
        moving = {wait.why for wait in command.waits if wait.command >= first}
        return {wait.why: 0 for wait in command.waits if wait.why not in moving}


def latest_tokens(
    run: Run, records: Mapping[int, Any], command: Command, later_fs: Mapping[Wait, int]
) -> dict[str, int] | None:
    """Return by how much later the tokens of a command come (``Wait.why`` -> fs), if what each waits for comes
    ``later_fs``; None where another one than now would come last."""
    found, waits = dict[str, int](), dict[str, list[Wait]]()
    for wait in command.waits:
        waits.setdefault(wait.why, []).append(wait)
    for why, alike in waits.items():
        times = [_when(run, records, wait) for wait in alike]
        last = times.index(max(times))
        moved = [at + later_fs[wait] for at, wait in zip(times, alike, strict=True)]
        if moved[last] != max(moved):
            return None
        found[why] = later_fs[alike[last]]
    return found


def _when(run: Run, records: Mapping[int, Any], wait: Wait) -> int:
    """When a command passed a phase, fs."""
    piece = run.slices[wait.command]
    if wait.phase == "done":
        return piece.end
    kind = ENGINES[run.program.engines[piece.engine]]
    return kind.passed(run.chip, piece.engine, records[wait.command], wait.phase)
