"""A network interface: sends, receives and meets others, one command after the other.

A message begins when both sides are ready for it, as large messages do (rendezvous). Its bytes take the links between
the two devices together with all others that cross them; the last one arrives one latency after it has left.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy

from accelsim.engines.base import EngineType, Reason
from accelsim.engines.device import QUEUE, START, Device, History, Process, activities
from accelsim.program.commands import Command
from accelsim.program.work import Meet, Message
from accelsim.spec.chip import Chip


class Nic(EngineType):
    """One direction of a network interface; a device has one queue for each, and one for barriers."""

    type = "nic"
    rank = 5
    reasons = (
        Reason("message", "message ({resource})", "a message to or from {resource}", "messages between devices",
               "#1b9e77", "////"),
        Reason("peer", "waiting for {resource}", "waiting for {resource}", "waiting for other devices", "#a6cee3",
               "...."),
    )  # fmt: skip
    pieces = (
        ("message", "bytes of a message are on their way between this device and another"),
        ("peer", "another device is not ready to send or to receive, or has not come to a barrier"),
    )
    hue = "green"

    def clock(self, chip: Chip, engine: str) -> None:
        """None: it starts as soon as all is there."""

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """One process."""
        device.env.process(self._run(device, engine, queue))

    def _run(self, device: Device, engine: str, queue: Sequence[Command]) -> Process:
        log, free, before = device.logs[engine], 0, START
        for command in queue:
            available, wait = yield from device.available(command.waits)
            ready, cause = max(free, available), wait if wait is not None and available > free else before
            log.wait(command.id, free, ready, cause[2])
            yield device.sleep_until(ready)
            begin, free = yield from self._work(device, command)
            log.wait(command.id, ready, begin, "peer")
            log.work(command.id, begin, free)
            peer = command.work.peer if isinstance(command.work, Message) else "the others"
            history = History(cause, activities(("peer", "message"), peer), (ready, begin))
            device.complete(command, (begin, begin, free), history, begin)
            before = (command.id, "done", QUEUE)

    def _work(self, device: Device, command: Command) -> Generator[simpy.Event, Any, tuple[int, int]]:
        """Begin and end of a command whose turn it is, fs."""
        work = command.work
        if isinstance(work, Meet):
            yield device.meet(work)
            return int(device.env.now), int(device.env.now)
        assert isinstance(work, Message)
        delivery = device.exchange(work, command.kind == "Send")
        yield delivery.begun
        begin = int(device.env.now)
        device.begin_now(command, begin)
        arrives: int = yield delivery.done
        return begin, int(device.env.now) if command.kind == "Send" else arrives


ENGINE = Nic()
