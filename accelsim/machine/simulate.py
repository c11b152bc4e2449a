"""Run a program on the chip that it was compiled for: a system of one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from accelsim.engines.device import EngineLog
from accelsim.machine.check import LAWS_OF_A_REPLAY, check
from accelsim.machine.memory_models import DEFAULT, MODELS, check_model
from accelsim.machine.run import Run
from accelsim.machine.simulation import How, Simulation
from accelsim.pause import no_collection
from accelsim.program.program import Program
from accelsim.program.repeated import Repeat
from accelsim.program.verify import check_length
from accelsim.spec.levels import caches
from accelsim.types import Array
from accelsim.workload.limits import check_commands

Progress = Callable[[float], None] | None


def simulate(
    program: Program,
    feeds: Mapping[str, Array] | None = None,
    values: str = "off",
    keep: bool = False,
    progress: Progress = None,
    memory_model: str = DEFAULT,
    record: bool = False,
) -> Run:
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
        alone = values == "off" and MODELS[memory_model].dram is None and not caches(program.chip)
        if alone and (replay := _replayed(program, program.repeat, how, progress)) is not None:
            check_length(program.graph, program.chip, replay.time_fs)
            check(replay, laws=LAWS_OF_A_REPLAY)
            return replay
        check_commands(program.graph.name, len(program.commands))
    return _simulate(program, feeds, how, progress)[0]


def _replayed(program: Program, repeat: Repeat, how: How, progress: Progress) -> Run | None:
    """The run of a program that repeats itself, simulated without its copies; None where these do not follow."""
    from accelsim.machine.replay import replay_of, replayed
    from accelsim.program.shortened import without_copies

    short, logs = _simulate(without_copies(program), None, how, progress)
    with no_collection():
        replay = replay_of(program, short)
        return None if replay is None else replayed(replay, logs)


def _simulate(
    program: Program, feeds: Mapping[str, Array] | None, how: How, progress: Progress
) -> tuple[Run, Mapping[str, EngineLog]]:
    simulation = Simulation()
    simulation.add("", program, feeds, how, progress)
    return simulation.run()[""], simulation.logs("")
