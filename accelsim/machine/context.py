"""State that the engines of one simulation share, and the records that they leave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import simpy

from accelsim.engines.device import Delivery, EngineLog, History, MemoryPort
from accelsim.machine.contents import BEGIN, DONE, A, Agenda, Contents, W
from accelsim.machine.exchange import Exchange
from accelsim.machine.milestones import Milestones, Waiting
from accelsim.machine.run import Slice
from accelsim.machine.sram import Buffers, acquire
from accelsim.program.commands import Command, Phase, Wait
from accelsim.program.work import Meet, Message
from accelsim.spec.chip import Chip
from accelsim.time import Clock


class Progress:
    """Tells ``told`` the share of ``total`` commands that have completed, a hundred times in all."""

    def __init__(self, total: int, told: Callable[[float], None]) -> None:
        self._total, self._told, self._done = total, told, 0
        self._every = max(1, total // 100)

    def one_more(self) -> None:
        """A command has completed."""
        self._done += 1
        if self._done % self._every == 0:
            self._told(self._done / self._total)


@dataclass
class Context:
    """Environment, chip, clock, milestones, contents of the memories, and the records of the run: a ``Device``.

    ``agenda``: one for all devices of a simulation whose values reach each other. ``ended``: commands with their times
    (start, data, end; fs) as they became certain. ``told`` is called for each.
    """

    env: simpy.Environment
    chip: Chip
    clock: Clock
    milestones: Milestones
    contents: Contents
    buffers: Buffers
    ports: Mapping[tuple[str, bool], MemoryPort] = field(default_factory=dict)
    name: str = ""
    messages: Exchange | None = None
    ended: list[tuple[Command, int, int, int]] = field(default_factory=list)
    logs: dict[str, EngineLog] = field(default_factory=lambda: defaultdict(EngineLog))
    agenda: Agenda = field(default_factory=Agenda)
    told: Callable[[], None] | None = None
    histories: dict[int, History] = field(default_factory=dict)
    _shared: dict[str, Any] = field(default_factory=dict)

    @property
    def slices(self) -> list[Slice]:
        """Return what has ended, in the order of the commands."""
        found = [Slice(each.id, each.engine, each.op, each.label, *times) for each, *times in self.ended]
        return sorted(found, key=itemgetter(0))

    def shared(self, what: str, make: Callable[[], Any]) -> Any:
        """Return what several queues of the device share by a name, made by the first of them that asks."""
        if what not in self._shared:
            self._shared[what] = make()
        return self._shared[what]

    def sleep_until(self, t_fs: int) -> simpy.Event:
        """An event at that time, or now if it has passed."""
        return self.env.timeout(max(0, t_fs - self.env.now))

    @property
    def released(self) -> Callable[..., tuple[int, Wait | None] | None]:
        """See ``Milestones.released``."""
        return self.milestones.released

    @property
    def available(self) -> Callable[..., Waiting]:
        """See ``Milestones.available``."""
        return self.milestones.available

    @property
    def publish(self) -> Callable[[int, Phase, int], None]:
        """See ``Milestones.publish``."""
        return self.milestones.publish

    def exchange(self, message: Message, send: bool) -> Delivery:
        """Be ready, from now on, to send or receive a message."""
        assert self.messages is not None
        return self.messages.ready(self.name, message, send)

    def meet(self, barrier: Meet) -> simpy.Event:
        """Come to a barrier now; the event fires when all have come."""
        assert self.messages is not None
        return self.messages.meet(self.name, barrier)

    def narrow_buffer(self, command: Command) -> str:
        """Return the buffer whose ports can run out and that the command must hold, '' for none."""
        return self.buffers.narrow(command)

    def hold_ports(self, command: Command, engine: str, duration_fs: int) -> Generator[simpy.Event, object, int]:
        """Hold the ports that it needs; the time (fs) from which all are held, 0 when none is needed."""
        return acquire(self.buffers.needed(command), engine, duration_fs)

    def holds_ports(self, command: Command) -> bool:
        """Return whether it needs ports of buffers that can run out."""
        return self.buffers.needs(command)

    def begin(self, command: Command, t_fs: int) -> None:
        """At ``t_fs`` the command starts to overwrite its destinations."""
        self.agenda.entries.append((t_fs, BEGIN, command, -1, self.contents))

    def check_reads(self, command: Command, role: str, from_fs: int, to_fs: int) -> None:
        """At ``to_fs``: what the command read in this role was valid since ``from_fs``."""
        self.agenda.entries.append((to_fs, W if role == "w" else A, command, from_fs, self.contents))

    def complete(
        self, command: Command, times: tuple[int, int, int], history: History, reads_from_fs: int = -1
    ) -> None:
        """See ``Device.complete``."""
        start_fs, data_fs, end_fs = times
        number = command.id
        self.ended.append((command, start_fs, data_fs, end_fs))
        self.histories[number] = history
        self.milestones.publish(number, "done", end_fs)
        self.agenda.entries.append((end_fs, DONE, command, reads_from_fs, self.contents))
        if self.told is not None:
            self.told()
