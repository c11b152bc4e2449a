"""Run a program on the chip that it was compiled for: a system of one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from accelsim.engines.device import EngineLog
from accelsim.machine.check import LAWS_OF_A_PART, LAWS_OF_A_REPLAY, check
from accelsim.machine.memory_models import DEFAULT, MODELS, check_model
from accelsim.machine.run import Run
from accelsim.machine.simulation import How, Simulation
from accelsim.pause import no_collection
from accelsim.program.commands import Program
from accelsim.program.repeated import Repeat
from accelsim.program.rolled import all_loops, place_of, written_out
from accelsim.program.verify import check_length
from accelsim.spec.levels import caches
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
    alone = values == "off" and MODELS[memory_model].dram is None  # nothing depends on contents or banks
    cached = bool(caches(program.chip))
    repeats = alone and not cached
    rolled = program.rolled
    while rolled is not None and rolled.loops:
        found: Run | set[int] | None = None
        if repeats:
            found = _unrolled(program, rolled, how, progress)
        elif alone:
            found = _cached(program, rolled, memory_model)
        found = _places(rolled) if found is None else found
        if isinstance(found, Run):
            check_length(program.graph, program.chip, found.time_fs)
            return found
        with no_collection():
            rolled = written_out(rolled, found)
    program = rolled or program
    if program.repeat is not None:
        if repeats and (replay := _replayed(program, program.repeat, how, progress)) is not None:
            check_length(program.graph, program.chip, replay[0].time_fs)
            check(replay[0], laws=LAWS_OF_A_REPLAY)
            return replay[0]
        program = _of_all_blocks(program)
    run = _cached(program, program, memory_model) if alone and cached else None
    return _simulate(program, feeds, how, progress)[0] if run is None else run


def _cached(program: Program, rolled: Program, memory_model: str) -> Run | None:
    """The run of a program on a chip with caches without events, from its ``rolled`` form; None where they decide."""
    from accelsim.machine.paced import Paced, timed, turns_of
    from accelsim.machine.unrolling import unrolled

    with no_collection():
        short = timed(_of_all_blocks(rolled) if rolled.repeat is not None else rolled, memory_model)
        if short is None or short.table is None:
            return None
        if not rolled.loops:
            whole = short.table.with_caches(replace(short, table=None))
            check(whole)
            return whole
        check(short, laws=LAWS_OF_A_PART)
        paced = Paced(program, short, short, turns_of(short))
        whole = short.table.with_caches(unrolled(paced, short.table.logs()))
        check(whole, laws=LAWS_OF_A_REPLAY)
    return whole


def _of_all_blocks(program: Program) -> Program:
    """The same with all copies of blocks written. Raises TooLarge."""
    check_commands(program.graph.name, len(program.commands))
    with no_collection():
        return replace(program, commands=list(program.commands), repeat=None, loops=all_loops(program))


def _unrolled(program: Program, rolled: Program, how: How, progress: Progress) -> Run | set[int]:
    """The run of a program whose loops are rolled up, from that of a ``rolled`` form; where it does not follow, the
    places of the loops that are to blame."""
    from accelsim.machine.turning import Turning
    from accelsim.machine.unrolling import Unrolling, unrolled

    if (paced := _paced(program, rolled, how)) is not None:
        return paced
    how = how._replace(laws=LAWS_OF_A_PART)
    found = None if rolled.repeat is None else _replayed(rolled, rolled.repeat, how, progress)
    run, logs = found or _simulate(_of_all_blocks(rolled), None, how, progress)
    short = run if run.replay is None else run.replay.short
    with no_collection():
        turns = Turning(short).turns()
        repeat = None if run.replay is None else run.program.repeat
        ends = [loop.span.end if repeat is None else repeat.commands.long(loop.span.end - 1) + 1
                for loop, turn in zip(short.program.loops, turns, strict=True) if turn is None]  # fmt: skip
        if ends:
            return {place_of(rolled.repeat, end) for end in ends}
        unrolling = Unrolling(program, run, short, [turn for turn in turns if turn is not None])
        if not unrolling.holds():
            return _places(rolled)
        whole = unrolled(unrolling, logs)
        check(whole, laws=LAWS_OF_A_REPLAY)
    return whole


def _paced(program: Program, rolled: Program, how: How) -> Run | None:
    """The same where nobody competes for anything: laps at whatever pace; None elsewhere."""
    from accelsim.machine.paced import Paced, timed, turns_of
    from accelsim.machine.recurrence import recurrence
    from accelsim.machine.replay import replayed
    from accelsim.machine.unrolling import unrolled

    repeat, replay = rolled.repeat, None
    with no_collection():
        short = timed(rolled if repeat is None else repeat.short(rolled), how.memory_model)
        if short is not None and repeat is not None:
            replay = recurrence(rolled, short)
            short = short if replay is not None else timed(_of_all_blocks(rolled), how.memory_model)
        if short is None or short.table is None:
            return None
        check(short, laws=LAWS_OF_A_PART)
        logs = short.table.logs()
        run = short if replay is None else replayed(replay, logs)
        whole = unrolled(Paced(program, run, short, turns_of(short)), logs)
        check(whole, laws=LAWS_OF_A_REPLAY)
    return whole


def _places(rolled: Program) -> set[int]:
    """Where all loops of a rolled program are."""
    return {place_of(rolled.repeat, loop.span.end) for loop in rolled.loops}


def _replayed(
    program: Program, repeat: Repeat, how: How, progress: Progress
) -> tuple[Run, Mapping[str, EngineLog]] | None:
    """The run of a program that repeats itself, simulated without its copies; None where it cannot be. With it how
    the engines spent their time in what was simulated."""
    from accelsim.machine.recurrence import cycles, recurrence
    from accelsim.machine.replay import replayed

    short, logs = _simulate(repeat.short(program), None, how, progress)
    replay = recurrence(program, short)
    for wider in cycles(program, short) if replay is None else ():
        assert wider.repeat is not None
        short, logs = _simulate(wider.repeat.short(wider), None, how, progress)
        if (replay := recurrence(wider, short)) is not None:
            break
    if replay is None:
        return None
    with no_collection():
        return replayed(replay, logs), logs


def _simulate(
    program: Program, feeds: Mapping[str, Array] | None, how: How, progress: Progress
) -> tuple[Run, Mapping[str, EngineLog]]:
    simulation = Simulation()
    simulation.add("", program, feeds, how, progress)
    return simulation.run()[""], simulation.logs("")
