"""Engines that run one command at a time, each for a whole number of their clocks: what most types have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, cast

from accelsim.engines.base import EngineType, Offer
from accelsim.engines.device import QUEUE, START, Activity, Cause, Device, History, Process, Yields, activities
from accelsim.program.commands import Command
from accelsim.program.roles import spec_of, unit_of
from accelsim.program.work import Cycles, Stages
from accelsim.spec.chip import Chip
from accelsim.time import Clock, clock_of
from accelsim.workload.nodes import gemm_view

Hold = Callable[[Command, int], Yields[tuple[int, int, str]]]
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


def not_a_product(offer: Offer, does: str, constant: str, form: str = "matrix product") -> str:
    """Return why an engine cannot do a node with products, '' where it can.

    ``does``: the engine with its verb ('the tiles do'); ``constant``: why its left operand must not be a constant.
    """
    view, tensors = gemm_view(offer.graph, offer.node), offer.graph.tensors
    if view is None:
        return f"has no form as a {form}"
    a, b = tensors[view.a], tensors[view.b]
    if a.is_constant:
        return f"its left operand is a constant, {constant}"
    return "" if offer.multiplies else f"{does} not multiply {a.dtype} by {b.dtype}"


class Clocked(EngineType):
    """A type whose commands have work with ``clocks``: the command before has ended, what it waits for is there, ports
    of buffers that can run out are held, and so many clocks later it is done."""

    disturbed: ClassVar[str] = ""
    """Kind of a piece of the critical path for what a command takes longer because other queues share the engine."""

    @abstractmethod
    def stages(self, command: Command) -> Sequence[tuple[str, int]]:
        """Return what a command does, one after the other: (kind of a piece of the critical path, clocks)."""

    def clock(self, chip: Chip, engine: str) -> Clock:
        """Return the clock of the engine, else of the chip."""
        return clock_of(spec_of(chip, engine).clock or chip.clock)

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """Start one process."""
        device.env.process(self._run(device, engine, queue))

    def _run(self, device: Device, engine: str, queue: Sequence[Command]) -> Process:
        clock, log, last, before = self.clock(device.chip, engine), device.logs[engine], 0, START
        hold = self.holding(device, engine, queue, clock)
        for command in queue:
            available, wait = device.released(command.waits) or (yield from device.available(command.waits))
            first, free = max(last + 1, clock.edge(available)), clock.at(last)
            ready, cause = clock.at(first - 1), wait if wait is not None and first > last + 1 else before
            first, last, narrow = yield from hold(command, first)
            log.add(command.id, (free, ready, clock.at(first - 1), clock.at(last)), cause[2], "buffer port")
            history = self.history(command, cause, ready, clock, first, last, narrow)
            self.carry_out(device, command, clock, first, last, history)
            before = (command.id, "done", QUEUE)

    def holding(self, device: Device, engine: str, queue: Sequence[Command], clock: Clock) -> Hold:
        """Return a process that holds the engine for a command from an edge on, which may be later, and lets it begin.

        It ends when the last edge is certain, with the first edge, the last one, and the buffer for whose ports the
        command waited ('' for none).
        """

        def hold(command: Command, first: int) -> Yields[tuple[int, int, str]]:
            clocks, narrow = clocks_of(command), ""
            if device.holds_ports(command):
                yield device.sleep_until(clock.at(first))
                held = yield from device.hold_ports(command, engine, clock.at(clocks))
                first, narrow = max(first, clock.edge(held)), device.narrow_buffer(command)
            device.begin(command, clock.at(first))
            return first, first + clocks - 1, narrow

        return hold

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
        """Occupy the edges ``first`` to ``last`` with a command, which reads all its operands until the last edge."""
        begin = clock.at(first - 1)
        device.complete(command, (begin, begin, clock.at(last)), history, clock.at(first))


class Unclocked(EngineType):
    """A type without a clock: a command starts as soon as the one before has ended and what it waits for is there."""

    def clock(self, chip: Chip, engine: str) -> None:
        """Return None: commands start at any time."""

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """Start one process."""
        device.env.process(self._run(device, engine, queue))

    def _run(self, device: Device, engine: str, queue: Sequence[Command]) -> Process:
        log, free, before = device.logs[engine], 0, START
        for command in queue:
            available, wait = device.released(command.waits) or (yield from device.available(command.waits))
            start, ready = free, max(free, available)
            cause = wait if wait is not None and available > free else before
            yield device.sleep_until(ready)
            begin, free = yield from self.carry_out(device, command)
            log.add(command.id, (start, ready, begin, free), cause[2], "peer")
            done = self.activities(command)
            history = History(cause, done, (ready, begin)[: len(done)])
            device.complete(command, (begin, begin, free), history, begin)
            before = (command.id, "done", QUEUE)

    @abstractmethod
    def carry_out(self, device: Device, command: Command) -> Yields[tuple[int, int]]:
        """Carry out a command whose turn it is; return when it begins and when it ends, fs."""

    @abstractmethod
    def activities(self, command: Command) -> tuple[Activity, ...]:
        """Return the activities of a command: one from the time at which it is ready, a second from its begin."""


def clocks_of(command: Command) -> int:
    """Return the clocks that a command of such an engine takes."""
    return cast(Cycles | Stages, command.work).clocks
