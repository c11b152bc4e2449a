"""Times of kernels by an engine type that runs them one by one, without a program and a simulation.

A *family* is a kind of kernel that one closed form describes (products, convolutions, functions of rows, attention).
Its kernels come as columns, one row each, so that thousands are worked out at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from accelsim.spec.chip import Chip
from accelsim.types import Array, Floats
from accelsim.workload.graph import Graph, Node

Columns = Mapping[str, Floats]
"""Name of a column -> its values, all of one length."""

ROW_CLOCKS = {"LayerNormalization": 180, "RMSNormalization": 180}
"""Op -> clocks of a multiprocessor for each row, where a block of threads has one: what makes norms of many short rows
slow. From the layer norms of NeuSight on five GPUs and of our own on an H200 (140 to 280 there)."""


class KernelTimes(NamedTuple):
    """Kernels, one row each: ``seconds`` with everything; ``bound``, the least that the stated peaks of the chip
    allow; ``low``: of that what the host and the launch take. ``tile``, ``splits``, ``waves``: how a grid was cut
    (text, '' where there is none; 1; 0). ``binds``: what takes most of the time; ``regime``: where like errors are to
    be expected. ``factor``: of the interval that the constants of the kernel state themselves, 0 where they state none
    (None: of no kernel)."""

    seconds: Floats
    bound: Floats
    overhead: Floats
    tile: Array
    splits: Floats
    waves: Floats
    binds: Array
    regime: Array
    factor: Floats | None = None


class Prepared(Protocol):
    """Kernels of one family and format on one chip, with everything about them that no constant changes."""

    @property
    def constants(self) -> Sequence[tuple[str, ...]]:
        """Names of constants of the chip that measured times of these can tell, the most telling first; those of a
        tuple share a value."""

    def times(self, chip: Chip) -> KernelTimes:
        """Return how long they take; ``chip``: the same but for its constants."""

    def likely(self, chip: Chip, most: int) -> Prepared:
        """Return the same with at most so many candidates a kernel: those that take the least time on this chip."""


class ServingKernel(NamedTuple):
    """A node of a network as a kernel of a serving stack: its family, its format, and the factor of the interval that
    the constants of the chip state for it (0: none)."""

    family: str
    format: str
    factor: float


class KernelModel(Protocol):
    """The kernels of one engine of a chip."""

    @property
    def families(self) -> Mapping[str, Sequence[str]]:
        """Family -> the columns that it needs."""

    def prepared(self, family: str, name: str, columns: Columns) -> Prepared:
        """Kernels of a family in a number format of the engine."""

    def family(self, node: Node) -> str:
        """The family of a node of a network."""

    def served(self, graph: Graph, node: Node) -> ServingKernel | None:
        """Return a node as the kernel of a serving stack that it is timed as; None where it is timed otherwise."""

    def constants(self, family: str, name: str) -> Sequence[tuple[str, ...]]:
        """The constants that measured kernels of a family in a format tell, the most telling first."""

    def formats(self, family: str) -> Iterable[str]:
        """Formats that it computes kernels of a family in."""


def text_rows(values: Iterable[Any]) -> Array:
    """Texts as a column."""
    import numpy as np

    found: Array = np.array(list(values), dtype=object)
    return found
