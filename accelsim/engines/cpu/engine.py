"""A processor that runs one command at a time, each for a time of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from accelsim.engines.base import EngineType, Lowering, Reason
from accelsim.engines.cpu.lower import lower_host
from accelsim.engines.device import QUEUE, START, Device, History, Process, activities
from accelsim.program.commands import Command
from accelsim.program.work import Duration
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
        log, free, before = device.logs[engine], 0, START
        for command in queue:
            available, wait = yield from device.available(command.waits)
            start, cause = max(free, available), wait if wait is not None and available > free else before
            log.wait(command.id, free, start, cause[2])
            yield device.sleep_until(start)
            free = start + cast(Duration, command.work).fs
            log.work(command.id, start, free)
            device.begin_now(command, start)
            device.complete(
                command, (start, start, free), History(cause, activities(("host",), "host"), (start,)), start
            )
            before = (command.id, "done", QUEUE)


ENGINE = Cpu()
