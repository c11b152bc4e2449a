"""Build the engines of a chip, run a program on them, and gather what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import simpy

from accelsim.compiler.program import Command, Program
from accelsim.errors import UsageError
from accelsim.machine.accounting import engine_times, ledger, step_spans, step_stalls
from accelsim.machine.array_time import array_times
from accelsim.machine.clock import FS_PER_S, Clock
from accelsim.machine.contents import Contents
from accelsim.machine.context import Context, Progress
from accelsim.machine.effects import policy
from accelsim.machine.engines import host, transfers, vector
from accelsim.machine.matrix import MatrixEngine
from accelsim.machine.milestones import Milestones
from accelsim.machine.port import Lane, Port
from accelsim.machine.run import Run
from accelsim.machine.sram import Buffers
from accelsim.pause import no_collection
from accelsim.spec.models import Attachment, Chip, MatrixUnit, VectorUnit
from accelsim.workload.graph import Array


def simulate(
    program: Program, feeds: Mapping[str, Array] | None = None, values: str = "off", keep: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Run:  # fmt: skip
    """Run ``program`` on the chip that it was compiled for.

    ``feeds``: graph inputs by name (needed unless ``values`` is 'off'). ``values``: 'exact', 'fast' or 'off'.
    ``keep``: return every tensor that existed in a memory, not only the outputs. ``progress`` is told the share of the
    commands that have completed, now and then.
    Raises HazardError when the program reads what is not there, UsageError for wrong feeds,
    LawError when the run contradicts itself.
    """
    if values != "off" and feeds is None:
        raise UsageError(f"values {values!r} need the inputs of the model")
    with no_collection():
        return _simulate(program, feeds, values, keep, progress)


def _simulate(
    program: Program,
    feeds: Mapping[str, Array] | None,
    values: str,
    keep: bool,
    told: Callable[[float], None] | None,
) -> Run:
    env, chip = simpy.Environment(), program.chip
    clock = Clock(chip.clock)
    effects = policy(values, program, dict(feeds or {}), keep)
    contents = Contents(env, program, effects)
    for region in program.presets:
        contents.preset(region)
    delay = clock.at(chip.token_delay)
    context = Context(env, clock, Milestones(env, delay), contents, Buffers(env, program))
    context.progress = Progress(len(program.commands), told) if told is not None else None
    _start(context, chip, program)
    env.run()
    run = _gather(context, chip, program, values, effects, feeds)
    run.check()
    return run


def _clock_of(unit: MatrixUnit | VectorUnit | None, chip: Chip) -> Clock:
    return Clock((unit.clock if unit is not None else None) or chip.clock)


def _queues(program: Program) -> dict[str, list[Command]]:
    queues: dict[str, list[Command]] = {engine: [] for engine in program.engines}
    for command in program.commands:
        queues[command.engine].append(command)
    return queues


def _start(context: Context, chip: Chip, program: Program) -> None:
    ports = {
        key: port
        for name, memory in chip.memories.items()
        for key, port in _ports(context, name, memory).items()
    }
    loads_first = {name: memory.arbitration == "loads_first" for name, memory in chip.memories.items()}
    for engine, queue in _queues(program).items():
        kind = program.engines[engine]
        if kind == "matrix":
            assert chip.matrix is not None
            MatrixEngine(context, engine, chip.matrix, _clock_of(chip.matrix, chip), queue).start()
        elif kind == "vector":
            assert chip.vector is not None
            context.env.process(vector(context, engine, queue, _clock_of(chip.vector, chip)))
        elif kind == "host":
            context.env.process(host(context, engine, queue))
        else:
            context.env.process(transfers(context, engine, queue, ports, loads_first))


def _ports(context: Context, name: str, attached: Attachment) -> dict[tuple[str, bool], Port]:
    """(memory, write) -> port; both directions share it unless a full-duplex link is in between."""
    memory, link = attached.memory, attached.link
    bandwidth = memory.bandwidth * memory.channels * memory.efficiency
    latency = memory.latency
    if link is not None:
        bandwidth, latency = min(bandwidth, link.bandwidth), latency + link.latency
    lane = Lane(bandwidth, memory.beat * memory.channels, int(latency * FS_PER_S), memory.pipelined)
    first = Port(context.env, context.clock, lane)
    duplex = link is not None and link.duplex == "full"
    second = Port(context.env, context.clock, lane) if duplex else first
    return {(name, False): first, (name, True): second}


def _gather(
    context: Context,
    chip: Chip,
    program: Program,
    values: str,
    effects: Any,
    feeds: Mapping[str, Array] | None,
) -> Run:
    time_fs = max((piece.end for piece in context.slices), default=0)
    arrays = array_times(program, context.folds, _clock_of(chip.matrix, chip))
    slices = sorted(context.slices, key=itemgetter(0))
    return Run(
        chip=chip, program=program, values=values, time_fs=time_fs, slices=slices, ledger=ledger(program),
        engines=engine_times(context.logs, arrays, program, time_fs), step_spans=step_spans(slices, len(program.steps)),
        step_stalls=step_stalls(arrays, len(program.steps)), outputs=effects.outputs(),
        tensors=effects.kept(), folds=context.folds, feeds=dict(feeds or {}), nonzero_macs=effects.nonzero_macs,
    )  # fmt: skip
