"""Engines that run one command at a time, each for a whole number of their clocks: what most types have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from accelsim.engines.base import EngineType, Offer
from accelsim.engines.device import Device, Point, Process, Walk
from accelsim.program.commands import Command
from accelsim.program.roles import spec_of, unit_of
from accelsim.spec.chip import Chip
from accelsim.time import Clock, clock_of

UNWRITTEN = ("int64", "uint32", "uint64", "string")
"""Formats that an engine of functions cannot write: it has real numbers, codes, 32-bit sums and flags."""


def not_a_function(offer: Offer, engine: str, has: str = "has") -> str:
    """Return why ``engine`` ('the vector unit', with its verb) cannot do a node that is no product, '' where it can."""
    functions, node = offer.unit.spec.functions, offer.node
    if node.op not in functions and not (node.op == "Bias" and "Add" in functions):
        return f"not a function of {engine}"
    formats = [offer.graph.tensors[name].dtype for name in node.outputs if name]
    unwritten = next((name for name in formats if name in UNWRITTEN), "")
    return f"{engine} {has} no {unwritten} numbers" if unwritten else ""


class Clocked(EngineType):
    """A type whose commands have work with ``clocks``: the command before has ended, what it waits for is there, ports
    of buffers that can run out are held, and so many clocks later it is done."""

    disturbed: ClassVar[str] = ""
    """Kind of a piece of the critical path for what a command takes longer because other queues share the engine."""

    @abstractmethod
    def stages(self, command: Command) -> Sequence[tuple[str, int]]:
        """Return what a command does, one after the other: (kind of a piece of the critical path, clocks)."""

    def clock(self, chip: Chip, engine: str) -> Clock:
        """Clock of the engine, else of the chip."""
        return clock_of(spec_of(chip, engine).clock or chip.clock)

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """One process."""
        device.env.process(self._run(device, engine, queue))

    def _run(self, device: Device, engine: str, queue: Sequence[Command]) -> Process:
        clock, log, last = self.clock(device.chip, engine), device.logs[engine], 0
        for command in queue:
            available, why = yield from device.available(command.waits)
            first = max(last + 1, clock.edge(available))
            log.wait(clock.at(last), clock.at(first - 1), why)
            yield device.sleep_until(clock.at(first))
            clocks = clocks_of(command)
            held = yield from device.hold_ports(command, engine, clock.at(clocks))
            log.wait(clock.at(first - 1), clock.at(max(first, clock.edge(held)) - 1), "buffer port")
            first = max(first, clock.edge(held))
            last = first + clocks - 1
            log.busy.append((clock.at(first - 1), clock.at(last)))
            self.carry_out(device, command, clock, first, last)

    def carry_out(self, device: Device, command: Command, clock: Clock, first: int, last: int) -> None:
        """The command occupies the edges ``first`` to ``last``; it reads all its operands until the last of them."""
        device.begin_now(command, clock.at(first))
        device.complete(command, clock.at(first - 1), clock.at(first - 1), clock.at(last), clock.at(first))

    def back(self, walk: Walk, command: Command, event: str) -> Point | None:
        """Back through its stages to the command before on the engine, or to what came last of what was waited for."""
        clock, (start, _, _) = self.clock(walk.chip, command.engine), walk.span(command.id)
        before = walk.queue_before(command.id)
        free = clock.edge(walk.span(before)[2]) + 1 if before >= 0 else 1
        wait, available = walk.latest(command)
        first = max(free, clock.edge(available))
        begin, buffer = clock.at(first - 1), walk.buffer(command)
        on_time = start == begin or (buffer and start > begin)
        walk.check(command, bool(on_time), f"starts at {start} fs instead of {begin}")
        self._stages_back(walk, command, clock)
        walk.emit(begin, command.id, "buffer_port", buffer)
        if wait is not None and first > free:
            return walk.follow(command, wait, first, clock)
        walk.linked("queue" if before >= 0 else "start")
        return Point(before, "done") if before >= 0 else None

    def _stages_back(self, walk: Walk, command: Command, clock: Clock) -> None:
        start, _, end = walk.span(command.id)
        edge = clock.edge(start) + clocks_of(command)
        if end > clock.at(edge):
            walk.emit(clock.at(edge), command.id, self.disturbed, unit_of(command.engine))
        for kind, clocks in self.stages(command)[::-1]:
            edge -= clocks
            walk.emit(max(start, clock.at(edge)), command.id, kind, unit_of(command.engine))


def clocks_of(command: Command) -> int:
    """Clocks that a command of such an engine takes."""
    work: Any = command.work
    return int(work.clocks)
