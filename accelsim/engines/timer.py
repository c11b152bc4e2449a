"""Times of commands without events, in program order: for programs in which nobody competes for a port.

Queues are in order. So where each port is asked by one engine alone, the times of a command follow from those of the
commands that it waits for and of the one before it on its engine: all of them come earlier in the program. A ``Timer``
works them out as the processes of its engine type do, which is a law of the tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from accelsim.engines.device import Asked, EngineLog, Served, Times
from accelsim.program.commands import Command
from accelsim.types import Ints


class Memory(Protocol):
    """What serves the requests of a port, see ``accelsim.machine.memory_models.MemoryModel``."""

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Times of a request that is accepted then."""


class Table:
    """Times of so many commands, fs: start, data and end, and when their operands have been read ('w', 'a')."""

    def __init__(self, commands: int) -> None:
        none = bytes(8 * commands)
        self.start, self.data, self.end, self.w, self.a = (array("q", none) for _ in range(5))

    def taken(self) -> Ints:
        """Start, data and end of all commands, int64 [commands, 3]; the table has them no longer."""
        found = np.stack([np.frombuffer(each, np.int64) for each in (self.start, self.data, self.end)], 1)
        self.start = self.data = self.end = array("q")
        return found

    @property
    def phases(self) -> dict[str, array[int]]:
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


class Timer(ABC):
    """Times of the commands of one engine, one after the other. ``records``: whether what it notes of a command takes a
    row of ``columns`` figures; these are in ``noted``."""

    columns = 0
    groups: tuple[str, ...] = ()
    """Kinds of tokens (``Wait.why``) that are looked at apart; (): all together."""

    def __init__(self, table: Table, delay_fs: int) -> None:
        self.table, self.log, self._delay_fs = table, EngineLog(), delay_fs
        self.noted: array[int] = array("q")
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


class Mover(Timer):
    """Times of an engine that asks ports, also of those that others ask, too (``machine.turns``). What is made of a
    command is the memory and what it is asked."""

    @abstractmethod
    def asks(self, number: int, row: Row) -> int:
        """Clock edge at which the next command asks its port."""

    @abstractmethod
    def accept(self, number: int, row: Row, edge: int, accepted: int) -> None:
        """The port accepts at edge ``accepted`` what was asked at ``edge``."""


Ports = Mapping[tuple[str, bool], Memory]
"""(memory, write) -> what serves it."""
