"""Exact repetition: a program that repeats itself is simulated without its copies, which are then replayed.

Two units of which one does everything as the other, later by the same ``shift_fs``, which is a whole number of edges
of every clock, leave the machine in the same state, if nothing older is still at work when the next unit begins, and
no token that is older decides about anything. So what follows is as much later again, and what is behind the copies
moves with it. Where so many edges are no whole number of femtoseconds, times are cut off in each copy in its own way
(``accelsim.machine.shifts``). Where any of that does not hold, the whole program is simulated
(``accelsim.machine.recurrence``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar, cast

import numpy as np

from accelsim.engines.device import EngineLog, History, Times
from accelsim.errors import count_of
from accelsim.machine.accounting import busy, costs, ledger_rows, step_stalls, summed
from accelsim.machine.run import Run, Segment, Slice
from accelsim.machine.sequences import Repeated
from accelsim.machine.shifts import Fractions, Shift
from accelsim.program.commands import Program
from accelsim.program.repeated import Repeat, Span
from accelsim.time import FS
from accelsim.types import Ints

Key = TypeVar("Key", bound=tuple[Any, ...])


@dataclass
class Replay:
    """How the ``short`` run becomes that of the whole ``program``: its unit written last comes again
    ``repeat.times`` times, each a ``shift`` later than the one before.
    ``fractions``: what is cut off of times, needed where the shift is no whole number of femtoseconds."""

    program: Program
    short: Run
    repeat: Repeat
    shift: Shift
    fractions: Fractions | None = None

    @property
    def unit(self) -> range:
        """Commands of the unit written last."""
        return self.repeat.commands.unit

    @cached_property
    def begin(self) -> tuple[int, int]:
        """Return when the unit that is copied begins, fs, and what is cut off there."""
        first = min(self.short.slices[self.repeat.commands.unit.start :], key=attrgetter("start"))
        return first.start, self.fraction(first.command, 0)

    @property
    def end_fs(self) -> int:
        """Return when its first copy begins."""
        return self.shift.later(*self.begin, 1)

    @property
    def shift_fs(self) -> int:
        """Return how much later the first copy is, cut off to whole femtoseconds."""
        return self.shift.fs(1)

    @property
    def commands(self) -> int:
        """Return how many commands were replayed, not simulated."""
        return self.repeat.commands.size * self.repeat.times

    @property
    def text(self) -> str:
        """Return how much was replayed, in words."""
        often, unit = count_of(self.repeat.times, "repetition"), self.repeat.commands.size
        all_of_them = len(self.program.commands)
        return (
            f"replay: {self.commands:,} of {all_of_them:,} commands ({100 * self.commands / all_of_them:.0f}%) were "
            f"not simulated: {often} of the same {unit:,}, each {self.shift_fs * FS:.4g} s later"
        )

    @property
    def whole_fs(self) -> int:
        """Return how much later is what comes behind the copies."""
        return self.shift.fs(self.repeat.times)

    def fraction(self, command: int, which: int) -> int:
        """Return what is cut off of the start (0), the data (1) or the end (2) of a command of the short run."""
        return 0 if self.fractions is None else int(self.fractions.cut[command, which])

    def moved(self, piece: Slice, times: int) -> Slice:
        """A slice of the short run so many shifts later, with its own number."""
        start, data, end = (
            self.shift.later(at, self.fraction(piece.command, which), times)
            for which, at in enumerate(piece[4:])
        )
        return piece._replace(start=start, data=data, end=end)

    def alike(self) -> list[list[int]]:
        """The copies in groups that take all their times alike: of those of a group as much is cut off."""
        groups: dict[int, list[int]] = {}
        for copy in range(1, self.repeat.times + 1):
            groups.setdefault(copy * self.shift.num % self.shift.den, []).append(copy)
        return list(groups.values())

    def later(self, piece: Slice, copy: int) -> Slice:
        """A slice of the unit in a copy."""
        repeat, found = self.repeat, self.moved(piece, copy)
        return found._replace(
            command=piece.command + copy * repeat.commands.size, op=piece.op + copy * repeat.steps.size,
            label=repeat.text(piece.label, copy),
        )  # fmt: skip

    def behind(self, piece: Slice) -> Slice:
        """A slice behind the copies in the whole run."""
        ident = self.repeat.commands.long(piece.command)
        return self.moved(piece, self.repeat.times)._replace(
            command=ident, op=self.program.commands[ident].op
        )

    def summed(self, of: Callable[[Sequence[Slice]], Mapping[Key, int]], engine: str = "") -> dict[Key, int]:
        """Figures of the whole run by keys that begin with a step: ``of`` gives those of some slices of the short
        run, in which steps behind the copies have the numbers that they have in the whole run. ``engine``: the only
        one whose slices matter."""
        pieces, span, steps = self.short.slices, self.repeat.commands, self.repeat.steps.size
        found, times = dict(of(pieces[: span.end])), self.repeat.times
        units = dict[int, Mapping[Key, int]]()
        last = [
            piece for piece in pieces[span.end - span.size : span.end] if not engine or piece.engine == engine
        ]
        for copies in self.alike():
            unit = of([self.moved(piece, copies[0]) for piece in last])
            units |= dict.fromkeys(copies, unit)
        for copy, unit in sorted(units.items()):
            _add(found, {cast(Key, (key[0] + copy * steps, *key[1:])): count for key, count in unit.items()})
        ops = (self.program.commands[span.long(piece.command)].op for piece in pieces[span.end :])
        behind = zip(pieces[span.end :], ops, strict=True)
        _add(found, of([self.moved(piece, times)._replace(op=op) for piece, op in behind]))
        return found


def _add(totals: dict[Key, int], more: Mapping[Key, int]) -> None:
    for key, count in more.items():
        totals[key] = totals.get(key, 0) + count


def replayed(replay: Replay, logs: Mapping[str, EngineLog]) -> Run:
    """The run of the whole program; ``logs``: how the engines of the short one spent their time."""
    program, short, repeat = replay.program, replay.short, replay.repeat
    span, steps = repeat.commands, len(program.steps)
    tail = short.slices[repeat.commands.unit.start :]
    time_fs = max(replay.moved(piece, repeat.times).end for piece in tail)
    times = _engine_times(replay, logs)
    return replace(
        short, program=program, time_fs=time_fs,
        slices=Repeated(short.slices, span, replay.later, replay.behind),
        ledger=_ledger(replay), engines=busy(times, time_fs), step_spans=_step_spans(replay),
        step_stalls=step_stalls(times, steps), histories=_histories(replay),
        replay=replay,
    )  # fmt: skip


def _ledger(replay: Replay) -> list[Any]:
    """Return what all commands cost, in the order of a ledger of all of them."""
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
    pieces, repeat = replay.short.slices, replay.repeat
    end, size, times = repeat.commands
    found = _moved_spans(replay, pieces[:end], 0)
    unit = _outer(replay, pieces[end - size : end])
    for copy in range(1, times + 1):
        _widen(found, _later_spans(replay, unit, copy, copy * repeat.steps.size))
    behind = [piece._replace(op=replay.behind(piece).op) for piece in pieces[end:]]
    _widen(found, _moved_spans(replay, behind, times))
    return [found.get(step, (0, 0)) for step in range(len(replay.program.steps))]


Moment = tuple[int, int]
"""A time, fs, and what is cut off of it."""


def _outer(replay: Replay, pieces: Sequence[Slice]) -> dict[int, tuple[Moment, Moment]]:
    """Step -> first start and last end of its commands."""
    found: dict[int, tuple[Moment, Moment]] = {}
    for piece in pieces:
        start = piece.start, replay.fraction(piece.command, 0)
        end = piece.end, replay.fraction(piece.command, 2)
        first, last = found.get(piece.op, (start, end))
        found[piece.op] = min(first, start), max(last, end)
    return found


def _later_spans(
    replay: Replay, found: Mapping[int, tuple[Moment, Moment]], times: int, steps: int = 0
) -> dict[int, tuple[int, int]]:
    later = replay.shift.later
    return {op + steps: (later(*start, times), later(*end, times)) for op, (start, end) in found.items()}


def _moved_spans(replay: Replay, pieces: Sequence[Slice], times: int) -> dict[int, tuple[int, int]]:
    return _later_spans(replay, _outer(replay, pieces), times)


def _widen(found: dict[int, tuple[int, int]], more: Mapping[int, tuple[int, int]]) -> None:
    for op, (start, end) in more.items():
        known = found.get(op, (start, end))
        found[op] = (min(known[0], start), max(known[1], end))


def _engine_times(replay: Replay, logs: Mapping[str, EngineLog]) -> dict[str, Times]:
    """Return how the engines spent their time in the whole run."""
    return {engine: summed(log, _entries(replay, log)) for engine, log in logs.items()}


def _entries(replay: Replay, log: EngineLog) -> Iterator[tuple[int, str, int]]:
    """Entries of the whole run by step: those of the unit once more for each copy."""
    commands, steps, unit = replay.short.program.commands, replay.repeat.steps, replay.unit
    for number, why, fs in log.entries:
        op = steps.long(commands[number].op)
        yield op, why, fs
        if number in unit:
            yield from ((op + copy * steps.size, why, fs) for copy in range(1, steps.times + 1))


def _histories(replay: Replay) -> Sequence[History]:
    """Return how all commands came to their ends, those of copies made when somebody asks."""
    span = replay.repeat.commands

    def behind(history: History) -> History:
        return history.moved(
            lambda n: span.long(n) if n >= span.end else n + span.times * span.size, replay.whole_fs
        )

    def later(history: History, copy: int) -> History:
        return history.moved(lambda n: n + copy * span.size, replay.shift.fs(copy))

    return Repeated(replay.short.histories, span, later, behind)


def whole_path(replay: Replay, path: Sequence[Segment]) -> Sequence[Segment] | None:
    """The critical path of the whole run, given that of the short one; None where it does not recur."""
    moments, span = _Moments(replay, path), replay.repeat.commands
    cut = path_period(replay, path, moments) if moments.known(path) else None
    if cut is None:
        return None

    def later(piece: Segment, copy: int) -> Segment:
        return moments.later(piece, copy)._replace(command=piece.command + copy * span.size)

    def behind(piece: Segment) -> Segment:
        number = piece.command
        number = span.long(number) if number >= span.end else number + span.size * span.times
        return moments.later(piece, span.times)._replace(command=number)

    return RepeatedPath(moments, path, Span(*cut, span.times), later, behind)


class RepeatedPath(Repeated[Segment]):
    """The critical path of a run that was replayed."""

    def __init__(
        self,
        moments: _Moments,
        path: Sequence[Segment],
        span: Span,
        later: Callable[[Segment, int], Segment],
        behind: Callable[[Segment], Segment],
    ) -> None:
        super().__init__(path, span, later, behind)
        self.unit = path[span.end - span.size : span.end]
        """Pieces of which all copies are."""
        self._moments = moments

    def took_fs(self, copies: Sequence[int]) -> Ints:
        """Return how long each piece of the unit takes in some copies, fs, [pieces, copies]."""
        return self._moments.took_fs(self.unit, copies)


class _Moments:
    """Pieces of the critical path later."""

    def __init__(self, replay: Replay, path: Sequence[Segment]) -> None:
        self._shift, fractions = replay.shift, replay.fractions
        self._known = None if fractions is None else fractions.moments([0, *(piece.end for piece in path)])

    def known(self, path: Sequence[Segment]) -> bool:
        """Return whether of all moments of a path it is known what is cut off."""
        return self._known is None or all(piece.end in self._known for piece in path)

    def later(self, piece: Segment, times: int) -> Segment:
        """Return the same piece, of the same command."""
        start, end = (
            self._shift.later(at, 0 if self._known is None else self._known[at], times) for at in piece[:2]
        )
        return piece._replace(start=start, end=end)

    def took_fs(self, pieces: Sequence[Segment], copies: Sequence[int]) -> Ints:
        """Return how long pieces take so many shifts later, fs, [pieces, copies]."""
        spans = np.array([piece[:2] for piece in pieces], np.int64)
        cut = np.zeros_like(spans)
        if self._known is not None:
            cut = np.array([[self._known[at] for at in span] for span in spans.tolist()], np.int64)
        moved = np.stack([self._shift.later(spans, cut, copy) for copy in copies], axis=1)
        took: Ints = moved[..., 1] - moved[..., 0]
        return took


def path_period(replay: Replay, path: Sequence[Segment], moments: _Moments) -> tuple[int, int] | None:
    """(end, pieces) of a part of the path whose end is that of what comes before it, a unit earlier; None for none."""
    span = replay.repeat.commands
    starts = [piece.start for piece in path]
    last = bisect_right(starts, max(replay.short.slices[number].end for number in replay.unit))
    earlier = [moments.later(piece, 1)._replace(command=piece.command + span.size) for piece in path[:last]]
    at = {(piece.end, piece.command): index for index, piece in enumerate(earlier)}
    for end in range(last, 0, -1):
        piece = path[end - 1]
        if piece.command not in replay.unit or (piece.end, piece.command) not in at:
            continue
        before = at[piece.end, piece.command] + 1
        size = end - before
        if size and before >= size and list(path[end - size : end]) == earlier[before - size : before]:
            return end, size
    return None
