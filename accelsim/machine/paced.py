"""The run of a whole program from the timetable of its rolled form: laps that were left out have times of their own.

Nothing that lies behind a loop moves, for the timetable knows how long the laps took. Where blocks are replayed as
well, their laps are later by as much as they are (``accelsim.machine.replay``): these follow from the state at the cut,
which is that of the block before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from accelsim.engines.device import EngineLog, Times
from accelsim.engines.registry import ENGINES
from accelsim.machine.accounting import busy, engine_times, ledger, step_spans, step_stalls
from accelsim.machine.replay import Replay
from accelsim.machine.run import Run, Slice
from accelsim.machine.timetable import Timetable, timetable
from accelsim.machine.turning import Turn
from accelsim.machine.unrolling import Linked, Unrolling
from accelsim.program.commands import Command, Program, Wait
from accelsim.program.lazy import Lazy
from accelsim.program.repeated import Span
from accelsim.program.rolled import Loop
from accelsim.types import Ints


class _Place(NamedTuple):
    """Where the laps of a loop of the rolled program are in the timetable: the cut of the loop there (``end``), the
    number of their first command, and how many shifts later they come."""

    end: int
    first: int
    shifts: int


@dataclass
class Paced(Unrolling):
    """An ``Unrolling`` whose short run has a timetable."""

    pace: ClassVar[str] = "whose times follow from those of the iterations before"

    @property
    def table(self) -> Timetable:
        """Return the table of the short run."""
        assert self.short.table is not None
        return self.short.table

    @property
    def commands(self) -> int:
        """See ``Unrolling``; none where caches followed each of them."""
        return 0 if self.table.caches else super().commands

    def _place(self, loop: Loop) -> _Place:
        end, shifts = self._short(loop.span.end)
        return _Place(end, self.table.unroller.cuts.long(end - 1) + 1, shifts)

    @cached_property
    def _places(self) -> list[_Place]:
        return [self._place(loop) for loop in self.unroller.loops]

    def _later(self, numbers: Ints, shifts: int) -> Ints:
        """Start, data and end of commands of the timetable so many shifts later, fs, int64 [..., 3]."""
        found: Ints = self.table.times[numbers]
        if self.base is not None and shifts:
            cut = 0 if self.base.fractions is None else self.base.fractions.cut[numbers]
            found = self.base.shift.later(found, cut, shifts)  # type: ignore[arg-type]
        return found

    def times(self, piece: Slice, cut: int, copy: int) -> tuple[int, int, int]:
        """See ``Unrolling``."""
        if not copy:
            return piece.start, piece.data, piece.end
        number, shifts = self._number(piece.command, cut, copy)
        start, data, end = self._later(np.array(number), shifts).tolist()
        return start, data, end

    def _number(self, number: int, cut: int, copy: int) -> tuple[int, int]:
        """The number in the timetable of a command of the unit before a cut, in a copy of it; how many shifts later."""
        span, place = self.unroller.loops[cut].span, self._places[cut]
        return place.first + (copy - 1) * span.size + number - (span.end - span.size), place.shifts

    def record(self, item: Any, cut: int, copy: int) -> Any:
        """See ``Unrolling``."""
        run, number = self.rolled, item.command
        long, fs, found = self.unroller.cuts.long(number), 0, item
        engine = run.program.commands[number].engine
        if copy:
            long += copy * self.unroller.loops[cut].span.size
            timed, shifts = self._number(number, cut, copy)
            found = self.table.record(timed)
            fs = self.base.shift.fs(shifts) if self.base is not None else 0
        kind = ENGINES[run.program.engines[engine]]
        return kind.later(run.chip, engine, found, long - found.command, fs, {} if not fs else None)

    def in_laps(
        self, logs: Mapping[str, EngineLog]
    ) -> Iterator[tuple[int, Sequence[int], Mapping[str, Times], int]]:
        """See ``Unrolling``: of engines that note something of their commands; the logs hold the others'."""
        for loop, _, steps in self.laps():
            op, place = self.rolled.program.commands[loop.span.end - 1].op, self._place(loop)
            for shifts, moved in self._alike(place, steps):
                yield op, moved, self._spent(loop.span, place, shifts), 1

    def _alike(self, place: _Place, steps: Sequence[int]) -> list[tuple[int, list[int]]]:
        """A loop and its copies, so many ``steps`` further on, in groups of which as much is cut off: (how many shifts
        later one of them is, steps of all)."""
        if self.base is None or len(steps) == 1:
            return [(place.shifts, list(steps))]
        groups: dict[int, tuple[int, list[int]]] = {}
        for copy, step in enumerate(steps):
            cut = copy * self.base.shift.num % self.base.shift.den
            groups.setdefault(cut, (copy, []))[1].append(step)
        return list(groups.values())

    def _spent(self, span: Span, place: _Place, shifts: int) -> dict[str, Times]:
        """Return how the engines spent their time on the laps of a loop, so many shifts later."""
        found, table = dict[str, Times](), self.table
        later_fs = self.base.shift.fs(shifts) if self.base is not None else 0
        for engine, numbers in table.numbers.items():
            bounds = place.first, place.first + span.size, place.first + span.size * span.times
            first, unit, last = np.searchsorted(numbers, bounds).tolist()
            if unit > first:
                commands = [table.program.commands[each] for each in table.like[numbers[first:unit]].tolist()]
                found[engine] = table.timers[engine].spent(
                    table.noted(engine)[first:last], commands, later_fs
                )
        return found

    def summed(self, of: Callable[[Sequence[Slice]], Mapping[Any, int]], engine: str = "") -> dict[Any, int]:
        """See ``Replay.summed``; of laps ``of`` looks at nothing but how long data moved."""
        found = dict(of(self.rolled.slices) if self.base is None else self.base.summed(of, engine))
        for loop, _, steps in self.laps():
            place = self._place(loop)
            unit = self.short.slices[place.end - loop.span.size : place.end]
            op = self.rolled.program.commands[loop.span.end - 1].op
            if not of(unit):
                continue
            for shifts, moved in self._alike(place, steps):
                for pieces, often in self._durations(unit, loop.span.times, place.first, shifts):
                    for (_, *rest), count in of(pieces).items():
                        for step in moved:
                            key = (op + step, *rest)
                            found[key] = found.get(key, 0) + often * count
        return found

    def _durations(
        self, unit: Sequence[Slice], laps: int, first: int, shifts: int
    ) -> Iterator[tuple[list[Slice], int]]:
        """Commands of the laps of a loop, those that take as long together, and how often there are as many."""
        times = self._later(first + np.arange(len(unit) * laps).reshape(laps, len(unit)), shifts)
        took = times[..., 2] - times[..., 1]
        same = np.all(took == took[0], 0)
        yield [
            piece._replace(end=piece.data + fs)
            for piece, fs, alike in zip(unit, took[0].tolist(), same.tolist(), strict=True) if alike
        ], laps  # fmt: skip
        for index in np.flatnonzero(~same).tolist():
            lengths, counts = np.unique(took[:, index], return_counts=True)
            for fs, count in zip(lengths.tolist(), counts.tolist(), strict=True):
                yield [unit[index]._replace(end=unit[index].data + fs)], count

    @cached_property
    def whole_short(self) -> Run:
        """The short run with all laps, in numbers of its own, as a walk along its critical path looks at it."""
        program = replace(self.short.program, commands=_Commands(self.table))
        linked = Linked(self.short.by_link, self.table.unroller.cuts)
        return replace(self.short, program=program, slices=_Slices(self.table), by_link=linked, table=None)

    @cached_property
    def blocks(self) -> Replay | None:
        """Return how the run comes from ``whole_short``, where blocks were replayed."""
        if self.base is None:
            return None
        span, cuts = self.base.repeat.commands, self.table.unroller.cuts
        end, begin = cuts.long(span.end - 1) + 1, cuts.long(span.end - span.size - 1) + 1
        repeat = replace(self.base.repeat, commands=Span(end, end - begin, span.times))
        return replace(self.base, program=self.program, short=self.whole_short, repeat=repeat)


class _Commands(Lazy[Command]):
    """All commands of a timetable: what they wait for and how long they take; regions are those of the written ones."""

    def __init__(self, table: Timetable) -> None:
        self._table, self._laps = table, dict[int, Loop]()
        self._known = dict[tuple[int, bool], list[tuple[bool, int, Wait]]]()
        for loop in table.unroller.loops:
            self._laps |= dict.fromkeys(range(loop.span.end - loop.span.size, loop.span.end), loop)

    def __len__(self) -> int:
        return len(self._table.times)

    def at(self, index: int) -> Command:
        """The command with this number."""
        table, like = self._table, int(self._table.like[index])
        one = table.program.commands[like]
        copied = index != table.long[like]
        if (like, copied) not in self._known:
            self._known[like, copied] = [self._meant(one, wait, copied) for wait in one.waits]
        waits = tuple([
            wait._replace(command=index - number if moves else number)
            for moves, number, wait in self._known[like, copied]
        ])  # fmt: skip
        return Command(
            index, one.kind, one.engine, one.op, one.label, one.work, one.effect, waits, one.reads, one.writes,
            one.actions, one.core,
        )  # fmt: skip

    def _meant(self, one: Command, wait: Wait, copied: bool) -> tuple[bool, int, Wait]:
        """Return whether what a command waits for moves with it, and how far it lies before it or where."""
        if copied and wait.command >= self._laps[one.id].first:
            return True, one.id - wait.command, wait
        return False, self._table.unroller.referred(wait.command, one.id), wait


class _Slices(Lazy[Slice]):
    """Slices of all commands of a timetable."""

    def __init__(self, table: Timetable) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table.times)

    def at(self, index: int) -> Slice:
        """Return the entry of the command with this number."""
        command = self._table.program.commands[int(self._table.like[index])]
        return Slice(index, command.engine, command.op, command.label, *self._table.times[index].tolist())


def timed(program: Program, model: str) -> Run | None:
    """The run of a rolled program, values off, by its timetable; None where somebody competes for something."""
    table = timetable(program, model)
    if table is None:
        return None
    logs, steps = table.logs(), len(program.steps)
    slices = [
        Slice(command.id, command.engine, command.op, command.label, *times)
        for command, times in zip(program.commands, table.times[table.long].tolist(), strict=True)
    ]
    records = [
        table.timers[engine].record(number, program.commands[number], row)
        for engine in table.numbers
        for number, row in table.written(engine)
    ]
    time_fs, times = int(table.times[:, 2].max(initial=0)), engine_times(program, logs, records)
    return Run(
        chip=program.chip, program=program, values="off", time_fs=time_fs, slices=slices, ledger=ledger(program),
        engines=busy(times, time_fs), step_spans=step_spans(slices, steps), step_stalls=step_stalls(times, steps),
        folds=records, by_link=set().union(*(timer.by_link for timer in table.timers.values())), memory_model=model,
        caches={cache.name: cache.stats for cache in table.caches}, table=table,
    )  # fmt: skip


def turns_of(run: Run) -> list[Turn]:
    """The loops of a run with a timetable: nothing is later behind them than it is in the run."""
    return [Turn(loop, 0, 0) for loop in run.program.loops]
