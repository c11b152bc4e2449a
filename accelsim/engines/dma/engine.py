"""An engine that moves data: at most one request per edge, in order, without waiting for its earlier ones to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from accelsim.engines.base import EngineType, Lowering, Reason
from accelsim.engines.device import Asked, Device, Point, Process, Served, Walk
from accelsim.program.commands import Command, Transfer
from accelsim.spec.chip import Chip
from accelsim.spec.link import link_name
from accelsim.time import FS_PER_S, Clock, clock_of


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
