"""A kernel on multiprocessors, stated, and its closed form in clocks.

A kernel is a grid of equal thread blocks, numbered in order. A multiprocessor has room for so many blocks at a time
(``residents``). All start empty at clock 0.

**Dispatch.** After everything else that happens at a clock, waiting blocks are placed in order of their numbers, each
on the multiprocessor that has the fewest blocks among those that have room, of several the one with the lowest number.
A block that ends at a clock makes room at that clock.

**A block** takes ``prologue`` clocks (its first operands come), then ``work`` clocks of the unit that computes it, then
``epilogue`` clocks (results leave). The unit of a multiprocessor is shared fairly: each of n blocks that want it gets
an nth of it. Prologue and epilogue need it not.

**The last wave.** Where blocks are no multiple of the multiprocessors, those that are left over run while others idle,
which leaves them more of the power and of the way to memory: with a share s of the multiprocessors at work, their work
takes ``softness + (1 - softness) s`` of the clocks of the others. Softness 1 is the hard staircase of whole waves, 0 a
fluid.

Then blocks go round the multiprocessors, and those of a *round* (the residents of one multiprocessor) begin together,
share the unit and end together, so that nothing hides their ends: a round of r blocks takes ``prologue + r work +
epilogue``.

Assumed, where vendors say nothing: the order of dispatch (least loaded first); that blocks of a kernel do not differ;
that kernels do not overlap. The rounds were compared with blocks that take the unit in turn, whose ends hide behind the
work of others: measured products of six GPUs are as near or nearer (docs/engine-simt.md).
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple


class Times(NamedTuple):
    """Clocks of a block: before it needs the unit, of the unit, and after."""

    prologue: int
    work: int
    epilogue: int

    @property
    def ends(self) -> int:
        """Return the clocks that a round takes beside the work of its blocks."""
        return self.prologue + self.epilogue


class Grid(NamedTuple):
    """A kernel: so many blocks on so many multiprocessors with room for ``residents`` each; ``softness``: how much of
    a whole wave the last one takes, 0 to 1."""

    blocks: int
    multiprocessors: int
    residents: int
    times: Times
    softness: float = 1.0

    @property
    def left_over(self) -> int:
        """Blocks of the last wave where it does not reach all multiprocessors and is not the only one, else 0."""
        whole, rest = divmod(self.blocks, self.multiprocessors)
        return rest if whole else 0

    @property
    def last_work(self) -> int:
        """Return the clocks of the unit for a block of the last wave."""
        share = self.left_over / self.multiprocessors if self.left_over else 1.0
        return max(1, ceil(self.times.work * (self.softness + (1 - self.softness) * share)))


def clocks(grid: Grid) -> int:
    """Return the clocks from the dispatch of the first block to the end of the last."""
    busiest = -(-grid.blocks // grid.multiprocessors)
    rounds = -(-busiest // grid.residents)
    saved = grid.times.work - grid.last_work
    return busiest * grid.times.work - saved + rounds * grid.times.ends
