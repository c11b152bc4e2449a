"""State that the engines of one simulation share, and the records that they leave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import simpy

from accelsim.engines.device import Delivery, EngineLog, History, MemoryPort
from accelsim.machine.contents import Agenda, Contents
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

    ``agenda``: one for all devices of a simulation, whose values reach each other.
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
    slices: list[Slice] = field(default_factory=list)
    logs: dict[str, EngineLog] = field(default_factory=lambda: defaultdict(EngineLog))
    agenda: Agenda = field(default_factory=Agenda)
    progress: Progress | None = None
    histories: dict[int, History] = field(default_factory=dict)
    _shared: dict[str, Any] = field(default_factory=dict)

    def shared(self, what: str, make: Callable[[], Any]) -> Any:
        """Return what several queues of the device share by a name, made by the first of them that asks."""
        if what not in self._shared:
            self._shared[what] = make()
        return self._shared[what]

    def sleep_until(self, t_fs: int) -> simpy.Event:
        """An event at that time, or now if it has passed."""
        return self.env.timeout(max(0, t_fs - self.env.now))

    def available(self, waits: Iterable[Wait], why: str = "") -> Waiting:
        """See ``Milestones.available``."""
        return self.milestones.available(waits, why)

    def publish(self, command: int, phase: Phase, t_fs: int) -> None:
        """See ``Milestones.publish``."""
        self.milestones.publish(command, phase, t_fs)

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

    def begin_now(self, command: Command, t_fs: int) -> None:
        """The command overwrites its destinations from now on, which is ``t_fs`` for all who could look."""
        self.agenda.until(int(self.env.now))
        self.contents.begin(command, t_fs)

    def begin(self, command: Command, t_fs: int) -> None:
        """At ``t_fs`` the command starts to overwrite its destinations."""
        if any(use.role in ("whole", "begin") for use in command.writes):
            self.agenda.at(t_fs, lambda now: self.contents.begin(command, now))

    def complete(
        self, command: Command, times: tuple[int, int, int], history: History, reads_from_fs: int = -1
    ) -> None:
        """See ``Device.complete``."""
        end_fs = times[2]
        self.slices.append(Slice(command.id, command.engine, command.op, command.label, *times))
        self.histories[command.id] = history
        self.milestones.publish(command.id, "done", end_fs)
        self.agenda.at(end_fs, lambda now: self._finish(command, reads_from_fs, now))

    def _finish(self, command: Command, reads_from_fs: int, end_fs: int) -> None:
        if reads_from_fs >= 0:
            for use in command.reads:
                self.contents.read(command, use, reads_from_fs, end_fs)
        self.contents.commit(command, end_fs)
        if self.progress is not None:
            self.progress.one_more()

    def check_reads(self, command: Command, role: str, from_fs: int, to_fs: int) -> None:
        """At ``to_fs``: what the command read in this role was valid since ``from_fs``."""
        for use in command.reads:
            if use.role == role:
                self.agenda.at(to_fs, lambda now, use=use: self.contents.read(command, use, from_fs, now))  # type: ignore[misc]
