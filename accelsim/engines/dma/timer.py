"""When transfers are accepted and served, without events."""

from __future__ import annotations

from typing import cast

from accelsim.engines.device import Asked
from accelsim.engines.timer import Memory, Ports, Row, Table, Timer
from accelsim.program.commands import Command, Transfer
from accelsim.time import Clock


class TransferTimer(Timer):
    """One request per edge, in order, at ports that nobody else asks."""

    def __init__(self, table: Table, delay_fs: int, clock: Clock, ports: Ports) -> None:
        super().__init__(table, delay_fs)
        self._clock, self._ports, self._issued = clock, ports, 0

    def make(self, command: Command) -> tuple[Memory, Asked]:
        """The memory, and what it is asked."""
        work = cast(Transfer, command.work)
        return self._ports[work.memory, work.write], Asked(work.nbytes, work.write)

    def take(self, number: int, row: Row) -> None:
        """Accepted at its edge; data when the memory has them."""
        (memory, asked), clock, table = row.made, self._clock, self.table
        available, why = self.latest(number, row.tokens[0])
        edge = max(self._issued + 1, clock.edge(available))
        accepted = clock.at(edge)
        served = memory.serve(asked, accepted)
        if edge > self._issued + 1:
            self.waited(clock.at(self._issued), clock.at(edge - 1), why)
        self.waited(clock.at(edge - 1), accepted, "port")
        self.worked(accepted, served.end)
        self._issued = edge
        if served.by_link:
            self.by_link.add(row.command.id)
        table.start[number], table.data[number], table.end[number] = accepted, served.data, served.end
