"""Times of commands without events, in program order: for programs in which nobody competes for a port.

Queues are in order. So where each port is asked by one engine alone, the times of a command follow from those of the
commands that it waits for and of the one before it on its engine: all of them come earlier in the program. A ``Timer``
works them out as the processes of its engine type do, which is a law of the tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from accelsim.engines.device import Asked, EngineLog, Served, Times
from accelsim.program.commands import Command
from accelsim.time import Clock
from accelsim.types import Ints


class Memory(Protocol):
    """What serves the requests of a port, see ``accelsim.machine.memory_models.MemoryModel``."""

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Times of a request that is accepted then."""


class Table:
    """Times of so many commands, fs: start, data and end, and when their operands have been read ('w', 'a'); in
    arrays of Python, or of NumPy (``joined``)."""

    start: Any
    data: Any
    end: Any
    w: Any
    a: Any

    def __init__(self, commands: int, joined: bool = False) -> None:
        none, self._joined = bytes(0 if joined else 8 * commands), np.zeros((3, commands * joined), np.int64)
        self.start, self.data, self.end, self.w, self.a = (array("q", none) for _ in range(5))
        if joined:
            self.start, self.data, self.end = self._joined
            self.w, self.a = np.zeros((2, commands), np.int64)

    def taken(self) -> Ints:
        """Start, data and end of all commands, int64 [commands, 3]; the table has them no longer."""
        if self._joined.size:
            return self._joined.T
        found = np.stack([np.frombuffer(each, np.int64) for each in (self.start, self.data, self.end)], 1)
        self.start = self.data = self.end = array("q")
        return found

    @property
    def phases(self) -> dict[str, Any]:
        """``Phase`` -> when the commands pass it."""
        return {"done": self.end, "w": self.w, "a": self.a}


class Token(NamedTuple):
    """Something to wait for: when commands pass its phase, and which one is meant: ``number``, or where ``moves`` the
    one so many commands earlier."""

    passed: array[int]
    number: int
    moves: bool
    why: str


class Row(NamedTuple):
    """A command as a timer sees it: what it ``made`` of its work, and what it waits for, in the groups of the timer."""

    command: Command
    made: Any
    tokens: tuple[tuple[Token, ...], ...]


KINDS = ("ends", "free", "streams", "asks")
"""Kinds of engines: one command at a time in clocks, or at any time; an array; one that asks ports."""


class Timer(ABC):
    """Times of the commands of one engine, one after the other, at edges of its ``clock``. What it notes of a command
    takes a row of ``columns`` figures; these are in ``noted``."""

    kind: ClassVar[str]
    """One of ``KINDS``."""
    columns = 0
    groups: tuple[str, ...] = ()
    """Kinds of tokens (``Wait.why``) that are looked at apart; (): all together."""

    def __init__(self, table: Table, delay_fs: int, clock: Clock) -> None:
        self.table, self.log, self._delay_fs, self.clock = table, EngineLog(), delay_fs, clock
        self.noted: Any = array("q")
        self.by_link = set[int]()  # written transfers whose data the link held up

    @abstractmethod
    def make(self, command: Command) -> Any:
        """Return what the times of a command depend on beside tokens; commands of equal work may share it."""

    @abstractmethod
    def take(self, number: int, row: Row) -> None:
        """The next command, with this number in the table."""

    def row(self, command: Command, tokens: Sequence[Token]) -> Row:
        """A command with what it waits for."""
        groups = [tuple(each for each in tokens if each.why == why) for why in self.groups] or [tuple(tokens)]
        return Row(command, self.make(command), tuple(groups))

    def latest(self, number: int, tokens: Sequence[Token]) -> tuple[int, str]:
        """See ``Device.available``."""
        latest, missing = 0, ""
        for passed, at, moves, why in tokens:
            released = passed[number - at if moves else at] + self._delay_fs
            if released > latest:
                latest, missing = released, why
        return latest, missing

    def worked(self, start_fs: int, end_fs: int) -> None:
        """It was busy; what overlaps is one interval (what only meets may be apart a fraction of a fs later)."""
        busy = self.log.busy
        if busy and start_fs < busy[-1][1]:
            busy[-1] = (busy[-1][0], max(busy[-1][1], end_fs))
        else:
            busy.append((start_fs, end_fs))

    def waited(self, start_fs: int, end_fs: int, why: str) -> None:
        """Its next command waited; where it was busy all the while, that does not count."""
        if not self.log.busy or end_fs >= self.log.busy[-1][1]:
            self.log.wait(start_fs, end_fs, why)

    def record(self, number: int, command: Command, figures: Sequence[int]) -> Any:
        """Return what the engine would have noted of a command with this number, from its row of figures."""
        raise KeyError(type(self).__name__)

    def spent(self, noted: Ints, commands: Sequence[Command], later_fs: int) -> Times:
        """Return how the engine spent its time on these commands, again and again, by their rows of figures, if all is
        ``later_fs`` later, a whole number of its clocks."""
        raise KeyError(type(self).__name__)


Ports = Mapping[tuple[str, bool], Memory]
"""(memory, write) -> what serves it."""
