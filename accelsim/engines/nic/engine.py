"""A network interface: sends, receives and meets others, one command after the other.

A message begins when both sides are ready for it, as large messages do (rendezvous). Its bytes take the links between
the two devices together with all others that cross them; the last one arrives one latency after it has left.
"""

from __future__ import annotations

from accelsim.engines.base import Reason
from accelsim.engines.clocked import Unclocked
from accelsim.engines.device import Activity, Device, Yields, activities
from accelsim.program.commands import Command
from accelsim.program.work import Meet, Message


class Nic(Unclocked):
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

    def carry_out(self, device: Device, command: Command) -> Yields[tuple[int, int]]:
        """Meet the others, or move a message once both sides are ready."""
        work = command.work
        if isinstance(work, Meet):
            yield device.meet(work)
            return int(device.env.now), int(device.env.now)
        assert isinstance(work, Message)
        delivery = device.exchange(work, command.kind == "Send")
        yield delivery.begun
        begin = int(device.env.now)
        device.begin(command, begin)
        arrives: int = yield delivery.done
        return begin, int(device.env.now) if command.kind == "Send" else arrives

    def activities(self, command: Command) -> tuple[Activity, ...]:
        """Return the wait for the other side, and the message."""
        peer = command.work.peer if isinstance(command.work, Message) else "the others"
        return activities(("peer", "message"), peer)


ENGINE = Nic()
