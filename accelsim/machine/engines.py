"""The engines: SimPy processes, one per in-order queue (a matrix unit is two: weight loader and streamer).

Every engine waits for what its head command depends on, starts at the first edge at which all is there, and publishes
when its phases end. Durations are closed forms; only what is shared (ports) is decided while time passes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, cast

import simpy

from accelsim.machine.context import Context
from accelsim.machine.port import Asked, Port, Served
from accelsim.machine.sram import acquire
from accelsim.program.commands import Command, Cycles, Duration, Transfer
from accelsim.time import Clock

Process = Generator[simpy.Event, Any, None]


def transfers(
    context: Context,
    engine: str,
    queue: Sequence[Command],
    ports: dict[tuple[str, bool], Port],
    ranks: dict[str, bool],
) -> Process:
    """A DMA engine: issues at most one request per edge, in order, without waiting for its earlier ones to finish.

    ``ports``: (memory, write) -> port. ``ranks``: memory -> whether its loads win against its stores.
    """
    clock, log, issued = context.clock, context.logs[engine], 0
    for command in queue:
        work = cast(Transfer, command.work)
        available, why = yield from context.milestones.available(command.waits)
        edge = max(issued + 1, clock.edge(available))
        yield context.sleep_until(clock.at(edge))
        rank = (int(work.write == ranks[work.memory]), engine)
        asked = Asked(work.nbytes, work.write, command.id)
        served: Served = yield ports[work.memory, work.write].request(rank, asked)
        log.wait(clock.at(issued), clock.at(edge - 1), why)
        log.wait(clock.at(edge - 1), served.accepted, "port")
        log.busy.append((served.accepted, served.end))
        issued = clock.edge(served.accepted)
        if served.by_link:
            context.by_link.add(command.id)
        context.contents.begin(command, served.accepted)
        context.complete(command, served.accepted, served.data, served.end, served.data)


def vector(context: Context, engine: str, queue: Sequence[Command], clock: Clock) -> Process:
    """A unit that runs one command at a time, each for a number of its clocks."""
    log, last = context.logs[engine], 0
    for command in queue:
        available, why = yield from context.milestones.available(command.waits)
        first = max(last + 1, clock.edge(available))
        log.wait(clock.at(last), clock.at(first - 1), why)
        yield context.sleep_until(clock.at(first))
        ports = context.buffers.needed(command)
        held = yield from acquire(ports, engine, clock.at(cast(Cycles, command.work).clocks))
        log.wait(clock.at(first - 1), clock.at(max(first, clock.edge(held)) - 1), "buffer port")
        first = max(first, clock.edge(held))
        last = first + cast(Cycles, command.work).clocks - 1
        _run_alone(context, command, clock.at(first - 1), clock.at(first), clock.at(last))


def host(context: Context, engine: str, queue: Sequence[Command]) -> Process:
    """A processor that runs one command at a time, each for a time of its own."""
    log, free = context.logs[engine], 0
    for command in queue:
        available, why = yield from context.milestones.available(command.waits)
        start = max(free, available)
        log.wait(free, start, why)
        yield context.sleep_until(start)
        free = start + cast(Duration, command.work).fs
        _run_alone(context, command, start, start, free)


def _run_alone(context: Context, command: Command, start_fs: int, first_fs: int, end_fs: int) -> None:
    context.logs[command.engine].busy.append((start_fs, end_fs))
    context.contents.begin(command, first_fs)
    context.complete(command, start_fs, start_fs, end_fs, first_fs)
