"""Whether the state of the machine recurs: what must hold for copies of alike units to be replayed, see ``replay``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from accelsim.engines.device import QUEUE, History
from accelsim.machine.replay import Replay
from accelsim.machine.run import Run
from accelsim.machine.shifts import Shift, fractions_of, nearest_shift, turns_of_clocks
from accelsim.machine.timeline import Timeline
from accelsim.program.commands import Program
from accelsim.program.repeated import Repeat
from accelsim.time import NEVER, Clock
from accelsim.types import Ints

UNITS = 2
"""Units that are compared."""


def recurrence(program: Program, short: Run) -> Replay | None:
    """Return how ``short``, the run of ``program`` without its copies, becomes that of the whole; None where it does
    not."""
    repeat = program.repeat
    assert repeat is not None
    shift = nearest_shift(program, _took_fs(repeat, short))
    if shift is None:
        return None
    fractions = None if shift.denominator == 1 else fractions_of(short, repeat.commands.unit.start)
    if fractions is None and shift.denominator > 1:
        return None
    den = 1 if fractions is None else fractions.den
    found = Replay(program, short, repeat, Shift(int(shift * den), den), fractions)
    if short.time_fs + found.whole_fs >= NEVER or not _begins_clearly(found):
        return None
    holds = (
        _times_recur(found),
        _begins_alike(found),
        _histories_recur(found),
        _settled(found),
    )
    return found if all(holds) else None


def _took_fs(repeat: Repeat, short: Run) -> int:
    """From the first command of the unit before the last to that of the last."""
    last = short.slices[repeat.commands.unit.start]
    return last.start - short.slices[last.command - repeat.commands.size].start


def cycles(program: Program, short: Run) -> Iterator[Program]:
    """The program with so many units as one that all clocks may be where they were behind them, which they are not
    behind each: two, for units take turns, or as many as it takes where each takes as long as the last. None that would
    leave few copies."""
    repeat = program.repeat
    assert repeat is not None
    turns = turns_of_clocks(program, _took_fs(repeat, short))
    for units in sorted({2, turns}) if turns > 1 else ():
        more = UNITS * units - repeat.units
        more += (repeat.times - more) % units
        if more < repeat.times // 2:
            yield repeat.wider(program, units, more)


def _times_recur(replay: Replay) -> bool:
    """Return whether all times of the unit written last are those of the one before, a shift later."""
    pieces, unit, size = replay.short.slices, replay.unit, replay.repeat.commands.size
    times: Ints = np.array([piece[4:] for piece in pieces[unit.start - size : unit.stop]], np.int64)
    before, now = times[: len(unit)], times[size:]
    if replay.fractions is None:
        return bool(np.all(now == before + replay.shift.num))
    cut, shift = replay.fractions.cut[unit.start - size : unit.stop], replay.shift
    carried = (cut[size:] - cut[: len(unit)] - shift.num % shift.den) % shift.den
    return bool(np.all(now == shift.later(before, cut[: len(unit)], 1)) and not carried.any())


def _begins_clearly(replay: Replay) -> bool:
    """Return whether no other moment than that at which the unit begins has the same time."""
    begin_fs, cut = replay.begin
    return replay.fractions is None or replay.fractions.moments([begin_fs]) == {begin_fs: cut}


def _begins_alike(replay: Replay) -> bool:
    """Return whether only the last unit, and before only the one there, is at work when the next one begins."""
    pieces, unit = replay.short.slices, replay.unit
    begin_fs = replay.begin[0]
    before_fs = max((piece.end for piece in pieces[: unit.start - len(unit)]), default=0)
    unit_fs = max((piece.end for piece in pieces[: unit.start]), default=0)
    behind_fs = min((piece.start for piece in pieces[unit.stop :]), default=0)
    return before_fs <= begin_fs and unit_fs <= replay.end_fs <= behind_fs


def _histories_recur(replay: Replay) -> bool:
    """Return whether the commands of a unit came to their ends as those of the one before did, as much later."""
    size, histories = replay.repeat.commands.size, replay.short.histories
    return all(_alike(histories[number - size], histories[number], size) for number in replay.unit)


def _alike(one: History, other: History, size: int) -> bool:
    (before, *why), (cause, *reason) = one.cause, other.cause
    if why != reason or one.activities != other.activities or (before >= 0) != (cause >= 0):
        return False
    return before + size == cause or before < 0 or why[1] != QUEUE


def _settled(replay: Replay) -> bool:
    """Return whether what is older than the unit before the last (behind the copies: than the last unit) was there
    before anybody who waits for it could have gone on: it may be older in each copy, and must decide about none."""
    assert replay.program.repeat is not None
    short, span = replay.short, replay.program.repeat.commands
    pieces, delay_fs = short.slices, Clock(short.chip.clock).at(short.chip.token_delay)
    line = Timeline(short)
    begin, last = span.end - replay.repeat.commands.size, dict[str, int]()
    for command in short.program.commands:
        if command.id >= begin:
            oldest = (begin if command.id < span.end else span.end) - span.size
            old = [wait.command for wait in command.waits if wait.command < oldest]
            ready = max((int(line.times[number, 2]) + delay_fs for number in old), default=0)
            if old and (command.engine not in last or ready > pieces[last[command.engine]].start):
                return False
        last[command.engine] = command.id
    return True
