"""Times of kernels by an engine type that runs them one by one, without a program and a simulation.

A *family* is a kind of kernel that one closed form describes (products, convolutions, functions of rows, attention).
Its kernels come as columns, one row each, so that thousands are worked out at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from accelsim.spec.chip import Chip
from accelsim.types import Array, Floats
from accelsim.workload.graph import Graph, Node

Columns = Mapping[str, Floats]
"""Name of a column -> its values, all of one length."""
Names = Sequence[tuple[str, ...]]
"""Names of constants, the one that measured times tell best first; those of a tuple share a value."""

ROW_CLOCKS = {"LayerNormalization": 180, "RMSNormalization": 180}
"""Op -> clocks of a multiprocessor for each row, where a block of threads has one: what makes norms of many short rows
slow. From the layer norms of NeuSight on five GPUs and of our own on an H200 (140 to 280 there)."""


class KernelTimes(NamedTuple):
    """Kernels, one row each: ``seconds`` with everything; ``bound``, the least that the stated peaks of the chip
    allow; ``overhead``: seconds of host and launch. ``tile``, ``splits``, ``waves``: how a grid was cut (text, '' where
    there is none; 1; 0). ``binds``: what takes most of the time; ``regime``: where like errors are to be expected.
    ``factor``: of the interval that the constants of the kernel state themselves, 0 where they state none."""

    seconds: Floats
    bound: Floats
    overhead: Floats
    tile: Array
    splits: Floats
    waves: Floats
    binds: Array
    regime: Array
    factor: Floats


class KernelCost(NamedTuple):
    """Kernels as columns by a closed form: ``seconds``; of these those of ``launch`` and host, ``computing`` and
    ``moving``; ``waves`` of blocks; rows and columns of a tile, and parts of a loop (0 where there are none)."""

    seconds: Floats
    launch: Floats
    computing: Floats
    moving: Floats
    waves: Floats
    tile_m: Floats
    tile_n: Floats
    parts: Floats

    @property
    def binds(self) -> Array:
        """Return what takes most of the time of each kernel."""
        names = np.array(["launch", "products", "memory"], dtype=object)
        found: Array = names[np.argmax(np.stack([self.launch, self.computing, self.moving]), axis=0)]
        return found

    def times(self, bound: Floats, regime: Array, factor: Floats | None = None) -> KernelTimes:
        """Return the times of the kernels, whose constants state no interval where ``factor`` is None."""
        sizes, place = np.unique(np.stack([self.tile_m, self.tile_n], axis=1), axis=0, return_inverse=True)
        texts = [f"{rows:.0f}x{columns:.0f}" if rows else "" for rows, columns in sizes]  # few, and asked for often
        tile = np.array(texts, dtype=object)[place.reshape(-1)]
        factor = np.zeros(len(bound)) if factor is None else factor
        return KernelTimes(self.seconds, bound, self.launch, tile, self.parts, self.waves, self.binds, regime, factor)


class Prepared(NamedTuple):
    """Kernels of one family and format on one chip, with everything about them that no constant changes.

    ``constants`` of the chip that measured times of these tell. ``times`` on a chip that differs in constants only.
    ``likely``: the same with at most so many candidates per kernel, the fastest on a chip; None without a choice.
    """

    constants: Names
    times: Callable[[Chip], KernelTimes]
    likely: Callable[[Chip, int], Prepared] | None = None


class ServingKernel(NamedTuple):
    """A node of a network as a kernel of a serving stack: its family, its format, and the factor of the interval that
    the constants of the chip state for it (0: none)."""

    family: str
    format: str
    factor: float


class KernelModel(Protocol):
    """The kernels of one engine of a chip."""

    def prepared(self, family: str, name: str, columns: Columns) -> Prepared:
        """Prepare kernels of a family in a number format of the engine."""

    def family(self, node: Node) -> str:
        """Return the family of a node of a network."""

    def served(self, graph: Graph, node: Node) -> ServingKernel | None:
        """Return a node as the kernel of a serving stack that it is timed as; None where it is timed otherwise."""

    def constants(self, family: str, name: str) -> Names:
        """Return the constants that measured kernels of a family in a format tell."""

    def formats(self, family: str) -> Iterable[str]:
        """Return the formats in which it computes kernels of a family."""
