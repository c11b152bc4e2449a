"""The machine of :mod:`accelsim.engines.simt.waves` event by event: every block on its own, nothing in closed form."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal, NamedTuple

from accelsim.engines.simt.waves import Grid

Kind = Literal["ready", "worked", "ended"]


class Ran(NamedTuple):
    """How a block ran: where, and the clocks at which it was placed, got the unit, and ended."""

    block: int
    multiprocessor: int
    placed: int
    unit: int
    ended: int


@dataclass
class Multiprocessor:
    """``here``: blocks that it has; ``queue``: those that want the unit; ``busy``: whether the unit serves one."""

    here: int = 0
    queue: deque[int] = field(default_factory=deque)
    busy: bool = False


class Chip:
    """Runs one grid. ``events``: (clock, block, what happens to it), earliest first."""

    def __init__(self, grid: Grid) -> None:
        grid.check()
        self.grid = grid
        self.waiting = deque(range(grid.blocks))
        self.all = [Multiprocessor() for _ in range(grid.multiprocessors)]
        self.events: list[tuple[int, int, Kind]] = []
        self.where: dict[int, int] = {}
        self.placed: dict[int, int] = {}
        self.unit: dict[int, int] = {}

    def run(self) -> Iterator[Ran]:
        """Blocks in the order in which they end."""
        self.dispatch(0)
        while self.events:
            clock = self.events[0][0]
            while self.events and self.events[0][0] == clock:
                _, block, kind = heappop(self.events)
                home = self.all[self.where[block]]
                if kind == "ready":
                    home.queue.append(block)
                elif kind == "worked":
                    home.busy = False
                    heappush(self.events, (clock + self.grid.times.epilogue, block, "ended"))
                else:
                    home.here -= 1
                    yield Ran(block, self.where[block], self.placed[block], self.unit[block], clock)
            self.serve(clock)
            self.dispatch(clock)

    def serve(self, clock: int) -> None:
        """Every free unit takes the block that has waited for it longest."""
        for home in self.all:
            if home.queue and not home.busy:
                home.busy, block = True, home.queue.popleft()
                self.unit[block] = clock
                heappush(self.events, (clock + self.grid.times.work, block, "worked"))

    def dispatch(self, clock: int) -> None:
        """Waiting blocks in order, each to the multiprocessor with the fewest blocks, the lowest of several."""
        while self.waiting:
            least = min(range(len(self.all)), key=lambda index: (self.all[index].here, index))
            if self.all[least].here == self.grid.residents:
                return
            block = self.waiting.popleft()
            self.all[least].here += 1
            self.where[block], self.placed[block] = least, clock
            heappush(self.events, (clock + self.grid.times.prologue, block, "ready"))


def clocks(grid: Grid) -> int:
    """Clocks until the last block has ended. Raises UsageError for numbers out of range."""
    return max(ran.ended for ran in Chip(grid).run())
