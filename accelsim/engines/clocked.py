"""Engines that run one command at a time, each for a whole number of their clocks: what most types have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from accelsim.engines.base import EngineType, Offer
from accelsim.engines.device import QUEUE, START, Cause, Device, History, Process, activities
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
        clock, log, last, before = self.clock(device.chip, engine), device.logs[engine], 0, START
        for command in queue:
            available, wait = yield from device.available(command.waits)
            first = max(last + 1, clock.edge(available))
            ready, cause = clock.at(first - 1), wait if wait is not None and first > last + 1 else before
            log.wait(command.id, clock.at(last), ready, cause[2])
            yield device.sleep_until(clock.at(first))
            held = yield from device.hold_ports(command, engine, clock.at(clocks_of(command)))
            first = max(first, clock.edge(held))
            log.wait(command.id, ready, clock.at(first - 1), "buffer port")
            last = first + clocks_of(command) - 1
            log.work(command.id, clock.at(first - 1), clock.at(last))
            narrow = device.narrow_buffer(command) if held else ""
            self.carry_out(
                device, command, clock, first, last, self.history(command, cause, ready, clock, first, last, narrow)
            )
            before = (command.id, "done", QUEUE)

    def history(
        self, command: Command, cause: Cause, ready: int, clock: Clock, first: int, last: int, narrow: str = ""
    ) -> History:
        """Return how a command ended that ``cause`` let go on at ``ready`` fs and that occupies the edges ``first`` to
        ``last``; ``narrow``: the buffer for whose ports it waited."""
        resource, begins, edge = unit_of(command.engine), [], first - 1
        kinds = []
        for kind, clocks in self.stages(command):
            kinds.append(kind)
            begins.append(clock.at(edge))
            edge += clocks
        if edge < last:
            kinds.append(self.disturbed)
            begins.append(clock.at(edge))
        done = activities(tuple(kinds), resource)
        if ready < begins[0]:
            return History(cause, (*activities(("buffer_port",), narrow), *done), (ready, *begins))
        return History(cause, done, tuple(begins))

    def carry_out(
        self, device: Device, command: Command, clock: Clock, first: int, last: int, history: History
    ) -> None:
        """The command occupies the edges ``first`` to ``last``; it reads all its operands until the last of them."""
        device.begin_now(command, clock.at(first))
        begin = clock.at(first - 1)
        device.complete(command, (begin, begin, clock.at(last)), history, clock.at(first))


def clocks_of(command: Command) -> int:
    """Clocks that a command of such an engine takes."""
    work: Any = command.work
    return int(work.clocks)
