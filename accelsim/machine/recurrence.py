"""Whether the state of the machine recurs: what must hold for copies of alike units to be replayed, see ``replay``."""

from __future__ import annotations

import numpy as np

from accelsim.engines.registry import ENGINES
from accelsim.machine.replay import Replay
from accelsim.machine.run import Run
from accelsim.program.commands import Program
from accelsim.program.repeated import Repeat
from accelsim.time import NEVER, Clock
from accelsim.types import Ints


def recurrence(program: Program, short: Run, cycle: int = 1) -> Replay | None:
    """How ``short``, the run of ``program`` without its copies, becomes that of the whole; None where it does not.

    ``cycle``: after how many units everything comes again; one more than these must be written at least.
    """
    repeat = program.repeat
    assert repeat is not None
    times = _times_by_unit(repeat, short)
    shifts = times[-1] - times[-1 - cycle]
    shift_fs = int(shifts[0, 0])
    if not np.all(shifts == shift_fs) or shift_fs <= 0 or not whole_edges(program, shift_fs):
        return None
    found = Replay(program, short, repeat.together(cycle), shift_fs)
    if short.time_fs + found.whole_fs >= NEVER:
        return None
    holds = _begins_alike(found), _records_recur(found), _links_recur(found), _settled(found)
    return found if all(holds) else None


def _begins_alike(replay: Replay) -> bool:
    """Whether only the last unit, and a cycle before only the one there, is at work when the next one begins."""
    pieces, unit = replay.short.slices, replay.unit
    first = replay.repeat.commands.unit.start  # of the unit behind the one a cycle before the last
    begin_fs = replay.begin_fs
    before_fs = max((piece.end for piece in pieces[: first - len(unit)]), default=0)
    cycle_fs = max((piece.end for piece in pieces[: unit.start]), default=0)
    behind_fs = min((piece.start for piece in pieces[unit.stop :]), default=0)
    return before_fs <= begin_fs and cycle_fs <= begin_fs + replay.shift_fs <= behind_fs


def _times_by_unit(repeat: Repeat, short: Run) -> Ints:
    """Start, data and end of each command of the written units, fs [units, commands, 3]."""
    span = repeat.commands
    pieces = short.slices[span.end - repeat.units * span.size : span.end]
    return np.array([piece[4:] for piece in pieces], np.int64).reshape(repeat.units, -1, 3)


def cycle_of(program: Program, short: Run) -> int:
    """After how many units all clocks should be where they are now: a unit may take so many edges of each, and yet no
    whole number of femtoseconds. 0 where no number of units would do."""
    assert program.repeat is not None
    times = _times_by_unit(program.repeat, short)
    took = int(times[-1, 0, 0] - times[-2, 0, 0])
    clocks = [ENGINES[kind].clock(program.chip, engine) for engine, kind in program.engines.items()]
    exact = {clock.nearest(took) for clock in clocks if clock is not None}
    return exact.pop().denominator if len(exact) == 1 else 0


def whole_edges(program: Program, shift_fs: int) -> bool:
    """Whether the shift is a whole number of edges of every clock (that of the ports is the clock of who asks)."""
    clocks = [ENGINES[kind].clock(program.chip, engine) for engine, kind in program.engines.items()]
    return all(clock.nearest(shift_fs) == shift_fs for clock in clocks if clock is not None)


def _records_recur(replay: Replay) -> bool:
    """Whether what the engines noted of a unit is what they noted of the one a cycle before, as much later."""
    short, span, records = (
        replay.short,
        replay.repeat.commands,
        {each.command: each for each in replay.short.folds},
    )
    for number in replay.unit:
        if number in records:
            engine = short.program.commands[number].engine
            kind, before = ENGINES[short.program.engines[engine]], records[number - span.size]
            if kind.later(short.chip, engine, before, span.size, replay.shift_fs) != records[number]:
                return False
    return True


def _links_recur(replay: Replay) -> bool:
    size, held = replay.repeat.commands.size, replay.short.by_link
    return all((number in held) == (number - size in held) for number in replay.unit)


def _settled(replay: Replay) -> bool:
    """Whether what is older than the unit before the cycle (behind the copies: than the last unit) was there before
    anybody who waits for it could have gone on: it may be older in each copy, and must decide about none.
    """
    assert replay.program.repeat is not None
    short, span = replay.short, replay.program.repeat.commands
    pieces, delay_fs = short.slices, Clock(short.chip.clock).at(short.chip.token_delay)
    begin, last = span.end - replay.repeat.commands.size, dict[str, int]()
    for command in short.program.commands:
        if command.id >= begin:
            oldest = (begin if command.id < span.end else span.end) - span.size
            old = [wait.command for wait in command.waits if wait.command < oldest]
            ready = max((pieces[number].end + delay_fs for number in old), default=0)
            if old and (command.engine not in last or ready > pieces[last[command.engine]].start):
                return False
        last[command.engine] = command.id
    return True
