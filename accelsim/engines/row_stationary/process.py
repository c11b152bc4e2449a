"""The array as a process: one part of a processing pass after the other, each for a known number of clocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from accelsim.engines.device import Device, Point, Process, Walk
from accelsim.engines.row_stationary.words import LOAD, STEPS
from accelsim.program.commands import Command, Cycles
from accelsim.program.roles import unit_of
from accelsim.time import Clock


class PassRecord(NamedTuple):
    """Edges of one command: filters (``w``) and ifmaps (``a``) are read for the last time, the ``last`` one of all."""

    command: int
    w: int
    a: int
    last: int


def run(device: Device, engine: str, clock: Clock, queue: Sequence[Command]) -> Process:
    """Run the queue in order; a command begins when its filters, its ifmaps and room for its psums are there."""
    log, last = device.logs[engine], 0
    for command in queue:
        work = cast(Cycles, command.work)
        available, why = yield from device.available(command.waits)
        first = max(last + 1, clock.edge(available))
        log.wait(clock.at(last), clock.at(first - 1), why)
        yield device.sleep_until(clock.at(first))
        held = yield from device.hold_ports(command, engine, clock.at(work.clocks))
        log.wait(clock.at(first - 1), clock.at(max(first, clock.edge(held)) - 1), "buffer port")
        first = max(first, clock.edge(held))
        last = first + work.clocks - 1
        log.busy.append((clock.at(first - 1), clock.at(last)))
        record = PassRecord(command.id, first + work.w - 1, first + work.a - 1, last)
        device.records.append(record)
        device.publish(command.id, "w", clock.at(record.w))
        device.publish(command.id, "a", clock.at(record.a))
        device.check_reads(command, "w", clock.at(first), clock.at(record.w))
        device.check_reads(command, "a", clock.at(first), clock.at(record.a))
        device.begin(command, clock.at(first))
        device.complete(command, clock.at(first - 1), clock.at(first - 1), clock.at(last))


def back(walk: Walk, clock: Clock, command: Command) -> Point | None:
    """To the command before, or to what came last of what was waited for."""
    start, before = walk.span(command.id)[0], walk.queue_before(command.id)
    free = clock.edge(walk.span(before)[2]) + 1 if before >= 0 else 1
    wait, available = walk.latest(command)
    first = max(free, clock.edge(available))
    begin, buffer = clock.at(first - 1), walk.buffer(command)
    walk.check(
        command, bool(start == begin or (buffer and start > begin)), f"starts at {start} fs, not {begin}"
    )
    unit = unit_of(command.engine)
    walk.emit(clock.at(walk.record(command.id).w), command.id, STEPS, unit)
    walk.emit(start, command.id, LOAD, unit)
    walk.emit(begin, command.id, "buffer_port", buffer)
    if wait is not None and first > free:
        return walk.follow(command, wait, first, clock)
    walk.linked("queue" if before >= 0 else "start")
    return Point(before, "done") if before >= 0 else None
