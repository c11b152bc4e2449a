"""A processor that runs one command at a time, each for a time of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from accelsim.engines.base import EngineType, Lowering, Reason
from accelsim.engines.cpu.lower import lower_host
from accelsim.engines.device import Device, Point, Process, Walk
from accelsim.program.commands import Command, Duration
from accelsim.spec.chip import Chip


class Cpu(EngineType):
    """The host of a chip, or the chip itself."""

    type = "cpu"
    rank = 3
    reasons = (Reason("host", "host", "the host", "host", "#f0e442", "xxxx"),)
    pieces = (("host", "the host works"),)
    hue = "yellow"

    def lower(self, lowering: Lowering) -> None:
        """Operands to its memory, one command, results there."""
        lower_host(lowering.layout, lowering.index, lowering.node)

    def clock(self, chip: Chip, engine: str) -> None:
        """None: it starts as soon as all is there."""

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """One process."""
        device.env.process(self._run(device, engine, queue))

    def _run(self, device: Device, engine: str, queue: Sequence[Command]) -> Process:
        log, free = device.logs[engine], 0
        for command in queue:
            available, why = yield from device.available(command.waits)
            start = max(free, available)
            log.wait(free, start, why)
            yield device.sleep_until(start)
            free = start + cast(Duration, command.work).fs
            log.busy.append((start, free))
            device.begin_now(command, start)
            device.complete(command, start, start, free, start)

    def back(self, walk: Walk, command: Command, event: str) -> Point | None:
        """Go back to the command before on the processor, or to what came last of what was waited for."""
        start, before = walk.span(command.id)[0], walk.queue_before(command.id)
        free = walk.span(before)[2] if before >= 0 else 0
        wait, available = walk.latest(command)
        walk.check(command, start == max(free, available), f"starts at {start} fs")
        walk.emit(start, command.id, "host", "host")
        if wait is not None and available > free:
            walk.linked(wait.why)
            walk.emit(available - walk.delay_fs, command.id, "hand_over", command.engine)
            return Point(wait.command, wait.phase)
        walk.linked("queue" if before >= 0 else "start")
        return Point(before, "done") if before >= 0 else None


ENGINE = Cpu()
