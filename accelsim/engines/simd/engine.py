"""A unit that runs one command at a time, each for a number of its clocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from accelsim.engines.base import REMAPPED, Category, EngineType, Improvement, Lowering, Offer, Price, Reason
from accelsim.engines.device import Device, Point, Process, Walk
from accelsim.engines.simd.accepting import refusal
from accelsim.engines.simd.lower import lower_vector
from accelsim.program.commands import Command, Cycles
from accelsim.program.roles import Unit, spec_of, unit_of
from accelsim.spec.models import Chip
from accelsim.spec.trust import vector_status
from accelsim.time import Clock, clock_of


class Simd(EngineType):
    """The vector unit: for everything that is not a matrix product."""

    type = "simd"
    title = "the vector unit"
    rank = 2
    reasons = (
        Reason("vector", "{resource} unit", "the {resource} unit", "vector unit", "#cc79a7", "....", True),
    )
    categories = (Category("vector unit", "#cc79a7", "...."),)
    pieces = (("vector", "the vector unit works"),)
    hue = "purple"

    def accepts(self, offer: Offer) -> str | None:
        """Functions that its spec lists, on numbers that it knows."""
        return refusal(offer)

    def lower(self, lowering: Lowering) -> None:
        """One command, or as many as the buffer asks for."""
        lower_vector(lowering.layout, lowering.index, lowering.node, lowering.unit)

    def prices(self, chip: Chip, unit: Unit) -> dict[str, Price]:
        """Operations by format, of the energy table of the chip."""
        table = chip.energy
        return {
            f"op.{name}": Price(float(energy), "vector unit", "the vector unit", vector_status(table, name))
            for name, energy in table.vector.items()
        }

    def called(self, unit: Unit) -> str:
        """By its name: a chip may have several."""
        return f"the {unit.name} unit"

    def improvements(self, chip: Chip, unit: Unit) -> Iterator[Improvement]:
        """More lanes, fused functions that follow each other within a clock."""
        keys = ("vector",)
        yield Improvement(
            f"twice the lanes of {self.called(unit)}",
            (f"{unit.name}.lanes={2 * unit.spec.lanes}",),
            keys,
            0.5,
        )
        if not unit.spec.chained:
            chained = f"fused functions of {self.called(unit)} in one pass"
            yield Improvement(chained, (f"{unit.name}.chained=true",), keys, REMAPPED)

    def clock(self, chip: Chip, engine: str) -> Clock:
        """Clock of the unit, else of the chip."""
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
            clocks = cast(Cycles, command.work).clocks
            held = yield from device.hold_ports(command, engine, clock.at(clocks))
            log.wait(clock.at(first - 1), clock.at(max(first, clock.edge(held)) - 1), "buffer port")
            first = max(first, clock.edge(held))
            last = first + clocks - 1
            log.busy.append((clock.at(first - 1), clock.at(last)))
            device.begin_now(command, clock.at(first))
            device.complete(
                command, clock.at(first - 1), clock.at(first - 1), clock.at(last), clock.at(first)
            )

    def back(self, walk: Walk, command: Command, event: str) -> Point | None:
        """To the command before on the unit, or to what came last of what was waited for."""
        clock, (start, _, _) = self.clock(walk.chip, command.engine), walk.span(command.id)
        before = walk.queue_before(command.id)
        free = clock.edge(walk.span(before)[2]) + 1 if before >= 0 else 1
        wait, available = walk.latest(command)
        first = max(free, clock.edge(available))
        begin, buffer = clock.at(first - 1), walk.buffer(command)
        on_time = start == begin or (buffer and start > begin)
        walk.check(command, bool(on_time), f"starts at {start} fs instead of {begin}")
        walk.emit(start, command.id, "vector", unit_of(command.engine))
        walk.emit(begin, command.id, "buffer_port", buffer)
        if wait is not None and first > free:
            return walk.follow(command, wait, first, clock)
        walk.linked("queue" if before >= 0 else "start")
        return Point(before, "done") if before >= 0 else None


ENGINE = Simd()
