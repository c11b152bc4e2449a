"""What must hold for copies and laps to be replayed: a femtosecond, a record or a link that differs, and none are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from accelsim.compiler.passes import compile
from accelsim.compiler.state import Options
from accelsim.engines.device import EngineLog
from accelsim.engines.registry import ENGINES
from accelsim.machine.accounting import step_spans
from accelsim.machine.paced import timed
from accelsim.machine.recurrence import recurrence
from accelsim.machine.replay import Replay, replayed
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.machine.turning import Turn, Turning
from accelsim.machine.unrolling import Unrolling
from accelsim.program.commands import Program, Wait
from accelsim.program.repeated import Commands, Repeat
from accelsim.program.rolled import Loop
from accelsim.spec.yaml.load import load_chip
from accelsim.time import Clock
from accelsim.workload.limits import limited
from accelsim.workload.sources.load import load_model
from tests.helpers.replays import assert_equal, assert_places_agree, both

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
    assert isinstance(run.replay, Replay) and run.replay.commands > 20
    assert_equal(run, whole)
    assert_places_agree(run)
    assert simulate(run.program) == run


@cache
def _short(case: str) -> tuple[Program, Repeat, Run]:
    """A program that repeats itself, and its run without copies."""
    model, chip, sets = CASES[case]
    with limited(ignore_capacity=True):
        program = compile(load_model(model), load_chip(chip, sets), Options(values="off"))
    assert program.repeat is not None
    written = program.repeat.short(program)
    return program, program.repeat, timed(written, "bandwidth") or simulate(written)


def _changed(case: str, change: Callable[[Run, Repeat, int], None]) -> Replay | None:
    """Derive how the whole run follows from one that was changed. ``change`` is told when the last unit begins."""
    program, repeat, short = _short(case)
    commands = [replace(command) for command in short.program.commands]
    run = replace(
        short, slices=list(short.slices), folds=list(short.folds), by_link=set(short.by_link),
        program=replace(short.program, commands=commands),
    )  # fmt: skip
    change(run, repeat, min(piece.start for piece in short.slices[repeat.commands.unit.start :]))
    return recurrence(program, run)


def _moved(run: Run, number: int, **moments: int) -> None:
    """Add so many femtoseconds to times of a command."""
    piece = run.slices[number]
    later = {name: getattr(piece, name) + fs for name, fs in moments.items()}
    run.slices[number] = piece._replace(**later)  # type: ignore[index]


MOMENTS = ("start", "data", "end")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("case", ["whole femtoseconds", "kernels"])
def test_units_that_differ_by_a_femtosecond_are_not_copied(case: str, place: str, moment: str) -> None:
    """Neither the unit written last nor the one before it may."""
    span = _short(case)[1].commands
    number = {"first": span.end - span.size, "middle": span.end - span.size // 2, "last": span.end - 1}[place]
    assert _changed(case, lambda run, *_: None) is not None
    assert _changed(case, lambda run, *_: _moved(run, number, **{moment: 1})) is None
    assert _changed(case, lambda run, *_: _moved(run, number - span.size, **{moment: 1})) is None


def test_units_of_which_engines_note_something_else_are_not_copied() -> None:
    case = "whole femtoseconds"
    _, repeat, short = _short(case)
    inside = [at for at, record in enumerate(short.folds) if record.command in repeat.commands.unit]

    def later(at: int) -> Callable[..., None]:
        def change(run: Run, *_: Any) -> None:
            record = run.folds[at]
            engine = run.slices[record.command].engine
            kind = ENGINES[run.program.engines[engine]]
            run.folds[at] = kind.later(run.chip, engine, record, 0, 10**9)  # type: ignore[index]

        return change

    for at in (inside[0], inside[-1]):
        assert _changed(case, later(at)) is None
    assert _changed(case, later(0)) is not None  # of an older unit nothing is copied


def test_units_of_which_a_link_held_up_others_are_not_copied() -> None:
    case = "links"
    _, repeat, short = _short(case)
    unit, size = repeat.commands.unit, repeat.commands.size
    assert any(number in short.by_link for number in unit) and _changed(case, lambda *_: None) is not None
    for number in (unit.start, unit[-1]):
        assert _changed(case, lambda run, *_, number=number: run.by_link.__ixor__({number})) is None
        assert _changed(case, lambda run, *_, number=number: run.by_link.__ixor__({number - size})) is None


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
        assert (_changed("whole femtoseconds", change) is not None) == recurs


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

    found = _changed("whole femtoseconds", change)
    assert (found is not None) == recurs


@cache
def _of_laps() -> Run:
    """The run of a product whose laps were rolled up, without those that were left out."""
    chip = load_chip("edu-tensor-core", ["act_sram.capacity=64 KiB", "accumulators.capacity=1 KiB"])
    run = simulate(compile(load_model("gemm?M=256,N=64,K=256"), chip, Options(values="off")))
    assert isinstance(run.replay, Unrolling)
    return run.replay.short


def _noted_later(run: Run, number: int) -> None:
    """Move what the array noted of the command at or after ``number`` by a millisecond."""
    at, record = next((at, each) for at, each in enumerate(run.folds) if each.command >= number)
    engine = run.slices[record.command].engine
    kind = ENGINES[run.program.engines[engine]]
    run.folds[at] = kind.later(run.chip, engine, record, 0, 10**12)  # type: ignore[index]


LAPS: dict[str, Callable[[Run, int], Any]] = {
    "a femtosecond": lambda run, number: _moved(run, number, end=1),
    "a record": _noted_later,
    "a link": lambda run, number: run.by_link.__ixor__({number}),
}


@pytest.mark.parametrize("what", LAPS)
@pytest.mark.parametrize(("behind", "recurs"), [(-9, True), (-1, False), (0, False)])
def test_laps_that_differ_at_the_cut_are_not_replayed(what: str, behind: int, recurs: bool) -> None:
    """The last lap before those that were left out, or the first behind them; of others nothing is copied."""
    short = _of_laps()
    (loop,) = short.program.loops
    run = replace(short, slices=list(short.slices), folds=list(short.folds), by_link=set(short.by_link))
    LAPS[what](run, loop.span.end + behind * loop.span.size)
    assert [turn is not None for turn in Turning(run).turns()] == [recurs]


def _fresh_laps() -> tuple[Run, Loop, Turn]:
    """That run to be changed, its only loop, and when the machine is in the same state."""
    short = _of_laps()
    (loop,), (turn,) = short.program.loops, Turning(short).turns()
    assert turn is not None
    program = replace(
        short.program, commands=list(short.program.commands), engines=dict(short.program.engines)
    )
    return replace(short, program=program, slices=list(short.slices)), loop, turn


@pytest.mark.parametrize(("beyond", "recurs"), [(0, True), (1, False)])
@pytest.mark.parametrize("lap", [0, 1, 3])
def test_laps_that_are_not_alike_are_done_before_the_moment_that_recurs(
    lap: int, beyond: int, recurs: bool
) -> None:
    """A token before, so that nothing waits for them behind it."""
    run, loop, turn = _fresh_laps()
    delay_fs = Clock(run.chip.clock).at(run.chip.token_delay)
    late = loop.first + (lap + 1) * loop.span.size - 1
    end_fs = turn.at_fs - turn.shift_fs - delay_fs + beyond
    assert run.slices[late].end < end_fs
    run.slices[late] = run.slices[late]._replace(end=end_fs)  # type: ignore[index]
    assert Turning(run).turns() == [turn if recurs else None]


@pytest.mark.parametrize(("before", "recurs"), [(0, True), (1, False)])
def test_engines_beside_the_laps_go_on_no_earlier_than_the_moment_that_recurs(
    before: int, recurs: bool
) -> None:
    """A command behind the laps, on an engine that they do not use, waits for one whose token is there just then."""
    run, _, turn = _fresh_laps()
    delay_fs = Clock(run.chip.clock).at(run.chip.token_delay)
    *_, first, last = commands = run.program.commands
    commands[first.id] = replace(first, engine="host", waits=(Wait(last.id, "done", "full"),))  # type: ignore[index]
    run.slices[last.id] = run.slices[last.id]._replace(end=turn.at_fs - delay_fs - before)  # type: ignore[index]
    assert Turning(run).turns() == [turn if recurs else None]


def test_laps_follow_each_other_as_they_do_at_the_cut() -> None:
    """Where all from the last lap before the cut on come a millisecond later, the pace before it is no matter."""
    run, loop, turn = _fresh_laps()
    later_fs = 10**12
    for number in range(loop.span.end - loop.span.size, len(run.slices)):
        _moved(run, number, start=later_fs, data=later_fs, end=later_fs)
    (found,) = Turning(run).turns()
    assert found == turn._replace(at_fs=turn.at_fs + later_fs)


def test_spans_of_steps_are_those_of_their_commands() -> None:
    """Also where what comes behind the copies is late, and its first command belongs to the last step of these."""
    program, repeat, short = _short("no clock")
    replay, end = recurrence(program, short), repeat.commands.end
    assert replay is not None and isinstance(program.commands, Commands)
    first, *others = program.commands.behind
    behind = [replace(first, op=first.op - 1), *others]
    late = [
        piece._replace(start=piece.start + 10**9, data=piece.data + 10**9, end=piece.end + 10**9)
        for piece in short.slices[end:]
    ]
    long = replace(program, commands=Commands(program.commands.before, behind, repeat))
    run = replayed(
        replace(replay, program=long, short=replace(short, slices=[*short.slices[:end], *late])),
        defaultdict(EngineLog),
    )
    assert run.step_spans == step_spans(run.slices, len(program.steps))


def _before(commands: Sequence[Any], number: int) -> int:
    """The command before one on its engine; -1 for none."""
    engine = commands[number].engine
    return next((each for each in range(number - 1, -1, -1) if commands[each].engine == engine), -1)
