"""Exact repetition: a program that repeats itself is simulated without its copies, which are then replayed.

Two units of which one does everything as the other, later by the same ``shift_fs``, which is a whole number of edges
of every clock, leave the machine in the same state, if nothing older is still at work when the next unit begins, and
no token that is older decides about anything. So what follows is as much later again, and what is behind the copies
moves with it. Where a unit takes a whole number of edges that is no whole number of femtoseconds, everything comes
again after a ``cycle`` of several units. Where any of that does not hold, the whole program is
simulated (``accelsim.machine.recurrence``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

from accelsim.engines.base import Times
from accelsim.engines.device import EngineLog
from accelsim.engines.registry import ENGINES
from accelsim.machine.accounting import Clips, busy, costs, engine_times, ledger_rows, spans, step_stalls
from accelsim.machine.run import Run, Segment, Slice
from accelsim.machine.sequences import Numbers, Repeated
from accelsim.program.commands import Program
from accelsim.program.repeated import Repeat, Span
from accelsim.time import FS

SEEN = 32
"""Pieces of the critical path that must be those of a cycle before: from there on the way back is the same."""
Key = TypeVar("Key", bound=tuple[Any, ...])


@dataclass
class Replay:
    """How the ``short`` run becomes that of the whole ``program``: what ``repeat`` takes as a unit, a cycle of those
    that the program has, comes again ``repeat.times`` times, each ``shift_fs`` later than the one before."""

    program: Program
    short: Run
    repeat: Repeat
    shift_fs: int

    @property
    def unit(self) -> range:
        """Commands of the unit written last."""
        assert self.program.repeat is not None
        return self.program.repeat.commands.unit

    @cached_property
    def begin_fs(self) -> int:
        """When the cycle that is copied begins."""
        return min(piece.start for piece in self.short.slices[self.repeat.commands.unit.start :])

    @property
    def commands(self) -> int:
        """How many commands were replayed, not simulated."""
        return self.repeat.commands.size * self.repeat.times

    @property
    def text(self) -> str:
        """How much was replayed, in words."""
        often, unit = self.repeat.times, self.repeat.commands.size
        all_of_them = len(self.program.commands)
        return (
            f"replay: {self.commands:,} of {all_of_them:,} commands ({100 * self.commands / all_of_them:.0f}%) were "
            f"not simulated: {often:,} times the same {unit:,}, each time {self.shift_fs * FS:.4g} s later"
        )

    @property
    def whole_fs(self) -> int:
        """How much later is what comes behind the copies."""
        return self.shift_fs * self.repeat.times

    def later(self, piece: Slice, copy: int) -> Slice:
        """A slice of the unit in a copy."""
        repeat, fs = self.repeat, copy * self.shift_fs
        return Slice(
            piece.command + copy * repeat.commands.size, piece.engine, piece.op + copy * repeat.steps.size,
            repeat.text(piece.label, copy), piece.start + fs, piece.data + fs, piece.end + fs,
        )  # fmt: skip

    def behind(self, piece: Slice) -> Slice:
        """A slice behind the copies in the whole run."""
        ident, fs = self.repeat.commands.long(piece.command), self.whole_fs
        op = self.program.commands[ident].op
        return piece._replace(
            command=ident, op=op, start=piece.start + fs, data=piece.data + fs, end=piece.end + fs
        )

    def summed(self, of: Callable[[Sequence[Slice]], Mapping[Key, int]]) -> dict[Key, int]:
        """Figures of the whole run by keys that begin with a step: ``of`` gives those of some slices of the short
        run, in which steps behind the copies have the numbers that they have in the whole run."""
        pieces, span, steps = self.short.slices, self.repeat.commands, self.repeat.steps.size
        unit = of(pieces[span.end - span.size : span.end])
        found = dict(of(pieces[: span.end]))
        for copy in range(1, self.repeat.times + 1):
            _add(found, {cast(Key, (key[0] + copy * steps, *key[1:])): count for key, count in unit.items()})
        ops = (self.program.commands[span.long(piece.command)].op for piece in pieces[span.end :])
        _add(found, of([piece._replace(op=op) for piece, op in zip(pieces[span.end :], ops, strict=True)]))
        return found


def _add(totals: dict[Key, int], more: Mapping[Key, int]) -> None:
    for key, count in more.items():
        totals[key] = totals.get(key, 0) + count


def replayed(replay: Replay, logs: Mapping[str, EngineLog]) -> Run:
    """The run of the whole program; ``logs``: how the engines of the short one spent their time."""
    program, short, repeat = replay.program, replay.short, replay.repeat
    span, time_fs, steps = repeat.commands, short.time_fs + replay.whole_fs, len(program.steps)
    times = _engine_times(replay, logs)
    return replace(
        short, program=program, time_fs=time_fs,
        slices=Repeated(short.slices, span, replay.later, replay.behind),
        ledger=_ledger(replay), engines=busy(times, time_fs), step_spans=_step_spans(replay),
        step_stalls=step_stalls(times, steps), folds=_records(replay),
        by_link=Numbers(short.by_link, span) if short.by_link else set(), replay=replay,
    )  # fmt: skip


def _ledger(replay: Replay) -> list[Any]:
    """What all commands cost, in the order of a ledger of all of them."""
    program, repeat = replay.program, replay.repeat
    commands, span = cast(Any, program.commands), repeat.commands
    totals = costs(commands.before)
    unit = costs(commands.before[span.end - span.size :])
    for copy in range(1, repeat.times + 1):
        _add(totals, {
            (component, action, op + copy * repeat.steps.size, repeat.text(tensor, copy)): count
            for (component, action, op, tensor), count in unit.items()
        })  # fmt: skip
    _add(totals, costs(commands.behind))
    return ledger_rows(totals)


def _step_spans(replay: Replay) -> list[tuple[int, int]]:
    """First start and last end of the commands of each step."""
    pieces, span = replay.short.slices, replay.repeat.commands
    found = spans(pieces[: span.end])
    unit, steps = spans(pieces[span.end - span.size : span.end]), replay.repeat.steps.size
    for copy in range(1, replay.repeat.times + 1):
        fs = copy * replay.shift_fs
        _widen(found, {op + copy * steps: (start + fs, end + fs) for op, (start, end) in unit.items()})
    _widen(found, spans([replay.behind(piece) for piece in pieces[span.end :]]))
    return [found.get(step, (0, 0)) for step in range(len(replay.program.steps))]


def _widen(found: dict[int, tuple[int, int]], more: Mapping[int, tuple[int, int]]) -> None:
    for op, (start, end) in more.items():
        known = found.get(op, (start, end))
        found[op] = (min(known[0], start), max(known[1], end))


def _engine_times(replay: Replay, logs: Mapping[str, EngineLog]) -> dict[str, Times]:
    """As in the short run, and once more for each copy what happened in the time that it takes.

    That is a cycle from its first start on.
    """
    short, repeat, span = replay.short, replay.repeat, replay.repeat.commands
    begin, end = replay.begin_fs, replay.begin_fs + replay.shift_fs
    window = {engine: Clips(log).part(begin, end) for engine, log in logs.items()}
    unit = [record for record in short.folds if record.command in span.unit]
    once = engine_times(short.program, logs, short.folds)
    again = engine_times(short.program, window, unit)
    return {engine: _times(once[engine], again[engine], repeat) for engine in once}


def _times(once: Times, again: Times, repeat: Repeat) -> Times:
    by_step = {repeat.steps.long(op): dict(reasons) for op, reasons in once.by_step.items()}
    for copy in range(1, repeat.times + 1):
        for op, reasons in again.by_step.items():
            _add_reasons(by_step.setdefault(op + copy * repeat.steps.size, {}), reasons)
    stalled = {why: fs + repeat.times * again.stalled.get(why, 0) for why, fs in once.stalled.items()}
    return Times(once.busy + repeat.times * again.busy, stalled, by_step)


def _add_reasons(totals: dict[str, int], more: Mapping[str, int]) -> None:
    for why, fs in more.items():
        totals[why] = totals.get(why, 0) + fs


def _records(replay: Replay) -> Sequence[Any]:
    """What the engines noted of their commands, those of copies made when somebody asks."""
    short, span = replay.short, replay.repeat.commands
    order = sorted(short.folds, key=lambda record: int(record.command >= span.end))
    commands, engines, chip = short.program.commands, short.program.engines, short.chip
    before = [record for record in order if record.command < span.end]
    unit = [record for record in before if record.command in span.unit]
    items = [*(record for record in before if record.command not in span.unit), *unit, *order[len(before) :]]

    def moved(record: Any, number: int, fs: int, tokens: Mapping[str, int] | None = None) -> Any:
        engine = commands[record.command].engine
        return ENGINES[engines[engine]].later(chip, engine, record, number, fs, tokens)

    def behind(record: Any) -> Any:
        whole = replay.program.commands[span.long(record.command)]
        moving = {wait.why for wait in whole.waits if wait.command >= span.end}
        stays = {wait.why: 0 for wait in whole.waits if wait.why not in moving}
        return moved(record, span.times * span.size, replay.whole_fs, stays)

    return Repeated(
        items, Span(len(before), len(unit), span.times),
        lambda record, copy: moved(record, copy * span.size, copy * replay.shift_fs),
        behind,
    )  # fmt: skip


def whole_path(replay: Replay, path: Sequence[Segment]) -> Sequence[Segment] | None:
    """The critical path of the whole run, given that of the short one; None where it does not recur."""
    cut = path_period(replay, path)
    if cut is None:
        return None
    span, shift_fs = replay.repeat.commands, replay.shift_fs

    def later(piece: Segment, copy: int) -> Segment:
        fs = copy * shift_fs
        return piece._replace(
            start=piece.start + fs, end=piece.end + fs, command=piece.command + copy * span.size
        )

    def behind(piece: Segment) -> Segment:
        fs, number = replay.whole_fs, piece.command
        number = span.long(number) if number >= span.end else number + span.size * span.times
        return piece._replace(start=piece.start + fs, end=piece.end + fs, command=number)

    return Repeated(path, Span(*cut, span.times), later, behind)


def path_period(replay: Replay, path: Sequence[Segment]) -> tuple[int, int] | None:
    """(end, pieces) of a part of the path whose end is that of what comes before it, a cycle earlier; None for none."""
    span, shift_fs = replay.repeat.commands, replay.shift_fs
    starts = [piece.start for piece in path]
    last = bisect_right(starts, max(replay.short.slices[number].end for number in replay.unit))
    earlier = [piece._replace(start=piece.start + shift_fs, end=piece.end + shift_fs, command=piece.command + span.size)
               for piece in path[:last]]  # fmt: skip
    at = {(piece.end, piece.command): index for index, piece in enumerate(earlier)}
    for end in range(last, 0, -1):
        piece = path[end - 1]
        if piece.command not in replay.unit or (piece.end, piece.command) not in at:
            continue
        before = at[piece.end, piece.command] + 1
        size = end - before
        seen = (
            size * len(replay.unit) // span.size
        )  # of a cycle of several units so much as one of them takes
        if seen and before >= seen and list(path[end - seen : end]) == earlier[before - seen : before]:
            return end, size
    return None
