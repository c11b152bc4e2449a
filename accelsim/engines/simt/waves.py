"""A kernel on multiprocessors, stated, and its closed form in clocks.

A kernel is a grid of equal thread blocks, numbered in order. A multiprocessor has room for so many blocks at a time
(``residents``). All start empty at clock 0.

**Dispatch.** After everything else that happens at a clock, waiting blocks are placed in order of their numbers, each
on the multiprocessor that has the fewest blocks among those that have room, of several the one with the lowest number.
A block that ends at a clock makes room at that clock.

**A block** takes ``prologue`` clocks (its first operands come), then ``work`` clocks of the unit that computes it, then
``epilogue`` clocks (results leave). The unit of a multiprocessor serves one block at a time, first come, first served;
prologue and epilogue need it not, so that they hide behind the work of other residents.

Then block i runs on multiprocessor i mod S, for all do the same at the same clocks and free their room in order. On
one of them, block i gets the unit at ``u(i) = max(u(i - 1) + work, u(i - residents) + work + epilogue + prologue)``.
With i = q residents + r that is ``prologue + q max(residents work, prologue + work + epilogue) + r work``: a wave of
residents takes as long as their work, or as long as a block where their work does not hide its ends.

Assumed, where vendors say nothing: the order of dispatch (least loaded first); that blocks of a kernel do not differ;
that kernels do not overlap.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.errors import Problem, UsageError


class Times(NamedTuple):
    """Clocks of a block: before it needs the unit, of the unit, and after."""

    prologue: int
    work: int
    epilogue: int

    @property
    def alone(self) -> int:
        """Clocks of a block that waits for nobody."""
        return self.prologue + self.work + self.epilogue


class Grid(NamedTuple):
    """A kernel: so many blocks on so many multiprocessors with room for ``residents`` each."""

    blocks: int
    multiprocessors: int
    residents: int
    times: Times

    def check(self) -> None:
        """Raise UsageError with everything that is not a whole number from 1 (of a prologue or epilogue: from 0)."""
        least = {
            "blocks": (self.blocks, 1), "multiprocessors": (self.multiprocessors, 1), "residents": (self.residents, 1),
            "prologue": (self.times.prologue, 0), "work": (self.times.work, 1), "epilogue": (self.times.epilogue, 0),
        }  # fmt: skip
        wrong = [
            Problem(f"{name} is {value!r}", "", f"a whole number from {low}")
            for name, (value, low) in least.items()
            if not isinstance(value, int) or value < low
        ]
        if wrong:
            raise UsageError(wrong)


class Wave(NamedTuple):
    """``number`` equal waves, one after the other: blocks of each, and clocks from the end of the wave before to that
    of its last block."""

    number: int
    blocks: int
    clocks: int


def clocks(grid: Grid) -> int:
    """Clocks from the dispatch of the first block to the end of the last."""
    return _busiest(-(-grid.blocks // grid.multiprocessors), grid.residents, grid.times)


def _busiest(blocks: int, room: int, times: Times) -> int:
    """Clocks until so many blocks of one multiprocessor have ended."""
    if not blocks:
        return 0
    rounds, later = divmod(blocks - 1, room)
    return rounds * max(room * times.work, times.alone) + later * times.work + times.alone


def waves(grid: Grid) -> list[Wave]:
    """The same in groups of equal waves: the first, those that follow it, and one that does not fill the chip.

    A wave is a full set of residents on all multiprocessors. Clocks of all groups together are those of the kernel.
    """
    each = grid.multiprocessors * grid.residents
    full, rest = divmod(grid.blocks, each)
    ends = [
        _busiest(number * grid.residents, grid.residents, grid.times) for number in (0, min(full, 1), full)
    ]
    found = [Wave(min(full, 1), each, ends[1])]
    if full > 1:
        found.append(Wave(full - 1, each, (ends[2] - ends[1]) // (full - 1)))
    found.append(Wave(1, rest, clocks(grid) - ends[2]))
    return [wave for wave in found if wave.number and wave.blocks]


def occupancy(grid: Grid) -> float:
    """Share of the clocks of all units that are work, 0 to 1."""
    return grid.blocks * grid.times.work / (grid.multiprocessors * clocks(grid))
