"""The machine of :mod:`accelsim.engines.simt.waves` event by event: every block on its own, nothing in closed form."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from accelsim.engines.simt.waves import Grid
from accelsim.errors import Problem, UsageError

Clock = Fraction


def check(grid: Grid) -> None:
    """Raise UsageError with everything that is not a whole number from 1 (of a prologue or epilogue: from 0), and for a
    softness that is no share."""
    fields = {**grid._asdict(), **grid.times._asdict()}
    least = {"blocks": 1, "multiprocessors": 1, "residents": 1, "prologue": 0, "work": 1, "epilogue": 0}
    wrong = [
        Problem(f"{name} is {value!r}", "", f"a whole number from {low}")
        for name, low in least.items()
        if not isinstance(value := fields[name], int) or value < low
    ]
    if not 0 <= grid.softness <= 1:
        wrong.append(Problem(f"softness is {grid.softness!r}", "", "a share, 0 to 1"))
    if wrong:
        raise UsageError(wrong)


class Ran(NamedTuple):
    """How a block ran: where, and the clocks at which it was placed, got its part of the unit, and ended."""

    block: int
    multiprocessor: int
    placed: Clock
    unit: Clock
    ended: Clock


@dataclass
class Multiprocessor:
    """``coming``: blocks in their prologue and ``leaving``: in their epilogue, with the clock at which it ends;
    ``sharing``: blocks that share the unit, with the clocks of it that each still needs."""

    coming: dict[int, Clock] = field(default_factory=dict)
    sharing: dict[int, Clock] = field(default_factory=dict)
    leaving: dict[int, Clock] = field(default_factory=dict)

    @property
    def here(self) -> int:
        """Blocks that it has."""
        return len(self.coming) + len(self.sharing) + len(self.leaving)

    def next(self, now: Clock) -> Clock | None:
        """When something happens here, None: never."""
        times = [*self.coming.values(), *self.leaving.values()]
        if self.sharing:
            times.append(now + min(self.sharing.values()) * len(self.sharing))
        return min(times, default=None)

    def work(self, clocks: Clock) -> None:
        """The unit serves everybody alike for so long."""
        for block in self.sharing:
            self.sharing[block] -= clocks / len(self.sharing)


class Chip:
    """Runs one grid."""

    def __init__(self, grid: Grid) -> None:
        check(grid)
        self.grid, self.now = grid, Fraction(0)
        self.waiting = deque(range(grid.blocks))
        self.all = [Multiprocessor() for _ in range(grid.multiprocessors)]
        self.placed: dict[int, Clock] = {}
        self.unit: dict[int, Clock] = {}

    def run(self) -> Iterator[Ran]:
        """Blocks in the order in which they end."""
        self.dispatch()
        while times := [time for each in self.all if (time := each.next(self.now)) is not None]:
            then = min(times)
            for each in self.all:
                each.work(then - self.now)
            self.now = then
            for index, each in enumerate(self.all):
                yield from self.advance(index, each)
            self.dispatch()

    def advance(self, index: int, home: Multiprocessor) -> Iterator[Ran]:
        """Return what happens on a multiprocessor now: blocks leave, have had their work, come to the unit."""
        for block in [block for block, clock in home.leaving.items() if clock == self.now]:
            del home.leaving[block]
            yield Ran(block, index, self.placed[block], self.unit[block], self.now)
        for block in [block for block, left in home.sharing.items() if not left]:
            del home.sharing[block]
            if self.grid.times.epilogue:
                home.leaving[block] = self.now + self.grid.times.epilogue
            else:
                yield Ran(block, index, self.placed[block], self.unit[block], self.now)
        for block in [block for block, clock in home.coming.items() if clock == self.now]:
            del home.coming[block]
            self.begin(home, block)

    def begin(self, home: Multiprocessor, block: int) -> None:
        """A block wants the unit."""
        grid, late = self.grid, block >= self.grid.blocks - self.grid.left_over
        home.sharing[block] = Fraction(grid.last_work if late else grid.times.work)
        self.unit[block] = self.now

    def dispatch(self) -> None:
        """Waiting blocks in order, each to the multiprocessor with the fewest blocks, the lowest of several."""
        while self.waiting:
            least = min(range(len(self.all)), key=lambda index: (self.all[index].here, index))
            home = self.all[least]
            if home.here == self.grid.residents:
                return
            block = self.waiting.popleft()
            self.placed[block] = self.now
            if self.grid.times.prologue:
                home.coming[block] = self.now + self.grid.times.prologue
            else:
                self.begin(home, block)


def clocks(grid: Grid) -> Clock:
    """Clocks until the last block has ended. Raises UsageError for numbers out of range."""
    return max(ran.ended for ran in Chip(grid).run())
