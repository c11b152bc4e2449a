"""What is the same for all candidates of one step, and what bounds each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.engines.systolic.pace import Pace
from accelsim.program.tiles import DENSE
from accelsim.types import Floats
from accelsim.workload.ops.base import Gemm

EXPOSED = 0.125
"""Share of the fill and drain of a step that the search counts; the neighbours hide the rest. Chosen by hand, see
``search.LATE``."""


@dataclass(frozen=True)
class Shape:
    """What is the same for all candidates of one step. Bytes are per element; counts in words."""

    gemm: Gemm
    a_B: float
    b_B: float
    y_B: float
    sum_B: float
    cycles_per_row: Pace
    results_share: float  # result elements per sum (below 1 behind a pooling)
    functions: tuple[int, ...]  # clocks per element and lane of each fused function
    sides: int  # side operands that are streamed
    side_B: float  # of all of them together
    parameters_B: int
    b_streamed: bool
    reuse: bool = True  # whether a tile is loaded only when it is not that of the command before
    w_slots: int = 2
    sparse: tuple[int, int] = DENSE  # weights kept, of how many
    results_pass: str = ""  # the vector unit that does ``functions``, "" on a chip without one
    sum_slots: int = 2  # where results leave from the accumulators themselves
    together: Pace = 1  # cycles per row where all arrays side by side stream
    adding: int = 0  # clocks per element and lane of adding what two arrays have of a sum

    def pace(self, arrays: int) -> Pace:
        """Cycles per row of each of so many arrays that stream at once."""
        return self.cycles_per_row if arrays == 1 else self.together


@dataclass(frozen=True)
class Homes:
    """Memories from which the operands come and to which results go; ``a_to_load``: A is not on the chip yet."""

    a: str
    b: str
    y: str
    a_to_load: bool

    def path_name(self, memory: str) -> str:
        """What a memory's inbound traffic is, in words."""
        if self.a == self.b:
            return f"traffic of {memory}"
        return f"weight fetch from {memory}" if memory == self.b else f"activations from {memory}"


@dataclass(frozen=True)
class Bounds:
    """Clocks of each path by name, clocks of the busiest resource, and the bytes that leave or enter the chip."""

    paths: dict[str, Floats]
    busiest: Floats
    offchip_B: Floats

    def total(self) -> Floats:
        """The estimate: the longest path."""
        longest: Floats = np.maximum.reduce(list(self.paths.values()))
        return longest

    def score(self) -> Floats:
        """What the search compares: in a network most of a step's fill and drain hides behind its neighbours."""
        return self.busiest + EXPOSED * (self.total() - self.busiest)

    def binds(self, index: int) -> str:
        """Name of the longest path of one candidate."""
        return max(self.paths, key=lambda name: self.paths[name][index])
