"""The run of a whole program from that of its rolled form: the laps that were left out are replayed.

Each of them is the lap before it, as much later; what lies behind a loop moves with it. So slices, records and the
critical path are made when somebody asks for one, and sums follow by multiplication.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple, TypeVar

from accelsim.engines.device import EngineLog, Times
from accelsim.engines.registry import ENGINES
from accelsim.errors import count_of
from accelsim.machine.accounting import Clips, costs, engine_times, ledger_rows
from accelsim.machine.replay import Replay
from accelsim.machine.run import Busy, Row, Run, Segment, Slice
from accelsim.machine.turning import Turn, latest_tokens
from accelsim.program.commands import Command, Program
from accelsim.program.repeated import Span
from accelsim.program.rolled import Cuts, Loop, Unrolled, Unroller, loop_unit
from accelsim.time import FS

Key = TypeVar("Key", bound=tuple[Any, ...])


class _Lap(NamedTuple):
    """A loop of the rolled program as its copies, if any, have it: so many steps further on."""

    loop: Loop
    turn: Turn
    steps: list[int]


@dataclass
class Unrolling:
    """How ``rolled``, the run of the rolled form of ``program``, becomes that of the whole. ``short``: what was
    simulated, without copies of blocks either, with the ``turns`` of its loops."""

    program: Program
    rolled: Run
    short: Run
    turns: Sequence[Turn]
    pace: ClassVar[str] = "that do what the one before did"
    """What the laps are that were left out, in words."""

    @cached_property
    def unroller(self) -> Unroller:
        """Numbers of the whole program."""
        return Unroller(self.rolled.program)

    @property
    def base(self) -> Replay | None:
        """Return how the rolled run came from the short one, where blocks were replayed."""
        found = self.rolled.replay
        assert not isinstance(found, Unrolling)
        return found

    @cached_property
    def all_turns(self) -> list[Turn]:
        """The turns of all loops of the rolled run, in order."""
        by_end = {turn.loop.span.end: turn for turn in self.turns}
        found = []
        for loop in self.unroller.loops:
            end, times = self._short(loop.span.end)
            turn, later_fs = by_end[end], self.base.shift.fs(times) if self.base is not None else 0
            found.append(Turn(loop, turn.shift_fs, turn.at_fs + later_fs))
        return found

    def _short(self, end: int) -> tuple[int, int]:
        """Where a cut of the rolled program is in the short one, and how many shifts earlier."""
        if self.base is None:
            return end, 0
        span = self.base.repeat.commands
        template, copy = span.copy_of(end - 1)
        if copy:
            return template + 1, copy
        return span.short(end - 1) + 1, self.base.repeat.times if end > span.behind else 0

    def simulated(self, loop: Loop) -> int:
        """Return where the cut of a loop of the rolled program, or of the one that it is a copy of, is in the short
        one."""
        return self._short(loop.span.end)[0]

    @cached_property
    def later_fs(self) -> list[int]:
        """Return by number of cuts before: how much later it comes than in the rolled run."""
        return list(accumulate((turn.loop.span.times * turn.shift_fs for turn in self.all_turns), initial=0))

    @property
    def commands(self) -> int:
        """Return how many commands were replayed, not simulated."""
        return len(self.program.commands) - len(self.short.program.commands)

    @property
    def text(self) -> str:
        """Return how much was replayed, in words."""
        whole, laps = len(self.program.commands), sum(loop.span.times for loop in self.unroller.loops)
        blocks = ""
        if (base := self.base) is not None:
            inside = [turn for turn in self.turns if turn.loop.span.end - 1 in base.repeat.commands.unit]
            shift_fs = base.shift_fs + sum(turn.loop.span.times * turn.shift_fs for turn in inside)
            blocks = (
                f", and {count_of(base.repeat.times, 'repetition')} of the same blocks, each {shift_fs * FS:.4g} s "
                "later"
            )
        return (
            f"replay: {self.commands:,} of {whole:,} commands ({100 * self.commands / whole:.0f}%) were not simulated: "
            f"{count_of(laps, 'iteration')} of {count_of(len(self.unroller.loops), 'tile loop')} {self.pace}{blocks}"
        )

    def summed(self, of: Callable[[Sequence[Slice]], Mapping[Key, int]], engine: str = "") -> dict[Key, int]:
        """See ``Replay.summed``: laps that were left out count as often as there are."""

        def weighed(pieces: Sequence[Slice]) -> dict[Key, int]:
            found = dict(of(pieces))
            for turn in self.turns:
                end, size, times = turn.loop.span
                first, last = (
                    bisect_left(pieces, at, key=lambda piece: piece.command) for at in (end - size, end)
                )
                for key, count in of(pieces[first:last]).items() if last > first else ():
                    found[key] = found.get(key, 0) + times * count
            return found

        return weighed(self.rolled.slices) if self.base is None else self.base.summed(weighed, engine)

    def times(self, piece: Slice, cut: int, copy: int) -> tuple[int, int, int]:
        """Start, data and end of a command behind so many cuts, in so many-th copy of its unit, fs."""
        fs = self.later_fs[cut] + (copy * self.all_turns[cut].shift_fs if copy else 0)
        return piece.start + fs, piece.data + fs, piece.end + fs

    def record(self, item: Any, cut: int, copy: int) -> Any:
        """Return what the engine noted of such a command."""
        run, number, unroller = self.rolled, item.command, self.unroller
        command, fs, size = run.program.commands[number], self.later_fs[cut], 0
        if copy:
            fs += copy * self.all_turns[cut].shift_fs
            size = copy * unroller.loops[cut].span.size
        if not fs:
            return item
        tokens = moved_tokens(self, self._found, command, cut, copy)
        kind = ENGINES[run.program.engines[command.engine]]
        later = unroller.cuts.long(number) - number + size
        return kind.later(run.chip, command.engine, item, later, fs, tokens)

    @cached_property
    def _found(self) -> Mapping[int, Any]:
        return Found(self.rolled)

    def in_laps(
        self, logs: Mapping[str, EngineLog]
    ) -> Iterator[tuple[int, Sequence[int], Mapping[str, Times], int]]:
        """Yield how the engines spent the time of the laps that were left out: (step of a loop, by how many steps later
        those are of which all this holds, times, how often)."""
        clips = {engine: Clips(log) for engine, log in logs.items()}
        for loop, turn, steps in self.laps():
            op = self.rolled.program.commands[loop.span.end - 1].op
            yield op, steps, _of_a_lap(self.short, turn, clips), loop.span.times

    def holds(self) -> bool:
        """Return whether in the whole run the tokens that each command waits for last are those of the rolled run."""
        records, run = self._found, self.rolled
        first = [turn.loop.span.end for turn in self.turns[:1]]
        return all(
            moved_tokens(self, records, run.program.commands[number], self.unroller.cuts.before(number), 0)
            is not None
            for number in map(self._long, map(_command, self.short.folds))
            if number >= first[0]
        )

    def _long(self, short: int) -> int:
        """A number of the short program in the rolled one."""
        return short if self.base is None else self.base.repeat.commands.long(short)

    def laps(self) -> Iterator[_Lap]:
        """Loops that are no copies, each with its turn and by how many steps later those like it are."""
        program, repeat = self.rolled.program, self.rolled.program.repeat
        by_end = {turn.loop.span.end: turn for turn in self.turns}
        for loop in program.loops:
            inside = repeat is not None and loop.span.end - 1 in repeat.commands.unit
            copies, size = (repeat.times, repeat.steps.size) if repeat is not None and inside else (0, 0)
            turn = by_end[self.simulated(loop)]
            yield _Lap(loop, turn, [copy * size for copy in range(copies + 1)])


def unrolled(unrolling: Unrolling, logs: Mapping[str, EngineLog]) -> Run:
    """The run of the whole program; ``logs``: how the engines of the short one spent their time."""
    run = shown(unrolling)
    time_fs = run.time_fs + unrolling.later_fs[-1]
    busy, stalls = _engine_times(unrolling, logs, time_fs)
    return replace(
        run, time_fs=time_fs, ledger=_ledger(unrolling), engines=busy, step_stalls=stalls,
        step_spans=_step_spans(unrolling), replay=unrolling,
    )  # fmt: skip


def shown(unrolling: Unrolling) -> Run:
    """The rolled run with the commands, slices and records of the whole one."""
    run, cuts = unrolling.rolled, unrolling.unroller.cuts

    def piece(item: Slice, cut: int, copy: int) -> Slice:
        number = cuts.long(item.command) + (copy * cuts.spans[cut].size if copy else 0)
        start, data, end = unrolling.times(item, cut, copy)
        return item._replace(command=number, start=start, data=data, end=end)

    return replace(
        run, program=unrolling.program, slices=Unrolled(run.slices, cuts, piece), folds=_records(unrolling),
        by_link=Linked(run.by_link, cuts) if run.by_link else set(), table=None,
    )  # fmt: skip


def _ledger(unrolling: Unrolling) -> list[Row]:
    """Counts of the rolled run and, once more for each lap, those of its commands."""
    run, repeat = unrolling.rolled, unrolling.rolled.program.repeat
    totals = {tuple(row[:4]): row.count for row in run.ledger}
    for loop, _, steps in unrolling.laps():
        unit = costs(loop_unit(run.program, loop))
        for copy, moved in enumerate(steps):
            for (component, action, op, tensor), count in unit.items():
                name = repeat.text(tensor, copy) if repeat is not None and copy else tensor
                totals[component, action, op + moved, name] += loop.span.times * count
    return ledger_rows(totals)  # type: ignore[arg-type]


def _engine_times(
    unrolling: Unrolling, logs: Mapping[str, EngineLog], time_fs: int
) -> tuple[list[Busy], list[dict[str, int]]]:
    """Busy, stalled and idle times, and stalls of steps: those of the rolled run and, for each lap, what happened in
    the time that one takes."""
    run = unrolling.rolled
    worked = {entry.engine: entry.busy for entry in run.engines}
    stalled = {entry.engine: dict(entry.stalled) for entry in run.engines}
    by_step = [dict(reasons) for reasons in run.step_stalls]
    for op, steps, times, often in unrolling.in_laps(logs):
        for engine, spent in times.items():
            worked[engine] += len(steps) * often * spent.busy
            _add(stalled[engine], spent.stalled, len(steps) * often)
            for reasons in spent.by_step.values():
                for moved in steps:
                    _add(by_step[op + moved], reasons, often)
    busy = [
        Busy(engine, fs, stalled[engine], time_fs - fs - sum(stalled[engine].values()))
        for engine, fs in worked.items()
    ]
    return busy, by_step


def _of_a_lap(short: Run, turn: Turn, clips: Mapping[str, Clips]) -> dict[str, Times]:
    """Return how the engines spent the time that a unit of laps takes."""
    window = {engine: clip.part(turn.at_fs - turn.shift_fs, turn.at_fs) for engine, clip in clips.items()}
    span = turn.loop.span
    first, last = (bisect_left(short.folds, at, key=_command) for at in (span.end - span.size, span.end))
    return engine_times(short.program, window, short.folds[first:last])


def _command(record: Any) -> int:
    number: int = record.command
    return number


def _add(totals: dict[str, int], more: Mapping[str, int], times: int) -> None:
    for why, fs in more.items():
        totals[why] = totals.get(why, 0) + times * fs


def _step_spans(unrolling: Unrolling) -> list[tuple[int, int]]:
    """First start and last end of the commands of each step: a step ends behind its own loops."""
    steps = sorted(
        unrolling.rolled.program.commands[loop.span.end - 1].op + moved
        for loop, _, moves in unrolling.laps() for moved in moves
    )  # fmt: skip
    later_fs = unrolling.later_fs
    return [
        (start + later_fs[bisect_left(steps, op)], end + later_fs[bisect_left(steps, op + 1)])
        if end else (start, end)
        for op, (start, end) in enumerate(unrolling.rolled.step_spans)
    ]  # fmt: skip


def _records(unrolling: Unrolling) -> Sequence[Any]:
    """Return what the engines noted of their commands, made when somebody asks."""
    run, unroller = unrolling.rolled, unrolling.unroller
    spans = list[Span]()
    for loop in unroller.loops:
        end, size, times = loop.span
        first, last = (bisect_left(run.folds, at, key=_command) for at in (end - size, end))
        spans.append(Span(last, last - first, times))

    return Unrolled(run.folds, Cuts(spans), unrolling.record)


class Found(Mapping[int, Any]):
    """The records of a run by command."""

    def __init__(self, run: Run) -> None:
        self._records = run.folds

    def __getitem__(self, number: int) -> Any:
        return self._records[bisect_left(self._records, number, key=_command)]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[int]:
        return map(_command, self._records)


def moved_tokens(
    unrolling: Unrolling, records: Mapping[int, Any], command: Command, cut: int, copy: int
) -> dict[str, int] | None:
    """Return by how much later the tokens of a command come, where they do not all come as much later as the command;
    None where another one than in the rolled run would come last."""
    unroller, turns = unrolling.unroller, unrolling.all_turns
    later = {wait: unrolling.later_fs[unroller.cuts_of(wait.command, command.id)] for wait in command.waits}
    if copy:
        for wait in command.waits:
            later[wait] += copy * turns[cut].shift_fs if wait.command >= turns[cut].loop.first else 0
    elif all(fs == unrolling.later_fs[cut] for fs in later.values()):
        return {}
    return latest_tokens(unrolling.rolled, records, command, later)


class Linked(Set[int]):
    """Numbers of commands: those of a rolled run in the whole one."""

    def __init__(self, rolled: Set[int], cuts: Cuts) -> None:
        self._rolled, self._cuts = rolled, cuts

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self._cuts.find(number)[0] in self._rolled

    def __iter__(self) -> Iterator[int]:
        for number in self._rolled:
            whole, cut = self._cuts.long(number), self._cuts.before(number)
            yield whole
            if cut < len(self._cuts.spans) and number >= (span := self._cuts.spans[cut]).end - span.size:
                yield from (whole + copy * span.size for copy in range(1, span.times + 1))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def unrolled_path(unrolling: Unrolling, path: Sequence[Segment]) -> Unrolled[Segment] | None:
    """The critical path of the whole run, given that of the rolled one; None where it does not follow the laps."""
    spans = [_path_span(path, turn) for turn in unrolling.all_turns]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        return None
    numbers = list(
        accumulate((turn.loop.span.size * turn.loop.span.times for turn in unrolling.all_turns), initial=0)
    )

    def piece(item: Segment, cut: int, copy: int) -> Segment:
        number, fs = numbers[cut], unrolling.later_fs[cut]
        if copy:
            turn = unrolling.all_turns[cut]
            number, fs = number + copy * turn.loop.span.size, fs + copy * turn.shift_fs
        return item._replace(start=item.start + fs, end=item.end + fs, command=item.command + number)

    return Unrolled(path, Cuts(known), piece)


def _path_span(path: Sequence[Segment], turn: Turn) -> Span | None:
    """Pieces between the two moments at which the machine was in the same state, as often as that comes again."""
    moments = (turn.at_fs - turn.shift_fs, turn.at_fs)
    first, last = (bisect_left(path, at, key=lambda piece: piece.end) for at in moments)
    if last >= len(path):
        return None
    before, behind, fs = path[first], path[last], turn.shift_fs
    alike = before._replace(
        start=before.start + fs, end=before.end + fs, command=before.command + turn.loop.span.size
    )
    return Span(last + 1, last - first, turn.loop.span.times) if alike == behind else None
