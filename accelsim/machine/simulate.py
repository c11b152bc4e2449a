"""Run a program on the chip that it was compiled for: a system of one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from accelsim.engines.device import EngineLog
from accelsim.machine.check import LAWS_OF_A_REPLAY, check
from accelsim.machine.memory_models import DEFAULT, MODELS, check_model
from accelsim.machine.recurrence import cycle_of, recurrence
from accelsim.machine.replay import replayed
from accelsim.machine.run import Run
from accelsim.machine.simulation import How, Simulation
from accelsim.pause import no_collection
from accelsim.program.commands import Program
from accelsim.program.repeated import Repeat
from accelsim.types import Array
from accelsim.workload.limits import check_commands

Progress = Callable[[float], None] | None


def simulate(
    program: Program, feeds: Mapping[str, Array] | None = None, values: str = "off", keep: bool = False,
    progress: Progress = None, memory_model: str = DEFAULT, record: bool = False,
) -> Run:  # fmt: skip
    """Run ``program`` on the chip that it was compiled for.

    ``feeds``: graph inputs by name (needed unless ``values`` is 'off'). ``values``: 'exact', 'fast' or 'off'.
    ``keep``: return every tensor that existed in a memory, not only the outputs. ``progress`` is told the share of the
    commands that have completed, now and then. ``memory_model``: how off-chip memories are followed, a key of
    ``memory_models.MODELS``; ``record``: keep every burst of those that are followed one by one.
    Raises HazardError when the program reads what is not there, UsageError for wrong feeds, a memory model that does
    not fit or a run longer than ``clock.NEVER``, LawError when the run contradicts itself.
    """
    check_model(memory_model, program.chip)
    how = How(values, keep, memory_model, record)
    if program.repeat is not None:
        if (found := _replayed(program, program.repeat, how, progress)) is not None:
            return found
        check_commands(program.graph.name, len(program.commands))
        program = replace(program, commands=list(program.commands), repeat=None)
    return _simulate(program, feeds, how, progress)[0]


def _replayed(program: Program, repeat: Repeat, how: How, progress: Progress) -> Run | None:
    """The run of a program that repeats itself, simulated without its copies; None where it cannot be."""
    if how.values != "off" or MODELS[how.memory_model].dram is not None:
        return None
    short, logs = _simulate(repeat.short(program), None, how, progress)
    replay = recurrence(program, short)
    if replay is None and (more := _units(repeat, cycle := cycle_of(program, short))):
        program = repeat.with_more(program, more)
        assert program.repeat is not None
        short, logs = _simulate(program.repeat.short(program), None, how, progress)
        replay = recurrence(program, short, cycle)
    if replay is None:
        return None
    with no_collection():
        run = replayed(replay, logs)
        check(run, laws=LAWS_OF_A_REPLAY)
    return run


def _units(repeat: Repeat, cycle: int) -> int:
    """How many units more it takes to see a cycle recur, so that whole cycles are left; 0 where it does not pay."""
    if cycle < 2:
        return 0
    more = max(0, cycle + 1 - repeat.units)
    more += (repeat.times - more) % cycle
    return more if more < repeat.times // 2 else 0


def _simulate(
    program: Program, feeds: Mapping[str, Array] | None, how: How, progress: Progress
) -> tuple[Run, Mapping[str, EngineLog]]:
    simulation = Simulation()
    simulation.add("", program, feeds, how, progress)
    return simulation.run()[""], simulation.logs("")
