"""The critical path of a run: from the end of the last command back to time 0, always to what let it start.

The machine's rules say what each start waited for: the command before on the same engine, the transfer before on the
same port, one of ``Command.waits``. The walk takes, at each command, the cause that came last, and checks that the
rule gives exactly the time that was simulated. What happened meanwhile on other engines (a prefetch, say) is not on
the path. Only commands on the path are looked at closely, so the walk costs little beside the simulation.

Within a matrix unit, which loads the next tile while it streams one, a row that streams comes before a load: only the
part of a load is a shift on the path during which nothing streams, if it was the array that let the load begin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, cast

from accelsim.machine.matrix import timing_of
from accelsim.machine.memory_models import MODELS
from accelsim.machine.run import FoldRecord, LawError, Run, Segment, Slice
from accelsim.machine.sram import COMPUTE_UNITS
from accelsim.program.commands import Command, Folds, Phase, Transfer, Wait
from accelsim.spec.models import Attachment
from accelsim.time import FS_PER_S, Clock

Edges = tuple[int, int, int]


class _Point(NamedTuple):
    """Where the walk goes on: a command and one of its events, 'done', 'w', 'a' (``Phase``), 'accepted' of a transfer
    (by its port) or 'stream' (somewhere in the time of a MatMul on its array).
    """

    command: int
    event: str


def critical_path(run: Run) -> list[Segment]:
    """Segments in order of time that cover the run from 0 to its end without gap or overlap; worked out once for a run.

    Raises LawError where the times of a command do not follow from what it waited for.
    """
    return run.once("critical_path", lambda: _Walk(run).walk() if run.slices else [])


class _Walk:
    """The walk back: ``t`` is where it stands, all later time is in ``segments`` (latest first)."""

    def __init__(self, run: Run) -> None:
        chip = run.chip
        self.run, self.commands, self.slices = run, run.program.commands, run.slices
        self.clock = Clock(chip.clock)
        self.array_clock = Clock((chip.matrix.clock if chip.matrix else None) or chip.clock)
        self.vector_clock = Clock((chip.vector.clock if chip.vector else None) or chip.clock)
        self.delay_fs = self.clock.at(chip.token_delay)
        self.records = {record.command: record for record in run.folds}
        self.queue_before = _before(enumerate(command.engine for command in self.commands))
        self.port_before = _before(_port_order(run))
        self.scarce = {name for name, buffer in chip.buffers.items() if buffer.ports < COMPUTE_UNITS}
        self.segments: list[Segment] = []
        self.t = run.time_fs

    def walk(self) -> list[Segment]:
        """The whole path."""
        last = max(self.slices, key=lambda piece: (piece.end, -piece.command))
        point: _Point | None = _Point(last.command, "done")
        command = last.command
        while point is not None:
            command = point.command
            point = self._back(*point)
        self.emit(0, command, "hand_over", self.commands[command].engine)
        return self.segments[::-1]

    def _back(self, ident: int, event: str) -> _Point | None:
        command = self.commands[ident]
        kind = command.kind
        if kind == "MatMul":
            return self._matmul(command, event)
        if kind == "Vector":
            return self._vector(command)
        if kind == "Host":
            return self._host(command)
        return self._transfer(command, event)

    def emit(self, start: int, command: int, kind: str, resource: str, edges: Edges = (0, 0, 0)) -> None:
        """The time from ``start`` to where the walk stands goes to this; the walk then stands at ``start``."""
        start = max(0, min(start, self.t))
        if start < self.t:
            self.segments.append(Segment(start, self.t, command, kind, resource, edges))
        self.t = start

    def _linked(self, why: str) -> None:
        """Say of the latest segment why it could not begin earlier."""
        if self.segments:
            self.segments[-1] = self.segments[-1]._replace(why=why)

    def _follow(self, command: Command, wait: Wait, edge: int, clock: Clock) -> _Point:
        """On to what ``command`` waited for; ``edge``: that at which it then went on, of ``clock``."""
        released = self.when(wait.command, wait.phase)
        if clock.edge(released + self.delay_fs) != edge:
            raise LawError(
                f"{command.label} ({command.id}) went on at edge {edge}, its latest cause "
                f"({wait}) lets it at {clock.edge(released + self.delay_fs)}"
            )
        self._no_earlier_than(released)
        self._linked(wait.why)
        self.emit(released, command.id, "hand_over", command.engine)
        return _Point(wait.command, wait.phase)

    def _no_earlier_than(self, released: int) -> None:
        """What a clock edge ends occupies the clock before it, which may begin before its cause: see ``Context``."""
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
        """When a command has passed a phase, fs."""
        if phase == "done":
            return self.slices[ident].end
        record = self.records[ident]
        return self.array_clock.at(_streamed(record) if phase == "a" else _weights_free(record))

    # transfers

    def _transfer(self, command: Command, event: str) -> _Point | None:
        piece = self.slices[command.id]
        if event == "done" and (point := self._data(command, piece)):
            return point
        return self._issue(command, piece)

    def _data(self, command: Command, piece: Slice) -> _Point | None:
        """From the end of the data to their cause: the transfer before, if the port was busy, or the request."""
        before = self._port_was_busy(command, piece)
        begin = self.slices[before].end if before >= 0 else piece.start
        work = cast(Transfer, command.work)
        attached = self.run.chip.memories[work.memory]
        link = link_name(attached) or work.memory
        by_link = command.id in self.run.by_link
        self.emit(max(begin, piece.data), command.id, "transfer", link if by_link else work.memory)
        link_fs = int(attached.link.latency * FS_PER_S) if attached.link else 0
        self.emit(begin + link_fs, command.id, "latency", work.memory)
        self.emit(begin, command.id, "latency", link)
        self._linked("port" if before >= 0 else "")
        return _Point(before, "done") if before >= 0 else None

    def _port_was_busy(self, command: Command, piece: Slice) -> int:
        """The transfer before through the port, if its end and not the own acceptance decided about the data; or -1."""
        before = self.port_before.get(command.id, -1)
        if before < 0 or self.run.memory_model == "ideal":
            return -1
        end = self.slices[before].end
        if MODELS[self.run.memory_model].dram is not None:
            return before if piece.start < end < piece.end else -1
        memory = self.run.chip.memories[cast(Transfer, command.work).memory].memory
        return before if end == piece.data or (not memory.pipelined and piece.start < end) else -1

    def _issue(self, command: Command, piece: Slice) -> _Point | None:
        """From the acceptance of a request to what let it be issued."""
        before = self.queue_before.get(command.id, -1)
        issued = self.clock.edge(self.slices[before].start) if before >= 0 else 0
        wait, available = self.latest(command)
        ready = self.clock.edge(available)
        asked = max(issued + 1, ready)
        self._check(command, self.clock.at(asked) <= piece.start, f"was accepted before edge {asked}")
        self.emit(self.clock.at(asked), command.id, "requests", cast(Transfer, command.work).memory)
        if wait is not None and ready > issued + 1:
            return self._follow(command, wait, asked, self.clock)
        if before < 0:
            return None
        self.emit(self.slices[before].start, command.id, "requests", command.engine)
        self._linked("queue")
        return _Point(before, "accepted")

    # vector unit and host

    def _vector(self, command: Command) -> _Point | None:
        clock, piece = self.vector_clock, self.slices[command.id]
        before = self.queue_before.get(command.id, -1)
        free = clock.edge(self.slices[before].end) + 1 if before >= 0 else 1
        wait, available = self.latest(command)
        first = max(free, clock.edge(available))
        begin, buffer = clock.at(first - 1), self._buffer(command)
        on_time = piece.start == begin or (buffer and piece.start > begin)
        self._check(command, bool(on_time), f"starts at {piece.start} fs instead of {begin}")
        self.emit(piece.start, command.id, "vector", "vector")
        self.emit(begin, command.id, "buffer_port", buffer)
        if wait is not None and first > free:
            return self._follow(command, wait, first, clock)
        self._linked("queue" if before >= 0 else "start")
        return _Point(before, "done") if before >= 0 else None

    def _host(self, command: Command) -> _Point | None:
        piece = self.slices[command.id]
        before = self.queue_before.get(command.id, -1)
        free = self.slices[before].end if before >= 0 else 0
        wait, available = self.latest(command)
        self._check(command, piece.start == max(free, available), f"starts at {piece.start} fs")
        self.emit(piece.start, command.id, "host", "host")
        if wait is not None and available > free:
            self._linked(wait.why)
            self.emit(available - self.delay_fs, command.id, "hand_over", command.engine)
            return _Point(wait.command, wait.phase)
        self._linked("queue" if before >= 0 else "start")
        return _Point(before, "done") if before >= 0 else None

    # matrix units

    def _matmul(self, command: Command, event: str) -> _Point | None:
        record, at = self.records[command.id], self.array_clock.at
        if event == "w" and record.load and record.folds == 1:  # released before its first row
            self.emit(at(record.load_first - 1), command.id, "weight_shift", "matrix")
            return self._load(command, record)
        streamed = _streamed(record)
        self.emit(at(streamed), command.id, "fill_drain", "matrix")
        edges = _stream_edges(record, min(self.array_clock.edge(self.t), streamed))
        self.emit(at(record.stream_first - 1), command.id, "stream", "matrix", edges)
        return self._first_row(command, record)

    def _first_row(self, command: Command, record: FoldRecord) -> _Point | None:
        """From the first row of a command to what let it stream."""
        before = self._array_before(command)
        interval = self._interval(before) if before is not None else 1
        shifted = record.load_first + record.load if record.load else 0
        ready = record.ready
        first = max(interval, shifted, ready["w"], ready["a"], ready["acc"])
        self._check(
            command, record.stream_first == max(first, ready["port"]), f"streams at {record.stream_first}"
        )
        self.emit(self.array_clock.at(first - 1), command.id, "buffer_port", self._buffer(command))
        if first == interval:
            self._linked("queue" if before is not None else "start")
            return None if before is None else _Point(before.command, "stream")
        if first == shifted:
            return self._shift(command, record, before)
        why = next(why for why in ("w", "a", "acc") if ready[why] == first)
        wait, _ = self.latest(command, why)
        self._check(command, wait is not None, f"waited for {why}, which nothing gives")
        return self._follow(command, cast(Wait, wait), first, self.array_clock)

    def _shift(self, command: Command, record: FoldRecord, before: FoldRecord | None) -> _Point | None:
        """The stationary operand came last. If the array let its load begin, what streamed meanwhile counts first."""
        at = self.array_clock.at
        if before is not None and record.load_first == _last(before) + before.reload:
            self.emit(
                max(at(record.load_first - 1), at(_streamed(before))), command.id, "weight_shift", "matrix"
            )
            self._linked("queue")
            return _Point(before.command, "stream")
        self.emit(at(record.load_first - 1), command.id, "weight_shift", "matrix")
        return self._load(command, record)

    def _load(self, command: Command, record: FoldRecord) -> _Point | None:
        """From the first stationary row of a command to what let it be loaded."""
        before = self._array_before(command)
        earliest = _last(before) + before.reload if before is not None else 1
        self._check(
            command, record.load_first == max(earliest, record.ready["w"]), f"loads at {record.load_first}"
        )
        if record.load_first == earliest:
            self._linked("queue" if before is not None else "start")
            return None if before is None else _Point(before.command, "stream")
        wait, _ = self.latest(command, "w")
        self._check(command, wait is not None, "waited for a stationary tile that nothing gives")
        return self._follow(command, cast(Wait, wait), record.load_first, self.array_clock)

    def _array_before(self, command: Command) -> FoldRecord | None:
        before = self.queue_before.get(command.id)
        return None if before is None else self.records[before]

    def _interval(self, record: FoldRecord) -> int:
        """First edge at which the array can stream the next command."""
        assert self.run.chip.matrix is not None
        work = cast(Folds, self.commands[record.command].work)
        return _last(record) + timing_of(self.run.chip.matrix, work).interval

    def _buffer(self, command: Command) -> str:
        """The buffer whose ports a command may have to wait for."""
        regions = self.run.program.regions
        names = {regions[use.region].memory.rpartition(".")[2] for use in (*command.reads, *command.writes)}
        return next((name for name in self.run.chip.buffers if name in names & self.scarce), "")

    def _check(self, command: Command, holds: bool, what: str) -> None:
        if not holds:
            raise LawError(f"{command.label} ({command.id}) {what}, which no cause explains")


def link_name(attached: Attachment) -> str:
    """The link before a memory by its own name: 'pcie-gen3-x16', 'ethernet'; '' without one."""
    link = attached.link
    if link is None or link.pcie is None:
        return link.kind if link is not None else ""
    return f"{link.kind}-gen{link.pcie.generation}-x{link.pcie.lanes}"


def _before(order: Iterable[tuple[int, object]]) -> dict[int, int]:
    """Command -> the one before it in the same queue; ``order``: (command, queue)."""
    last: dict[object, int] = {}
    found: dict[int, int] = {}
    for ident, queue in order:
        if queue in last:
            found[ident] = last[queue]
        last[queue] = ident
    return found


def _port_order(run: Run) -> Iterable[tuple[int, object]]:
    """Transfers with their ports, those of a port in the order in which it accepted them."""
    followed = MODELS[run.memory_model].dram is not None
    ports: dict[object, list[tuple[int, int]]] = defaultdict(list)
    duplex = {
        name: attached.link is not None and attached.link.duplex == "full" and not followed
        for name, attached in run.chip.memories.items()
    }
    for piece in run.slices:
        work = run.program.commands[piece.command].work
        if isinstance(work, Transfer):
            ports[work.memory, work.write and duplex[work.memory]].append((piece.start, piece.command))
    return [(ident, port) for port, pieces in ports.items() for _, ident in sorted(pieces)]


def _last(record: FoldRecord) -> int:
    """Edge at which the last fold of a command begins to stream."""
    return record.stream_first + (record.folds - 1) * record.step


def _streamed(record: FoldRecord) -> int:
    """Edge of the last row of a command."""
    return _last(record) + record.rows - 1


def _weights_free(record: FoldRecord) -> int:
    """Edge at which the stationary operand has been read for the last time, as ``MatrixEngine`` publishes it."""
    if not record.load:
        return _streamed(record)
    if record.folds == 1:
        return record.load_first + record.load - 1
    return _last(record) - record.step + record.reload + record.load - 1


def _stream_edges(record: FoldRecord, until: int) -> Edges:
    """Of the edges from a command's first row to ``until``: with a row, with a shift and no row, with neither."""
    gap = record.step - record.rows
    shift = min(gap, max(0, min(record.load, record.reload + record.load - record.rows)))
    folds, rest = divmod(max(0, until - record.stream_first + 1), record.step) if record.folds > 1 else (0, 0)
    if record.folds == 1:
        return max(0, until - record.stream_first + 1), 0, 0
    streamed = folds * record.rows + min(rest, record.rows)
    fill_first = max(
        0, rest - record.rows
    )  # a gap begins with what the schedule asks for and ends with the shift
    idle = folds * (gap - shift) + min(fill_first, gap - shift)
    return streamed, folds * shift + max(0, fill_first - (gap - shift)), idle
