"""When copies follow from what is simulated: units that do the same, that differ by a little, and that differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from accelsim.account.critical_path import by_step
from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.device import EngineLog
from accelsim.machine.accounting import step_spans
from accelsim.machine.check import engine_times_add_up, the_critical_path_covers_the_run
from accelsim.machine.replay import NEAR, replay_of, replayed
from accelsim.machine.run import Replay, Run
from accelsim.machine.simulate import simulate
from accelsim.program.commands import Wait
from accelsim.program.program import Program
from accelsim.program.repeated import Commands, Repeat
from accelsim.program.shortened import without_copies
from accelsim.spec.yaml.load import load_chip
from accelsim.time import Clock
from accelsim.workload.limits import limited
from accelsim.workload.sources.load import load_model
from tests.helpers.replays import assert_places_agree, assert_replay_is_right, both

SMALL = ["act_sram.capacity=16 KiB", "accumulators.capacity=1 KiB"]
CASES: dict[str, tuple[str, str, list[str]]] = {
    "whole femtoseconds": ("mlp?hidden=128,layers=24", "edu-mixed", SMALL),
    "parts of femtoseconds": ("mlp?hidden=128,layers=24", "edu-mixed", ["clock=933 MHz", "peak={}", *SMALL]),
    "links": ("bert?layers=14,hidden=128,heads=4,seq=8", "tpu-v1",
              ["peak={}", "unified_buffer.capacity=16 KiB", "accumulators.capacity=4 KiB"]),
    "kernels": ("gpt?layers=7,hidden=32,heads=4,seq=8", "h100-sxm", []),
    "no clock": ("mlp?hidden=64,layers=20", "haswell-e5-2699v3", []),
}  # fmt: skip
"""Networks of alike blocks that are cheap to simulate as a whole: model, chip, fields of it."""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.gate  # other tests of copies take so long that few of their cases run in the core
def test_small_networks_are_replayed(case: str) -> None:
    run, whole = both(*CASES[case])
    assert run.replay is not None and run.replay.equal and run.replay.commands > 20
    assert_replay_is_right(run, whole)
    assert_places_agree(run)
    assert simulate(run.program) == run


@cache
def _short(case: str) -> tuple[Program, Repeat, Run]:
    """A program that repeats itself, and its run without copies."""
    model, chip, sets = CASES[case]
    with limited(ignore_capacity=True):
        program = compile(load_model(model), load_chip(chip, sets), Options(values="off"))
    assert program.repeat is not None
    return program, program.repeat, simulate(without_copies(program))


def _equal(case: str, change: Callable[[Run, Repeat, int], None]) -> bool:
    """Whether units are equal in a run that was changed. ``change`` is told when the last unit begins."""
    program, repeat, short = _short(case)
    commands = [replace(command) for command in short.program.commands]
    run = replace(
        short, slices=list(short.slices), histories=list(short.histories),
        program=replace(short.program, commands=commands),
    )  # fmt: skip
    change(run, repeat, min(piece.start for piece in short.slices[repeat.commands.unit.start :]))
    found = replay_of(program, run)
    return found is not None and found.equal


def _moved(run: Run, number: int, **moments: int) -> None:
    """Add so many femtoseconds to times of a command."""
    piece = run.slices[number]
    later = {name: getattr(piece, name) + fs for name, fs in moments.items()}
    run.slices[number] = piece._replace(**later)  # type: ignore[index]


def _slower(run: Run, repeat: Repeat, share: float) -> Run:
    """The run in which the last unit takes a share longer, and all behind it comes later."""
    end, size, _ = repeat.commands
    first = min(piece.start for piece in run.slices[end - size : end])
    more = int((max(piece.end for piece in run.slices[end - size : end]) - first) * share)

    def later(at: int) -> int:
        return at + int((at - first) * share)

    slices = [
        piece if piece.command < end - size
        else piece._replace(start=later(piece.start), data=later(piece.data), end=later(piece.end)) if piece.command < end
        else piece._replace(start=piece.start + more, data=piece.data + more, end=piece.end + more)
        for piece in run.slices
    ]  # fmt: skip
    return replace(run, slices=slices, time_fs=run.time_fs + more)


@pytest.mark.parametrize(("share", "copied"), [(0.0001, True), (0.0004, True), (0.01, False), (0.3, False)])
@pytest.mark.parametrize("case", ["whole femtoseconds", "links", "no clock"])
def test_copies_of_units_that_differ_a_little_take_their_mean(case: str, share: float, copied: bool) -> None:
    program, repeat, short = _short(case)
    plain, found = replay_of(program, short), replay_of(program, _slower(short, repeat, share))
    assert plain is not None and plain.equal and (found is not None) == copied
    if found is not None:
        assert not found.equal and 0 < found.shift - plain.shift <= NEAR * plain.shift
        assert found.text.endswith("the mean of two blocks that differ by less than 0.1%")


def test_all_of_a_run_fits_into_its_time_where_units_differ() -> None:
    """Engine times, and a path that is stretched to the time of the copies."""
    program, _, short = _short("no clock")
    whole = simulate(program)
    assert whole.replay is not None
    replay = Replay(program, short, whole.replay.shift * 9995 / 10000, equal=False)
    run = replayed(replay, defaultdict(EngineLog, {e.engine: _log(short, e.engine) for e in short.engines}))
    for law in (engine_times_add_up, the_critical_path_covers_the_run):
        assert list(law(run)) == []
    assert sum(sum(times.values()) for times in by_step(run).values()) == run.time_fs < whole.time_fs
    assert all(entry.idle == 0 for entry in run.engines if entry.engine == "host")


def _log(run: Run, engine: str) -> EngineLog:
    log, pieces = EngineLog(), [piece for piece in run.slices if piece.engine == engine]
    for piece in sorted(pieces, key=lambda piece: piece.start):
        log.add(piece.command, (piece.start, piece.start, piece.start, piece.end), "")
    return log


MOMENTS = ("start", "data", "end")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("case", ["whole femtoseconds", "no clock"])
def test_units_that_differ_by_a_femtosecond_are_not_equal(case: str, place: str, moment: str) -> None:
    """Neither the unit written last nor the one before it may."""
    span = _short(case)[1].commands
    number = {"first": span.end - span.size, "middle": span.end - span.size // 2, "last": span.end - 1}[place]
    assert _equal(case, lambda run, *_: None)
    assert not _equal(case, lambda run, *_: _moved(run, number, **{moment: 1}))
    assert not _equal(case, lambda run, *_: _moved(run, number - span.size, **{moment: 1}))


def test_units_that_came_about_otherwise_are_not_equal() -> None:
    case = "whole femtoseconds"
    _, repeat, _ = _short(case)

    def otherwise(number: int) -> Callable[..., None]:
        def change(run: Run, *_: Any) -> None:
            (before, event, _), *others = run.histories[number]
            run.histories[number] = type(run.histories[number])((before, event, "other"), *others)  # type: ignore[index]

        return change

    for number in (repeat.commands.unit.start, repeat.commands.unit[-1]):
        assert not _equal(case, otherwise(number))
    assert _equal(case, otherwise(0))  # of an older unit nothing is copied


@pytest.mark.parametrize(("beyond", "recurs"), [(0, True), (1, False)])
def test_nothing_older_is_at_work_when_a_unit_begins(beyond: int, recurs: bool) -> None:
    """What comes before the two last units is done, the unit before the last when the first copy begins."""

    def older(run: Run, repeat: Repeat, begin_fs: int) -> None:
        run.slices[0] = run.slices[0]._replace(end=begin_fs + beyond)  # type: ignore[index]

    def behind(run: Run, repeat: Repeat, begin_fs: int) -> None:
        first = repeat.commands.end
        shift = run.slices[first - 1].end - run.slices[first - 1 - repeat.commands.size].end
        for number in range(first, len(run.slices)):
            at = run.slices[number]
            run.slices[number] = at._replace(start=max(at.start, begin_fs + shift))  # type: ignore[index]
        run.slices[first] = run.slices[first]._replace(start=begin_fs + shift - beyond)  # type: ignore[index]

    for change in (older, behind):
        assert _equal("whole femtoseconds", change) == recurs


@pytest.mark.parametrize(("beyond", "recurs"), [(0, True), (1, False)])
@pytest.mark.parametrize("inside", [True, False])
def test_what_is_older_decides_about_nothing(inside: bool, beyond: int, recurs: bool) -> None:
    """It was there when the command before began that it could have held up. To what comes behind the copies the unit
    before the last is older, too."""

    def change(run: Run, repeat: Repeat, begin_fs: int) -> None:
        commands, (end, size, _) = run.program.commands, repeat.commands
        numbers = range(end - size, end) if inside else range(end, len(commands))
        number = next(each for each in numbers[1:] if _before(commands, each) in numbers)
        before, last = _before(commands, number), end - size - 1
        older = range(last - size, last - size + 1) if inside else range(last, last + size + 1, size)
        shift_fs = run.slices[last + 1].start - run.slices[last + 1 - size].start
        if not inside:
            run.slices[before] = run.slices[before]._replace(start=begin_fs + shift_fs)  # type: ignore[index]
        commands[number].waits += (Wait(older[0], "done", "full"),)
        delay_fs = Clock(run.chip.clock).at(run.chip.token_delay)
        for copy, each in enumerate(older):
            end_fs = run.slices[before].start - delay_fs + beyond + copy * shift_fs
            run.slices[each] = run.slices[each]._replace(end=end_fs)  # type: ignore[index]

    assert _equal("whole femtoseconds", change) == recurs


def test_spans_of_steps_are_those_of_their_commands() -> None:
    """Also where what comes behind the copies is late, and its first command belongs to the last step of these."""
    program, repeat, short = _short("no clock")
    replay, end = replay_of(program, short), repeat.commands.end
    assert replay is not None and isinstance(program.commands, Commands)
    first, *others = program.commands.behind
    behind = [replace(first, op=first.op - 1), *others]
    late = [
        piece._replace(start=piece.start + 10**9, data=piece.data + 10**9, end=piece.end + 10**9)
        for piece in short.slices[end:]
    ]
    long = replace(program, commands=Commands(program.commands.before, behind, repeat))
    run = replayed(
        replace(replay, program=long, short=replace(short, slices=[*short.slices[:end], *late])), defaultdict(EngineLog)
    )
    assert run.step_spans == step_spans(run.slices, len(program.steps))


def _before(commands: Sequence[Any], number: int) -> int:
    """The command before one on its engine; -1 for none."""
    engine = commands[number].engine
    return next((each for each in range(number - 1, -1, -1) if commands[each].engine == engine), -1)
