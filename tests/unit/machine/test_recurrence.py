"""What must hold for copies to be replayed: a femtosecond, a record or a link that differs, and none are."""

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
from accelsim.machine.recurrence import recurrence
from accelsim.machine.replay import Replay, replayed
from accelsim.machine.run import Run
from accelsim.machine.simulate import simulate
from accelsim.program.commands import Program, Wait
from accelsim.program.repeated import Commands, Repeat
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
    return program, program.repeat, simulate(written)


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
