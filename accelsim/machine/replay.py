"""Alike blocks of a network: the run of a program follows from the run without the copies of its last written unit.

A copy does what the unit written last did, later by as much as that one came behind the unit before it. If the two
differ in nothing else, and nothing older is at work or decides about anything when the next unit begins, the machine is
in the same state behind both, so the result is that of a simulation of all commands (where a clock period is no whole
number of femtoseconds, but for a femtosecond). If they differ by less than ``NEAR``, copies take their mean.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from accelsim.engines.device import BUSY, QUEUE, EngineLog, History
from accelsim.engines.registry import ENGINES
from accelsim.machine.accounting import busy, costs, ledger_rows, spans, step_stalls, summed
from accelsim.machine.run import Busy, LedgerRow, Replay, Run, Segment, Slice, add_to
from accelsim.program.lazy import Item, Lazy
from accelsim.program.program import Program
from accelsim.program.repeated import Commands, Span
from accelsim.time import Clock
from accelsim.types import Ints

NEAR = Fraction(1, 1000)
"""Share of its time by which a block may differ from the one before and still be copied."""


class Repeated(Lazy[Item]):
    """One item for each of a sequence: as it is before the copies, as ``later`` makes it of that of the unit written
    last, and as ``behind`` makes it behind the copies."""

    def __init__(
        self, items: Sequence[Item], span: Span, later: Callable[[Item, int], Item], behind: Callable[[Item], Item]
    ) -> None:
        self.items, self.span, self._later, self._behind = items, span, later, behind

    def __len__(self) -> int:
        return len(self.items) + self.span.size * self.span.times

    def at(self, index: int) -> Item:
        """Return what is there, later for a copy and what is behind the copies."""
        template, copy = self.span.copy_of(index)
        if copy:
            return self._later(self.items[template], copy)
        return self.items[index] if index < self.span.end else self._behind(self.items[self.span.short(index)])

    @property
    def behind(self) -> Iterator[Item]:
        """Return what comes behind the copies."""
        return map(self._behind, self.items[self.span.end :])

    def __iter__(self) -> Iterator[Item]:
        yield from self.items[: self.span.end]
        unit = self.items[self.span.end - self.span.size : self.span.end]
        for copy in range(1, self.span.times + 1):
            for item in unit:
                yield self._later(item, copy)
        yield from self.behind


def replay_of(program: Program, short: Run) -> Replay | None:
    """Return how ``short``, the run of ``program`` without its copies, becomes that of the whole; None where the two
    units written last differ too much."""
    assert program.repeat is not None
    end, size, _ = program.repeat.commands
    times: Ints = np.array([piece[4:] for piece in short.slices[end - 2 * size : end]], np.int64)
    later = times[size:] - times[:size]
    shift = _whole_edges(program, int(later[0, 0]))
    if shift is not None and np.all((later == int(shift)) | (later == -int(-shift // 1))):
        found = Replay(program, short, shift)
        if _begins_alike(found) and _histories_recur(found) and _settled(found):
            return found
    shift = _mean(short.slices[end - 2 * size : end])
    return None if shift is None else Replay(program, short, shift, equal=False)


def _whole_edges(program: Program, took_fs: int) -> Fraction | None:
    """Return what took so long as a whole number of edges of every clock (that of the ports is the clock of who asks),
    exact fs; None where it is none of one of them."""
    clocks = (ENGINES[kind].clock(program.chip, engine) for engine, kind in program.engines.items())
    exact = {clock.nearest(took_fs) for clock in clocks if clock is not None} or {Fraction(took_fs)}
    found = exact.pop()
    return found if not exact and found > 0 and abs(found - took_fs) < 1 else None


def _mean(units: Sequence[Slice]) -> Fraction | None:
    """Return how much later the second of two units begins and ends on average; None where that differs from engine to
    engine by ``NEAR`` or more."""
    half, later = len(units) // 2, list[int]()
    for engine in {piece.engine for piece in units}:
        before, now = ([each for each in unit if each.engine == engine] for unit in (units[:half], units[half:]))
        later.append(min(each.start for each in now) - min(each.start for each in before))
        later.append(max(each.end for each in now) - max(each.end for each in before))
    mean = Fraction(sum(later), len(later))
    return mean if mean > 0 and max(later) - min(later) < NEAR * mean else None


def _begins_alike(replay: Replay) -> bool:
    """Return whether only the last unit, and before only the one there, is at work when the next one begins."""
    pieces, (end, size, _) = replay.short.slices, replay.repeat.commands
    begin_fs = min(piece.start for piece in pieces[end - size :])
    before_fs = max((piece.end for piece in pieces[: end - 2 * size]), default=0)
    unit_fs = max(piece.end for piece in pieces[: end - size])
    behind_fs = min((piece.start for piece in pieces[end:]), default=begin_fs + replay.later_fs(1))
    return before_fs <= begin_fs and unit_fs <= begin_fs + replay.later_fs(1) <= behind_fs


def _histories_recur(replay: Replay) -> bool:
    """Return whether the commands of a unit came to their ends as those of the one before did."""
    span, histories = replay.repeat.commands, replay.short.histories
    return all(_alike(histories[number - span.size], histories[number], span.size) for number in span.unit)


def _alike(one: History, other: History, size: int) -> bool:
    (before, *why), (cause, *reason) = one.cause, other.cause
    if why != reason or one.activities != other.activities or (before >= 0) != (cause >= 0):
        return False
    return before + size == cause or before < 0 or why[1] != QUEUE


def _settled(replay: Replay) -> bool:
    """Return whether what is older than the unit before the last (behind the copies: than the last unit) was there
    before anybody who waits for it could have gone on: it may be older in each copy, and must decide about none."""
    short, (end, size, _) = replay.short, replay.repeat.commands
    pieces, delay_fs = short.slices, Clock(short.chip.clock).at(short.chip.token_delay)
    last = dict[str, int]()
    for command in short.program.commands:
        if command.id >= end - size:
            oldest = end - 2 * size if command.id < end else end - size
            old = [wait.command for wait in command.waits if wait.command < oldest]
            ready = max((pieces[number].end + delay_fs for number in old), default=0)
            if old and (command.engine not in last or ready > pieces[last[command.engine]].start):
                return False
        last[command.engine] = command.id
    return True


def replayed(replay: Replay, logs: Mapping[str, EngineLog]) -> Run:
    """The run of the whole program; ``logs``: how the engines of the short one spent their time."""
    short, program, span = replay.short, replay.program, replay.repeat.commands
    time_fs = replay.behind_fs + max(piece.end for piece in short.slices[span.unit.start :])
    times = {engine: summed(logs[engine], _entries(replay, logs[engine])) for engine in program.engines}
    return replace(
        short,
        program=program,
        time_fs=time_fs,
        slices=Repeated(short.slices, span, replay.later, replay.behind),
        ledger=_ledger(replay),
        engines=[_fitted(entry) for entry in busy(times, time_fs)],
        step_spans=_step_spans(replay),
        step_stalls=step_stalls(times, len(program.steps)),
        histories=_histories(replay),
        replay=replay,
    )


def _ledger(replay: Replay) -> list[LedgerRow]:
    """Return what all commands cost, in the order of a ledger of all of them."""
    commands, repeat = replay.program.commands, replay.repeat
    assert isinstance(commands, Commands)
    totals = costs(commands.before)
    unit = costs(commands.before[repeat.commands.unit.start :])
    for copy in range(1, repeat.times + 1):
        for (component, action, op, tensor), count in unit.items():
            key = component, action, op + copy * repeat.steps.size, repeat.text(tensor, copy)
            totals[key] = totals.get(key, 0) + count
    add_to(totals, costs(commands.behind))
    return ledger_rows(totals)


def _step_spans(replay: Replay) -> list[tuple[int, int]]:
    """First start and last end of the commands of each step."""
    pieces, span, steps = replay.short.slices, replay.repeat.commands, replay.repeat.steps.size
    parts = [spans(pieces[: span.end]), spans(map(replay.behind, pieces[span.end :]))]
    unit = spans(pieces[span.end - span.size : span.end])
    for copy in range(1, replay.repeat.times + 1):
        fs = replay.later_fs(copy)
        parts.append({op + copy * steps: (start + fs, end + fs) for op, (start, end) in unit.items()})
    found = dict[int, tuple[int, int]]()
    for part in parts:
        for op, (start, end) in part.items():
            known = found.get(op, (start, end))
            found[op] = min(known[0], start), max(known[1], end)
    return [found.get(step, (0, 0)) for step in range(len(replay.program.steps))]


def _entries(replay: Replay, log: EngineLog) -> Iterator[tuple[int, str, int]]:
    """Entries of the whole run by step: those of the unit once more for each copy. An engine that the unit does not use
    waits for all copies."""
    steps, unit, in_unit = replay.repeat.steps, replay.repeat.commands.unit, Counter[tuple[int, str]]()
    waits = not any(number in unit for number, *_ in log.entries)
    for number, why, fs in log.entries:
        op, later_fs = replay.step_of(number), 0
        if waits and number >= unit.stop:
            waits, later_fs = False, replay.behind_fs if why != BUSY else 0
        yield op, why, fs + later_fs
        if number in unit:
            in_unit[op, why] += fs
    for copy in range(1, steps.times + 1):
        yield from ((op + copy * steps.size, why, fs) for (op, why), fs in in_unit.items())


def _fitted(entry: Busy) -> Busy:
    """Take the excess time of copies of unequal units off the largest part, so that all fit in the time of the run."""
    if entry.idle >= 0:
        return entry
    parts = {"": entry.busy, **entry.stalled}
    parts[max(parts, key=lambda why: parts[why])] += entry.idle
    return Busy(entry.engine, parts.pop(""), parts, 0)


def _histories(replay: Replay) -> Sequence[History]:
    """Return how all commands came to their ends, those of copies made when somebody asks."""
    span = replay.repeat.commands

    def behind(history: History) -> History:
        return history.moved(lambda number: _last_copy(span, number), replay.behind_fs)

    def later(history: History, copy: int) -> History:
        return history.moved(lambda number: number + copy * span.size, replay.later_fs(copy))

    return Repeated(replay.short.histories, span, later, behind)


def _last_copy(span: Span, number: int) -> int:
    """The number in the whole program of a command behind the copies; of another one that in the last copy."""
    return span.long(number) if number >= span.end else number + span.size * span.times


class RepeatedPath(Repeated[Segment]):
    """The critical path of a run that was replayed; ``span``: pieces that come again in each copy, in which their times
    are stretched to the time between two copies."""

    def __init__(self, replay: Replay, path: Sequence[Segment], span: Span) -> None:
        super().__init__(path, span, self._in_copy, self._behind_copies)
        self._replay, self._commands = replay, replay.repeat.commands
        self._begin_fs, self._end_fs = path[span.end - span.size].start, path[span.end - 1].end

    def groups(self) -> Iterator[tuple[Sequence[int], Sequence[Segment]]]:
        """Yield copies whose pieces take equally long, and those of the first of them as pieces of the unit."""
        groups = dict[int, list[int]]()
        for copy in range(1, self.span.times + 1):
            groups.setdefault(self._replay.later_fs(copy) - self._replay.later_fs(copy - 1), []).append(copy)
        for copies in groups.values():
            unit = self.items[self.span.end - self.span.size : self.span.end]
            yield copies, [self._in_copy(each, copies[0])._replace(command=each.command) for each in unit]

    def _in_copy(self, piece: Segment, copy: int) -> Segment:
        later_fs, took_fs = self._replay.later_fs, self._end_fs - self._begin_fs
        first_fs = self._end_fs + later_fs(copy - 1)
        copy_fs = later_fs(copy) - later_fs(copy - 1)
        start, end = (first_fs + (at - self._begin_fs) * copy_fs // took_fs for at in piece[:2])
        return piece._replace(start=start, end=end, command=piece.command + copy * self._commands.size)

    def _behind_copies(self, piece: Segment) -> Segment:
        fs, number = self._replay.behind_fs, _last_copy(self._commands, piece.command)
        return piece._replace(start=piece.start + fs, end=piece.end + fs, command=number)


def whole_path(replay: Replay, path: Sequence[Segment]) -> Sequence[Segment] | None:
    """The critical path of the whole run, given that of the short one; None where it does not recur."""
    exact = replay.equal and replay.shift.denominator == 1
    cut = _period(replay, path) if exact else _crossing(replay.repeat.commands, path)
    return None if cut is None else RepeatedPath(replay, path, Span(*cut, replay.repeat.times))


def _period(replay: Replay, path: Sequence[Segment]) -> tuple[int, int] | None:
    """(end, pieces) of a part of the path whose end is that of what comes before it, a unit earlier; None for none."""
    span, fs = replay.repeat.commands, int(replay.shift)
    last = bisect_right([piece.start for piece in path], max(replay.short.slices[number].end for number in span.unit))
    earlier = [
        piece._replace(start=piece.start + fs, end=piece.end + fs, command=piece.command + span.size)
        for piece in path[:last]
    ]
    at = {(piece.end, piece.command): index for index, piece in enumerate(earlier)}
    for end in range(last, 0, -1):
        piece = path[end - 1]
        if piece.command not in span.unit or (piece.end, piece.command) not in at:
            continue
        before = at[piece.end, piece.command] + 1
        size = end - before
        if size and before >= size and list(path[end - size : end]) == earlier[before - size : before]:
            return end, size
    return None


def _crossing(span: Span, path: Sequence[Segment]) -> tuple[int, int]:
    """(end, pieces) of the part of the path from the first command of the unit written last to the first behind it."""
    first, end = (
        next((index for index, piece in enumerate(path) if piece.command >= number), len(path))
        for number in (span.end - span.size, span.end)
    )
    return max(end, 1), max(end, 1) - min(first, max(end, 1) - 1)
