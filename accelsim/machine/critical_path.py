"""The critical path of a run: from the end of the last command back to time 0, always to what let it start.

The machine's rules say what each start waited for: the command before on the same engine, the transfer before on the
same port, one of ``Command.waits``. The walk takes, at each command, the cause that came last, and checks that the
rule gives exactly the time that was simulated. What happened meanwhile on other engines (a prefetch, say) is not on
the path. Only commands on the path are looked at closely, so the walk costs little beside the simulation.
How the path leads back through the commands of an engine is a matter of its type (``EngineType.back``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from accelsim.engines.device import Edges, Point
from accelsim.engines.registry import ENGINES
from accelsim.machine.run import PATH_KINDS, LawError, Run, Segment
from accelsim.machine.shifts import port_order
from accelsim.machine.sram import scarce
from accelsim.program.commands import Command, Phase, Transfer, Wait
from accelsim.program.roles import unit_of
from accelsim.spec.levels import cache_of
from accelsim.time import Clock


def critical_path(run: Run) -> Sequence[Segment]:
    """Segments in order of time that cover the run from 0 to its end without gap or overlap; worked out once for a run.

    Raises LawError where the times of a command do not follow from what it waited for.
    """
    return run.once("critical_path", lambda: _path(run))


def _path(run: Run) -> Sequence[Segment]:
    if not run.slices:
        return []
    if run.replay is not None:
        from accelsim.machine.replay import whole_path

        found = whole_path(run.replay, critical_path(run.replay.short))
        if found is not None:
            return found
    return _Walk(run, {record.command: record for record in run.folds}, *_befores(run)).walk()


def _befores(run: Run) -> tuple[dict[int, int], dict[int, int]]:
    """Command -> the one before it on its engine, and through its port."""
    queues = ((command.id, command.engine) for command in run.program.commands)
    return _before(queues), _before(port_order(run))


class _Walk:
    """The walk back: ``t`` is where it stands, all later time is in ``segments`` (latest first)."""

    def __init__(
        self, run: Run, records: Mapping[int, Any], queues: Mapping[int, int], ports: Mapping[int, int]
    ) -> None:
        self.chip = chip = run.chip
        self.program = run.program
        self.run, self.commands, self.slices = run, run.program.commands, run.slices
        self.clock = Clock(chip.clock)
        self.delay_fs = self.clock.at(chip.token_delay)
        self._records, self._queue_before, self._port_before = records, queues, ports
        self._scarce = scarce(chip, {region.memory for region in run.program.regions})
        self.segments: list[Segment] = []
        self.t = run.time_fs

    def walk(self) -> list[Segment]:
        """The whole path."""
        last = max(self.slices, key=lambda piece: (piece.end, -piece.command))
        point: Point | None = Point(last.command, "done")
        command = last.command
        while point is not None:
            command = point.command
            point = self._back(*point)
        self.emit(0, command, "hand_over", self.commands[command].engine)
        return self.segments[::-1]

    def _back(self, ident: int, event: str) -> Point | None:
        command = self.commands[ident]
        return ENGINES[self.program.engines[command.engine]].back(self, command, event)

    def span(self, command: int) -> tuple[int, int, int]:
        """Start, first data and end of a command, fs."""
        piece = self.slices[command]
        return piece.start, piece.data, piece.end

    def record(self, command: int) -> Any:
        """Return what the engine noted of a command."""
        return self._records[command]

    def queue_before(self, command: int) -> int:
        """The command before it on the same engine, -1 for none."""
        return self._queue_before.get(command, -1)

    def served_by(self, command: int) -> str:
        """The memory whose data a transfer waited for, or the cache before it."""
        name = cast(Transfer, self.commands[command].work).memory
        cache = self.run.caches.get(cache_of(self.chip, name))
        return cache_of(self.chip, name) if cache is not None and command in cache.alone else name

    def held_by_link(self, command: int) -> bool:
        """Return whether the link held the data of a transfer up."""
        return command in self.run.by_link

    def emit(self, start: int, command: int, kind: str, resource: str, edges: Edges = (0, 0, 0)) -> None:
        """The time from ``start`` to where the walk stands goes to this; the walk then stands at ``start``."""
        if kind not in PATH_KINDS:
            raise LawError(
                f"no kind {kind!r} of pieces of the critical path; there are {', '.join(PATH_KINDS)}"
            )
        start = max(0, min(start, self.t))
        if start < self.t:
            self.segments.append(Segment(start, self.t, command, kind, resource, edges))
        self.t = start

    def linked(self, why: str) -> None:
        """Say of the latest segment why it could not begin earlier."""
        if self.segments:
            self.segments[-1] = self.segments[-1]._replace(why=why)

    def follow(self, command: Command, wait: Wait, edge: int, clock: Clock) -> Point:
        """On to what ``command`` waited for; ``edge``: that at which it then went on, of ``clock``."""
        released = self.when(wait.command, wait.phase)
        if clock.edge(released + self.delay_fs) != edge:
            raise LawError(
                f"{command.label} ({command.id}) went on at edge {edge}, its latest cause "
                f"({wait}) lets it at {clock.edge(released + self.delay_fs)}"
            )
        self._no_earlier_than(released)
        self.linked(wait.why)
        self.emit(released, command.id, "hand_over", command.engine)
        return Point(wait.command, wait.phase)

    def _no_earlier_than(self, released: int) -> None:
        """Return what a clock edge ends occupies the clock before it, which may begin before its cause: see
        ``Context``."""
        while self.segments and self.segments[-1].end <= released:
            self.segments.pop()
        if self.segments and self.segments[-1].start < released:
            self.segments[-1] = self.segments[-1]._replace(start=released)
        self.t = max(self.t, released)

    def latest(self, command: Command, why: str = "") -> tuple[Wait | None, int]:
        """The wait (of that kind) that was released last, and when it could be acquired (0 without one)."""
        found, latest = None, 0
        for wait in command.waits:
            if not why or wait.why == why:
                released = self.when(wait.command, wait.phase) + self.delay_fs
                if released > latest:
                    found, latest = wait, released
        return found, latest

    def when(self, ident: int, phase: Phase) -> int:
        """Return when a command has passed a phase, fs."""
        if phase == "done":
            return self.slices[ident].end
        engine = self.commands[ident].engine
        return ENGINES[self.program.engines[engine]].passed(self.chip, engine, self._records[ident], phase)

    def port_before(self, command: int) -> int:
        """The transfer before through the port, if its end and not the own acceptance decided about the data; or -1."""
        before, piece = self._port_before.get(command, -1), self.slices[command]
        if before < 0 or self.run.memory_model == "ideal":
            return -1
        end = self.slices[before].end
        name = cast(Transfer, self.commands[command].work).memory
        if name in self.run.dram:
            return before if piece.start < end < piece.end else -1
        memory = self.chip.memories[cache_of(self.chip, name) or name].memory
        return before if end == piece.data or (not memory.pipelined and piece.start < end) else -1

    def buffer(self, command: Command) -> str:
        """The buffer whose ports a command may have to wait for."""
        if not self._scarce:
            return ""
        regions = self.run.program.regions
        names = {regions[use.region].memory for use in (*command.reads, *command.writes)}
        waited_for = {unit_of(name) for name in scarce(self.chip, names)}
        return next((name for name in self.chip.buffers if name in waited_for), "")

    def check(self, command: Command, holds: bool, what: str) -> None:
        if not holds:
            raise LawError(f"{command.label} ({command.id}) {what}, which no cause explains")


def _before(order: Iterable[tuple[int, object]]) -> dict[int, int]:
    """Command -> the one before it in the same queue; ``order``: (command, queue)."""
    last: dict[object, int] = {}
    found: dict[int, int] = {}
    for ident, queue in order:
        if queue in last:
            found[ident] = last[queue]
        last[queue] = ident
    return found
