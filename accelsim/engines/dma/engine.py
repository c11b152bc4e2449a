"""An engine that moves data: at most one request per edge, in order, without waiting for its earlier ones to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from accelsim.engines.base import EngineType, Lowering, Reason
from accelsim.engines.device import Asked, Device, Point, Process, Served, Walk
from accelsim.engines.timer import Memory, Mover, Ports, Row, Table
from accelsim.program.commands import Command, Transfer
from accelsim.spec.chip import Chip
from accelsim.spec.link import link_name
from accelsim.time import FS_PER_S, Clock, clock_of

if TYPE_CHECKING:
    from accelsim.engines.timer import Ports, Table


class Dma(EngineType):
    """Loads and stores through the ports of the off-chip memories."""

    type = "dma"
    rank = 4
    reasons = (
        Reason("transfer", "{resource} ({operand})", "moving {operand} ({resource})", "", ""),
        Reason("latency", "{resource} latency", "the latency of {resource}", "latency of memories and links", "#e7298a",
               "xxxx"),
        Reason("requests", "requests ({resource})", "issuing requests ({resource})", "requests", "#bdb76b", "++++"),
    )  # fmt: skip
    pieces = (
        ("transfer", "data move, as fast as the memory or the link before it allows"),
        ("latency", "a request is under way, no data yet"),
        ("requests", "a DMA engine issues one request per clock, a port accepts one per clock"),
    )
    sequential = False
    moves = True
    hue = "vermillion"

    def lower(self, lowering: Lowering) -> None:
        """New rows behind those of a state that grows in place."""
        from accelsim.engines.dma.lower import lower_append

        lower_append(lowering.layout, lowering.index, lowering.node)

    def clock(self, chip: Chip, engine: str) -> Clock:
        """The clock of the chip: requests are issued at its edges."""
        return clock_of(chip.clock)

    def start(self, device: Device, engine: str, queue: Sequence[Command]) -> None:
        """One process."""
        device.env.process(self._run(device, engine, queue))

    def timer(self, chip: Chip, engine: str, table: Table, delay_fs: int, ports: Ports) -> TransferTimer:
        """Return where nobody else asks its ports."""

        return TransferTimer(table, delay_fs, clock_of(chip.clock), ports)

    def _run(self, device: Device, engine: str, queue: Sequence[Command]) -> Process:
        clock, log, issued = device.clock, device.logs[engine], 0
        first = {  # memory -> whether its loads win against its stores
            name: memory.arbitration == "loads_first" for name, memory in device.chip.memories.items()
        }
        for command in queue:
            work = cast(Transfer, command.work)
            available, why = yield from device.available(command.waits)
            edge = max(issued + 1, clock.edge(available))
            yield device.sleep_until(clock.at(edge))
            rank = (int(work.write == first[work.memory]), engine)
            asked = Asked(work.nbytes, work.write, command.id)
            served: Served = yield device.ports[work.memory, work.write].request(rank, asked)
            log.wait(clock.at(issued), clock.at(edge - 1), why)
            log.wait(clock.at(edge - 1), served.accepted, "port")
            log.busy.append((served.accepted, served.end))
            issued = clock.edge(served.accepted)
            if served.by_link:
                device.by_link.add(command.id)
            device.begin_now(command, served.accepted)
            device.complete(command, served.accepted, served.data, served.end, served.data)

    def back(self, walk: Walk, command: Command, event: str) -> Point | None:
        """Go from the end of its data to the transfer before through the port, or to what let the request be issued."""
        if event == "done" and (point := self._data(walk, command)):
            return point
        return self._issue(walk, command)

    def _data(self, walk: Walk, command: Command) -> Point | None:
        """From the end of the data to their cause: the transfer before, if the port was busy, or the request."""
        (start, data, _), before = walk.span(command.id), walk.port_before(command.id)
        begin = walk.span(before)[2] if before >= 0 else start
        memory = walk.served_by(command.id)
        attached = walk.chip.memories[memory]
        link = link_name(attached.link) or memory
        walk.emit(max(begin, data), command.id, "transfer", link if walk.held_by_link(command.id) else memory)
        link_fs = int(attached.link.latency * FS_PER_S) if attached.link else 0
        walk.emit(begin + link_fs, command.id, "latency", memory)
        walk.emit(begin, command.id, "latency", link)
        walk.linked("port" if before >= 0 else "")
        return Point(before, "done") if before >= 0 else None

    def _issue(self, walk: Walk, command: Command) -> Point | None:
        """From the acceptance of a request to what let it be issued."""
        clock, start, before = walk.clock, walk.span(command.id)[0], walk.queue_before(command.id)
        issued = clock.edge(walk.span(before)[0]) if before >= 0 else 0
        wait, available = walk.latest(command)
        ready = clock.edge(available)
        asked = max(issued + 1, ready)
        walk.check(command, clock.at(asked) <= start, f"was accepted before edge {asked}")
        walk.emit(clock.at(asked), command.id, "requests", walk.served_by(command.id))
        if wait is not None and ready > issued + 1:
            return walk.follow(command, wait, asked, clock)
        if before < 0:
            return None
        walk.emit(walk.span(before)[0], command.id, "requests", command.engine)
        walk.linked("queue")
        return Point(before, "accepted")

    def written_from(self, chip: Chip, engine: str, data_fs: int) -> int:
        """Begin with the first byte that arrives."""
        return data_fs


ENGINE = Dma()


class TransferTimer(Mover):
    """One request per edge, in order."""

    def __init__(self, table: Table, delay_fs: int, clock: Clock, ports: Ports) -> None:
        super().__init__(table, delay_fs)
        self._clock, self._ports, self._issued, self._why = clock, ports, 0, ""

    def make(self, command: Command) -> tuple[Memory, Asked]:
        """The memory, and what it is asked."""
        work = cast(Transfer, command.work)
        return self._ports[work.memory, work.write], Asked(work.nbytes, work.write)

    def asks(self, number: int, row: Row) -> int:
        """At the first edge at which all is there, after the request before."""
        available, self._why = self.latest(number, row.tokens[0])
        return max(self._issued + 1, self._clock.edge(available))

    def take(self, number: int, row: Row) -> None:
        """Accepted when it asks, by a port that no other engine asks."""
        edge = self.asks(number, row)
        self.accept(number, row, edge, edge)

    def accept(self, number: int, row: Row, edge: int, accepted: int) -> None:
        """Data when the memory has them."""
        (memory, asked), at, table = row.made, self._clock.at, self.table
        accepted_fs = at(accepted)
        served = memory.serve(Asked(asked.nbytes, asked.write, number), accepted_fs)
        if edge > self._issued + 1:
            self.waited(at(self._issued), at(edge - 1), self._why)
        self.waited(at(edge - 1), accepted_fs, "port")
        self.worked(accepted_fs, served.end)
        self._issued = accepted
        if served.by_link:
            self.by_link.add(row.command.id)
        table.start[number], table.data[number], table.end[number] = accepted_fs, served.data, served.end
