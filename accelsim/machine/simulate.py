"""Build the engines of a chip, run a program on them, and gather what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import simpy

from accelsim.engines.registry import ENGINES
from accelsim.errors import Problem, UsageError
from accelsim.machine.accounting import busy, engine_times, ledger, step_spans, step_stalls
from accelsim.machine.check import check
from accelsim.machine.contents import Contents
from accelsim.machine.context import Context, Progress
from accelsim.machine.memory_models import DEFAULT, Memories, check_model, memories
from accelsim.machine.milestones import Milestones
from accelsim.machine.run import Run
from accelsim.machine.sram import Buffers
from accelsim.machine.values.batch import batch_shape
from accelsim.machine.values.effects import policy
from accelsim.pause import no_collection
from accelsim.program.commands import Command, Program
from accelsim.spec.models import Chip
from accelsim.threads import one_blas_thread
from accelsim.time import FS_PER_S, NEVER, Clock
from accelsim.workload.graph import Array


def simulate(
    program: Program, feeds: Mapping[str, Array] | None = None, values: str = "off", keep: bool = False,
    progress: Callable[[float], None] | None = None, memory_model: str = DEFAULT, record: bool = False,
) -> Run:  # fmt: skip
    """Run ``program`` on the chip that it was compiled for.

    ``feeds``: graph inputs by name (needed unless ``values`` is 'off'). ``values``: 'exact', 'fast' or 'off'.
    ``keep``: return every tensor that existed in a memory, not only the outputs. ``progress`` is told the share of the
    commands that have completed, now and then. ``memory_model``: how off-chip memories are followed, a key of
    ``memory_models.MODELS``; ``record``: keep every burst of those that are followed one by one.
    Raises HazardError when the program reads what is not there, UsageError for wrong feeds, a memory model that does
    not fit or a run longer than ``clock.NEVER``, LawError when the run contradicts itself.
    """
    if values != "off" and feeds is None:
        raise UsageError(f"values {values!r} need the inputs of the model")
    if values != "off":
        _check_feeds(program, feeds or {})
    check_model(memory_model, program.chip)
    with no_collection():
        return _simulate(program, feeds, values, keep, progress, _How(memory_model, record))


def _check_feeds(program: Program, feeds: Mapping[str, Array]) -> None:
    """UsageError, all problems at once, for inputs that are missing or do not have the shape of the whole batch."""
    problems = []
    for name in program.graph.inputs:
        wanted = batch_shape(program.graph.tensors[name].shape, program.cores)
        if name not in feeds:
            problems.append(
                Problem(f"input {name!r} is missing", "feeds", f"an array of shape {list(wanted)}")
            )
        elif np.shape(feeds[name]) != wanted:
            cores = f", the batches of {program.cores} cores" if program.cores > 1 else ""
            what = f"input {name!r} has shape {list(np.shape(feeds[name]))}"
            problems.append(Problem(what, "feeds", f"{list(wanted)}{cores}"))
    if problems:
        raise UsageError(problems)


class _How(NamedTuple):
    """How off-chip memories are followed, and whether their bursts are kept."""

    memory_model: str
    record: bool


@one_blas_thread
def _simulate(
    program: Program,
    feeds: Mapping[str, Array] | None,
    values: str,
    keep: bool,
    told: Callable[[float], None] | None,
    how: _How,
) -> Run:
    env, chip = simpy.Environment(), program.chip
    clock = Clock(chip.clock)
    effects = policy(values, program, dict(feeds or {}), keep)
    contents = Contents(env, program, effects)
    for region in program.presets:
        contents.preset(region)
    delay = clock.at(chip.token_delay)
    context = Context(env, chip, clock, Milestones(env, delay), contents, Buffers(env, program))
    context.progress = Progress(len(program.commands), told) if told is not None else None
    attached = memories(env, clock, program, *how)
    context.ports = attached.ports
    _start(context, program)
    env.run(until=NEVER)
    run = _gather(context, chip, program, values, effects, feeds)
    _follow(run, attached, how)
    check(run)
    return run


def _too_long(program: Program) -> Problem:
    what = f"{program.graph.name} takes more than {NEVER // FS_PER_S:,} s, the longest time that can be simulated"
    return Problem(what, program.chip.name, "a smaller model, or a faster clock, memory or link")


def _follow(run: Run, attached: Memories, how: _How) -> None:
    """Add what the memories know of themselves."""
    run.memory_model = how.memory_model
    for name, memory in attached.drams.items():
        memory.finish(run.time_fs)
        run.ledger += memory.rows()
        run.dram[name] = memory.stats()
        if how.record:
            run.accesses[name] = memory.accesses()


def _queues(program: Program) -> dict[str, list[Command]]:
    queues: dict[str, list[Command]] = {engine: [] for engine in program.engines}
    for command in program.commands:
        queues[command.engine].append(command)
    return queues


def _start(context: Context, program: Program) -> None:
    for engine, queue in _queues(program).items():
        ENGINES[program.engines[engine]].start(context, engine, queue)


def _gather(
    context: Context,
    chip: Chip,
    program: Program,
    values: str,
    effects: Any,
    feeds: Mapping[str, Array] | None,
) -> Run:
    time_fs = max((piece.end for piece in context.slices), default=0)
    if time_fs >= NEVER:
        raise UsageError(_too_long(program))
    times = engine_times(program, context.logs, context.records)
    slices = sorted(context.slices, key=itemgetter(0))
    return Run(
        chip=chip, program=program, values=values, time_fs=time_fs, slices=slices, ledger=ledger(program),
        engines=busy(times, time_fs), step_spans=step_spans(slices, len(program.steps)),
        step_stalls=step_stalls(times, len(program.steps)), outputs=effects.outputs(),
        tensors=effects.kept(), folds=context.records, feeds=dict(feeds or {}), nonzero_macs=effects.nonzero_macs,
        by_link=context.by_link,
    )  # fmt: skip
