"""View of an engine type on a simulation (``Device``) and of the walk along the critical path (``Walk``)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import simpy

from accelsim.program.commands import Command, Meet, Message, Phase, Program, Wait
from accelsim.spec.chip import Chip
from accelsim.time import Clock

Process = Generator[simpy.Event, Any, None]
Edges = tuple[int, int, int]


LATE, LAST = 2, 3
"""SimPy priorities below NORMAL: runs when every other event of the instant has run, also those that are late."""


def late(env: simpy.Environment, t_fs: int, decide: Callable[[], None], priority: int = LATE) -> None:
    """Call ``decide`` at ``t_fs``, after every ordinary event of that instant."""
    event = env.event()
    event._ok, event._value = True, None
    event.callbacks = [lambda _: decide()]
    env.schedule(event, priority=priority, delay=t_fs - env.now)  # type: ignore[arg-type]


class Asked(NamedTuple):
    """A request to the port of a memory: bytes, direction, and the command that asks, whose addresses some memory
    models look up."""

    nbytes: int
    write: bool = False
    command: int = -1


class Served(NamedTuple):
    """Times of one request, fs: acceptance, the edge before the first data beat, the last data beat.

    ``by_link``: the link before the memory, not the memory itself, set the pace of the data.
    """

    accepted: int
    data: int
    end: int
    by_link: bool = False


class Delivery(NamedTuple):
    """A message between two devices, from the side of one: ``begun`` fires when both sides are ready and the first byte
    leaves, ``done`` when the last byte has left (its value: when it arrives, fs)."""

    begun: simpy.Event
    done: simpy.Event


class MemoryPort(Protocol):
    """A shared port of a memory."""

    def request(self, rank: tuple[int, str], asked: Asked) -> simpy.Event:
        """Ask now (at an edge) for a transfer; the event fires at acceptance with ``Served``. Lower rank goes first."""


@dataclass
class EngineLog:
    """How one engine spent its time, fs: ``busy`` intervals, and ``waits`` intervals with what was missing."""

    busy: list[tuple[int, int]] = field(default_factory=list)
    waits: list[tuple[int, int, str]] = field(default_factory=list)

    def wait(self, start_fs: int, end_fs: int, why: str) -> None:
        """The head command waited; empty intervals are dropped."""
        if end_fs > start_fs:
            self.waits.append((start_fs, end_fs, why))


class Times(NamedTuple):
    """How one engine spent its time, fs: ``busy``, ``stalled`` by reason, and ``by_step`` (for engines that tell):
    step -> reason -> fs, 'active' for work."""

    busy: int
    stalled: dict[str, int]
    by_step: dict[int, dict[str, int]]


class Device(Protocol):
    """What the engines of one device share.

    Edge n of a clock ends the interval from edge n-1 to n: what occupies edges i..j occupies [at(i-1), at(j)).
    """

    @property
    def env(self) -> simpy.Environment:
        """The one clock of the simulation."""

    @property
    def clock(self) -> Clock:
        """Clock of the chip."""

    @property
    def chip(self) -> Chip:
        """The chip as it was configured."""

    @property
    def logs(self) -> Mapping[str, EngineLog]:
        """Engine -> how it spent its time; an engine that is asked for is there."""

    @property
    def ports(self) -> Mapping[tuple[str, bool], MemoryPort]:
        """(memory, write) -> its port."""

    @property
    def records(self) -> list[Any]:
        """Return what engines note of their commands beyond start, data and end."""

    @property
    def by_link(self) -> set[int]:
        """Transfers whose data the link held up, not the memory behind it."""

    def shared(self, what: str, make: Callable[[], Any]) -> Any:
        """Return what several queues of the device share by a name, made by the first of them that asks."""

    def available(self, waits: Sequence[Wait], why: str = "") -> Generator[simpy.Event, Any, tuple[int, str]]:
        """Wait until the release times of all ``waits`` (of that kind) are known: (fs, what was missing last)."""

    def publish(self, command: int, phase: Phase, t_fs: int) -> None:
        """The command passes the phase at ``t_fs`` (now or later)."""

    def exchange(self, message: Message, send: bool) -> Delivery:
        """Be ready, from now on, to send or receive a message."""

    def meet(self, barrier: Meet) -> simpy.Event:
        """Come to a barrier now; the event fires when all have come."""

    def needs_ports(self, command: Command) -> bool:
        """Return whether the command must hold ports of buffers that can run out."""

    def hold_ports(self, command: Command, engine: str, duration_fs: int) -> Generator[simpy.Event, Any, int]:
        """Hold the ports that it needs for so long from now on; the time (fs) from which all are held, 0 for none."""

    def sleep_until(self, t_fs: int) -> simpy.Event:
        """An event at that time, or now if it has passed."""

    def begin(self, command: Command, t_fs: int) -> None:
        """At ``t_fs`` the command starts to overwrite its destinations."""

    def begin_now(self, command: Command, t_fs: int) -> None:
        """Do the same without an event of its own: ``t_fs`` is now, or nobody else can look before it."""

    def check_reads(self, command: Command, role: str, from_fs: int, to_fs: int) -> None:
        """At ``to_fs``: what the command read in this role was valid since ``from_fs``."""

    def complete(
        self, command: Command, start_fs: int, data_fs: int, end_fs: int, reads_from_fs: int = -1
    ) -> None:
        """Record a command whose times are certain, publish its completion, commit its effect when it completes.

        ``reads_from_fs``: since when everything that it reads must have been valid (checked at the end); negative when
        the reads are checked on their own.
        """


class Point(NamedTuple):
    """Where the walk goes on: a command and one of its events, a ``Phase``, 'accepted' of a transfer (by its port), or
    a name that only its engine type knows.
    """

    command: int
    event: str


class Walk(Protocol):
    """The walk along the critical path, backwards: ``t`` is where it stands."""

    @property
    def t(self) -> int:
        """Return where the walk stands, fs."""

    @property
    def chip(self) -> Chip:
        """The chip of the run."""

    @property
    def program(self) -> Program:
        """The program of the run."""

    @property
    def clock(self) -> Clock:
        """Clock of the chip."""

    @property
    def delay_fs(self) -> int:
        """Time from the release of a token until it may be acquired."""

    def span(self, command: int) -> tuple[int, int, int]:
        """Start, first data and end of a command, fs."""

    def record(self, command: int) -> Any:
        """Return what the engine noted of a command."""

    def queue_before(self, command: int) -> int:
        """The command before it on the same engine, -1 for none."""

    def port_before(self, command: int) -> int:
        """The transfer before it through the same port if that one decided when its data came, -1 otherwise."""

    def emit(self, start: int, command: int, kind: str, resource: str, edges: Edges = (0, 0, 0)) -> None:
        """The time from ``start`` to where the walk stands goes to this; the walk then stands at ``start``."""

    def linked(self, why: str) -> None:
        """Say of the latest piece why it could not begin earlier."""

    def latest(self, command: Command, why: str = "") -> tuple[Wait | None, int]:
        """The wait (of that kind) that was released last, and when it could be acquired (0 without one)."""

    def follow(self, command: Command, wait: Wait, edge: int, clock: Clock) -> Point:
        """On to what ``command`` waited for; ``edge``: that at which it then went on, of ``clock``."""

    def buffer(self, command: Command) -> str:
        """The buffer whose ports a command may have to wait for, '' for none."""

    def check(self, command: Command, holds: bool, what: str) -> None:
        """LawError, with ``what`` the command did, unless it holds."""

    def served_by(self, command: int) -> str:
        """The memory whose data a transfer waited for, or the cache before it."""

    def held_by_link(self, command: int) -> bool:
        """Return whether the link held the data of a transfer up, not the memory behind it."""
