"""View of an engine type on a simulation (``Device``), and the records that its processes leave (``History``)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

import simpy

from accelsim.program.commands import Command, Phase, Wait
from accelsim.program.work import Meet, Message
from accelsim.spec.chip import Chip
from accelsim.time import Clock

R = TypeVar("R")
Yields = Generator[simpy.Event, Any, R]
"""A part of a process: it yields events, is sent their values, and returns a result."""
Process = Yields[None]

LATE, LAST = 2, 3
"""SimPy priorities below NORMAL: runs when every other event of the instant has run, also those that are late."""


def late(env: simpy.Environment, t_fs: int, decide: Callable[[simpy.Event], None], priority: int = LATE) -> None:
    """Call ``decide`` at ``t_fs``, after every ordinary event of that instant."""
    event = simpy.Event(env)
    event._ok, event._value, event.callbacks = True, None, [decide]
    env.schedule(event, priority=priority, delay=t_fs - env.now)  # type: ignore[arg-type]


def fire(event: simpy.Event, value: object) -> None:
    """Let an event happen within this call, which a late decision makes: no ordinary event is due before it."""
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    event._ok, event._value = True, value
    for callback in callbacks:
        callback(event)


class Asked(NamedTuple):
    """A request to the port of a memory: bytes, direction, and the command that asks, whose addresses some memory
    models look up."""

    nbytes: int
    write: bool = False
    command: int = -1


class Served(NamedTuple):
    """Times of one request, fs: acceptance, the edge before the first data beat, the last data beat.

    ``by_link``: the link before the memory, not the memory itself, set the pace of the data. ``by_cache``: a cache
    before the memory did, alone. ``after``: the command whose data the port had to move first and when they ended, None
    where the port was free.
    """

    accepted: int
    data: int
    end: int
    by_link: bool = False
    by_cache: bool = False
    after: tuple[int, int] | None = None


class Delivery(NamedTuple):
    """A message between two devices, from the side of one: ``begun`` fires when both sides are ready and the first byte
    leaves, ``done`` when the last byte has left (its value: when it arrives, fs)."""

    begun: simpy.Event
    done: simpy.Event


class MemoryPort(Protocol):
    """A shared port of a memory."""

    def request(self, rank: tuple[int, str], asked: Asked, at_fs: int = 0) -> simpy.Event:
        """Ask for a transfer, at the edge ``at_fs`` or now; the event fires at acceptance with ``Served``. Lower rank
        goes first."""


Mix = tuple[tuple[str, int], ...]
"""Keys of reasons, and how many parts of the time of a segment go to each."""
Piece = tuple[int, str, str, Mix]
"""Start (fs), kind, resource and mix of a segment of the critical path; see ``accelsim.machine.run.Segment``."""


@dataclass(frozen=True, slots=True)
class Activity:
    """An activity of a command: its kind of segment (``EngineType.pieces``), and the resource that it names."""

    kind: str
    resource: str

    def pieces(self, begin_fs: int, end_fs: int, event: str) -> Iterator[Piece]:
        """Yield the segments from ``end_fs`` back to ``begin_fs``, on the way to an event of the command."""
        yield begin_fs, self.kind, self.resource, ()


Cause = tuple[int, str, str]
"""A command, its event, and why that had to come first (a key of ``machine.run.PATH_LINKS``); a ``Wait`` is one."""
QUEUE, PORT = "queue", "port"
"""Reasons of a cause that lets the next one go on at once; a token passes on after a delay."""
START: Cause = (-1, "", "start")
"""Cause of a command that nothing precedes."""


class History(NamedTuple):
    """Record of a command until its end: ``cause`` released it at the first of the times ``begins`` (fs); then it did
    the ``activities``, each from its time until that of the next.

    ``early``: an event before the end that came about in another way, and its history. ``w`` and ``a``: when a product
    had read its stationary and its streamed operand, fs.
    """

    cause: Cause
    activities: tuple[Activity, ...]
    begins: tuple[int, ...]
    early: tuple[str, History] | None = None
    w: int = 0
    a: int = 0

    def until(self, event: str) -> History:
        """Return how the command came to an event."""
        return self.early[1] if self.early is not None and self.early[0] == event else self

    def read(self, role: str, end_fs: int) -> int:
        """Return when an operand had been read, fs, of a command that ends at ``end_fs``."""
        return {"w": self.w, "a": self.a}.get(role) or end_fs

    def moved(self, number: Callable[[int], int], fs: int) -> History:
        """Return the history of a command that did the same ``fs`` later; ``number`` gives the number of its causes."""
        before, event, why = self.cause
        early = self.early and (self.early[0], self.early[1].moved(number, fs))
        return History(
            (number(before) if before >= 0 else before, event, why),
            self.activities,
            tuple(begin + fs for begin in self.begins),
            early,
            self.w and self.w + fs,
            self.a and self.a + fs,
        )


@cache
def activities(kinds: tuple[str, ...], resource: str) -> tuple[Activity, ...]:
    """Return activities of one resource, the same objects for all commands."""
    return tuple(Activity(kind, resource) for kind in kinds)


BUSY, ACTIVE = "busy", "active"
"""Reasons in a log that are none to wait: an engine is busy; of an array only, rows stream."""


@dataclass
class EngineLog:
    """Log of one engine's time: ``entries`` of command, reason (``BUSY`` or what was missing) and fs.

    ``listed``: reasons in the order in which they are listed; others follow as they come.
    """

    entries: list[tuple[int, str, int]] = field(default_factory=list)
    listed: tuple[str, ...] = ()
    _until: int = 0

    def spend(self, command: int, why: str, fs: int) -> None:
        """Add time of a command, if it is any."""
        if fs > 0:
            self.entries.append((command, why, fs))

    def add(self, command: int, times: tuple[int, int, int, int], why: str, late: str = "") -> None:
        """Note the ``times`` of a command, fs: when the engine was free for it, when it was ready, its begin, its end.

        It waited for ``why`` until it was ready, and then for ``late``; time in which the engine still worked for the
        command before counts as work for that one.
        """
        free, ready, begin, end = times
        until, entries = self._until, self.entries
        if ready > free and ready > until:
            entries.append((command, why, ready - (free if free > until else until)))
        if begin > ready and begin > until:
            entries.append((command, late, begin - (ready if ready > until else until)))
        if end > until:
            if end > begin:
                entries.append((command, BUSY, end - (begin if begin > until else until)))
            self._until = end


class Times(NamedTuple):
    """Times of one engine, fs: ``busy``, ``stalled`` by reason, and ``by_step`` (for engines that log steps): step ->
    reason -> fs, 'active' for work."""

    busy: int
    stalled: dict[str, int]
    by_step: dict[int, dict[str, int]]


class Device(Protocol):
    """The device that its engines share: clock, events, memories and records.

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

    def shared(self, what: str, make: Callable[[], R]) -> R:
        """Return what several queues of the device share by a name, made by the first of them that asks."""

    def released(self, waits: Sequence[Wait], why: str = "") -> tuple[int, Wait | None] | None:
        """Return the release time of all ``waits`` (of that kind) and the one released last; None if not known yet."""

    def available(self, waits: Sequence[Wait], why: str = "") -> Yields[tuple[int, Wait | None]]:
        """Wait until ``released`` is known, and return it."""

    def publish(self, command: int, phase: Phase, t_fs: int) -> None:
        """Make known that the command passes the phase at ``t_fs`` (now or later)."""

    def exchange(self, message: Message, send: bool) -> Delivery:
        """Offer, from now on, to send or receive a message."""

    def meet(self, barrier: Meet) -> simpy.Event:
        """Come to a barrier now; the event fires when all have come."""

    def narrow_buffer(self, command: Command) -> str:
        """Return the buffer whose ports can run out and that the command must hold, '' for none."""

    def hold_ports(self, command: Command, engine: str, duration_fs: int) -> Yields[int]:
        """Hold the ports that it needs for so long from now on; the time (fs) from which all are held, 0 for none."""

    def holds_ports(self, command: Command) -> bool:
        """Return whether it needs ports of buffers that can run out."""

    def sleep_until(self, t_fs: int) -> simpy.Event:
        """Return an event at that time, or now if it has passed."""

    def begin(self, command: Command, t_fs: int) -> None:
        """Let the command start to overwrite its destinations at ``t_fs``."""

    def check_reads(self, command: Command, role: str, from_fs: int, to_fs: int) -> None:
        """Check at ``to_fs`` that the operand which the command read in this role was valid since ``from_fs``."""

    def complete(
        self, command: Command, times: tuple[int, int, int], history: History, reads_from_fs: int = -1
    ) -> None:
        """Record a command whose times (start, data, end; fs) are certain, and how it came to its end; publish its
        completion, commit its effect when it completes.

        ``reads_from_fs``: since when everything that it reads must have been valid (checked at the end); negative when
        the reads are checked on their own.
        """
