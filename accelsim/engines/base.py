"""What an engine type is to the rest: one object that the registry finds, asked by compiler, machine and reports.

An engine type says which nodes it does and writes their commands, how its queues run as processes, how long its
engines were busy and what they waited for, and how the critical path leads back through its commands. What it needs of
a simulation is a ``Device``, what it needs of the walk along the critical path a ``Walk``; it knows nothing else of the
machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import simpy

from accelsim.program.commands import Command, Meet, Message, Phase, Program, Wait
from accelsim.program.mapping import Mapping as MappingOfProduct
from accelsim.program.roles import Unit
from accelsim.program.writing.layout import Layout
from accelsim.spec.models import Chip
from accelsim.time import Clock
from accelsim.workload.graph import Graph, Node
from accelsim.workload.ops.base import Gemm, Op

Process = Generator[simpy.Event, Any, None]
Edges = tuple[int, int, int]


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
        """What engines note of their commands beyond start, data and end."""

    @property
    def by_link(self) -> set[int]:
        """Transfers whose data the link held up, not the memory behind it."""

    def available(self, waits: Sequence[Wait], why: str = "") -> Generator[simpy.Event, Any, tuple[int, str]]:
        """Wait until the release times of all ``waits`` (of that kind) are known: (fs, what was missing last)."""

    def publish(self, command: int, phase: Phase, t_fs: int) -> None:
        """The command passes the phase at ``t_fs`` (now or later)."""

    def exchange(self, message: Message, send: bool) -> Delivery:
        """Be ready, from now on, to send or receive a message."""

    def meet(self, barrier: Meet) -> simpy.Event:
        """Come to a barrier now; the event fires when all have come."""

    def needs_ports(self, command: Command) -> bool:
        """Whether the command must hold ports of buffers that can run out."""

    def hold_ports(self, command: Command, engine: str, duration_fs: int) -> Generator[simpy.Event, Any, int]:
        """Hold the ports that it needs for so long from now on; the time (fs) from which all are held, 0 for none."""

    def sleep_until(self, t_fs: int) -> simpy.Event:
        """An event at that time, or now if it has passed."""

    def begin(self, command: Command, t_fs: int) -> None:
        """At ``t_fs`` the command starts to overwrite its destinations."""

    def begin_now(self, command: Command, t_fs: int) -> None:
        """The same without an event of its own: ``t_fs`` is now, or nobody else can look before it."""

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
        """Where the walk stands, fs."""

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
        """From the release of a token until it may be acquired."""

    def span(self, command: int) -> tuple[int, int, int]:
        """Start, first data and end of a command, fs."""

    def record(self, command: int) -> Any:
        """What the engine noted of a command."""

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

    def held_by_link(self, command: int) -> bool:
        """Whether the link held the data of a transfer up, not the memory behind it."""


class Offer(NamedTuple):
    """A node that somebody must do: ``op`` is its operator, ``multiplies`` whether the formats of the engine take its
    operands as they are."""

    graph: Graph
    node: Node
    op: Op
    chip: Chip
    unit: Unit
    multiplies: bool


@dataclass(frozen=True)
class Lowering:
    """A step while its commands are written, for one core: ``index`` of the step, its ``node``, the ``unit`` that does
    it, ``dtype`` of the whole network, mapping fields that the user ``pinned``, and a ``memo`` of searches that all
    steps share."""

    layout: Layout
    index: int
    node: Node
    unit: Unit
    dtype: str
    pinned: Mapping[str, Any]
    memo: dict[Hashable, list[Any]]


class Mapped(NamedTuple):
    """How a product was mapped: its form, the mapping, the path that binds it by its closed form, candidates scored."""

    gemm: Gemm
    mapping: MappingOfProduct
    binds: str
    scored: int


class Times(NamedTuple):
    """How one engine spent its time, fs: ``busy``, ``stalled`` by reason, and ``by_step`` (for engines that tell):
    step -> reason -> fs, 'active' for work."""

    busy: int
    stalled: dict[str, int]
    by_step: dict[int, dict[str, int]]


class EngineType(ABC):
    """One type of engine. Subclasses are found by the registry, see ``accelsim.engines.registry``."""

    type: ClassVar[str]
    """Its name in specs and programs."""
    sequential: ClassVar[bool] = True
    """Whether a command of its queue has completed before the next begins to touch memory."""
    moves: ClassVar[bool] = False
    """Whether its commands are transfers, several of which may be under way."""

    drains: ClassVar[bool] = False
    """Whether results still leave when the next command has begun to occupy it."""
    hue: ClassVar[str] = "grey"
    """Its colour in plots, a name of ``accelsim.report.style.HUES``."""

    def accepts(self, offer: Offer) -> str | None:
        """Whether an engine of this type does a node: '' yes; else why not, in plain words; None: it is not the kind
        of work that it does at all."""
        return None

    def lower(self, lowering: Lowering) -> Mapped | None:
        """Write the commands of a step. Raises Infeasible where something does not fit, TooLarge beyond the limits."""
        raise NotImplementedError(f"{self.type} does no nodes")

    @abstractmethod
    def clock(self, chip: Chip) -> Clock | None:
        """Clock of its edges; None for engines that start at any time."""

    @abstractmethod
    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """Start the processes of an engine that runs ``queue`` in order."""

    @abstractmethod
    def back(self, walk: Walk, command: Command, event: str) -> Point | None:
        """From an event of a command back to what let it happen; None at the start of the run."""

    def passed(self, chip: Chip, record: Any, phase: Phase) -> int:
        """When a command passed a phase other than 'done', fs. Raises KeyError for engines without such phases."""
        raise KeyError(phase)

    def times(
        self,
        program: Program,
        engine: str,
        log: EngineLog,
        records: Sequence[Any],
        summed: Callable[[EngineLog], Times],
    ) -> Times:
        """How an engine spent its time: from its ``log`` (``summed``), or from the ``records`` of the run."""
        return summed(log)

    def written_from(self, chip: Chip, data_fs: int) -> int:
        """When the first byte of a result is written, from the recorded start of the data of a command, fs."""
        clock = self.clock(chip)
        return data_fs if clock is None else clock.at(clock.edge(data_fs) + 1)

    def read_until(self, chip: Chip, record: Any, role: str, end_fs: int) -> int:
        """When an operand is read for the last time, fs."""
        return end_fs
