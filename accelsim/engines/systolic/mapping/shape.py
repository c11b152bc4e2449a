"""Constants of all candidates of one step, and the bounds of each candidate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from accelsim.engines.systolic.pace import ONE_ROW, Pace
from accelsim.engines.systolic.spec import MatrixUnit
from accelsim.program.mapping import Pin
from accelsim.program.tiles import DENSE
from accelsim.types import Floats
from accelsim.workload.ops.base import Gemm


class Side(NamedTuple):
    """A side operand that is streamed: the memory that it comes from, bytes of an element and of all of it."""

    memory: str
    element_B: float
    size_B: int


@dataclass(frozen=True)
class Shape:
    """Constants of all candidates of one step. Bytes are per element; counts in words."""

    gemm: Gemm
    a_B: float
    b_B: float
    y_B: float
    sum_B: float
    alone: Pace  # of one array
    results_share: float  # result elements per sum (below 1 behind a pooling)
    functions: tuple[int, ...]  # clocks per element and lane of each fused function
    sides: tuple[Side, ...]  # side operands that are streamed
    parameters_B: int
    b_streamed: bool
    reuse: bool = True  # whether a tile is loaded only when it is not that of the command before
    w_slots: int = 2
    sparse: tuple[int, int] = DENSE  # weights kept, of how many
    sum_slots: int = 2  # where results leave from the accumulators themselves
    together: Pace = ONE_ROW  # where all arrays side by side stream
    adding: int = 0  # clocks per element and lane of adding what two arrays have of a sum

    def pace(self, arrays: int) -> Pace:
        """Return the pace of each of so many arrays that stream at once."""
        return self.alone if arrays == 1 else self.together


@dataclass(frozen=True)
class Homes:
    """Memories from which the operands come and to which results go; ``a_to_load``: A is not on the chip yet."""

    a: str
    b: str
    y: str
    a_to_load: bool

    def path_name(self, memory: str) -> str:
        """Return what a memory's inbound traffic is, in words."""
        if self.a == self.b:
            return f"traffic of {memory}"
        return f"weight fetch from {memory}" if memory == self.b else f"activations from {memory}"


class Buffers(NamedTuple):
    """Free bytes of each buffer except that of the activations, and (bytes, number) of the slots of each buffer with
    fixed slots, by name."""

    free_B: tuple[tuple[str, int], ...]
    slots: tuple[tuple[str, tuple[int, int]], ...]


@dataclass(frozen=True)
class Step:
    """Everything that the best mapping of a step depends on, but for the room that tiles have: its shape when the
    activations are streamed and when they are on the chip, and where they are. What is equal is searched once.

    ``sharing``: cores that use the memories at the same time. ``ahead``: the first weights may be loaded while the step
    before is still at work. ``rows``: what tm must be a multiple of, with whole slabs
    of a streamed convolution and without.
    """

    unit: MatrixUnit = field(compare=False)  # one per chip, and steps of one chip are compared
    streamed: Shape
    resident: Shape
    homes: Homes
    rows: tuple[int, int]
    buffers: Buffers
    sharing: int
    pinned: tuple[tuple[str, Pin], ...]
    ahead: bool = False

    @property
    def shape(self) -> Shape:
        """Return where it does not matter which."""
        return self.streamed

    @property
    def arrays(self) -> int:
        """Arrays side by side."""
        return self.unit.count

    def shape_of(self, a_resident: bool) -> Shape:
        """The shape for one of the residency choices."""
        return self.resident if a_resident else self.streamed


@dataclass(frozen=True)
class Bounds:
    """Clocks of each path by name, clocks for which others are ``held`` up (see ``score``), and the bytes that leave or
    enter the chip."""

    paths: dict[str, Floats]
    held: Floats
    offchip_B: Floats

    def total(self) -> Floats:
        """The estimate: the longest path."""
        longest: Floats = np.maximum.reduce(list(self.paths.values()))
        return longest

    def score(self) -> Floats:
        """Return what the search compares: how long the step takes, and for how long it keeps others from what they
        need.

        Steps overlap. One that waits for this step waits for all of it; one beside it, that needs a single resource,
        for as long as that is busy. Which one it will be is not known yet, so array, vector unit and the ports of the
        memories count the same: ``held`` is their mean. And the paths take it that all hand-overs are hidden: it has a
        token for each tile too.
        """
        return self.total() + self.held

    def binds(self, index: int) -> str:
        """Name of the longest path of one candidate."""
        return max(self.paths, key=lambda name: self.paths[name][index])
