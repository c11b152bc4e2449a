"""A program: the commands of a graph on a chip, the regions that they use, and the steps that they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accelsim.errors import MemoryNeed
from accelsim.program.commands import Command, Region, Step
from accelsim.spec.chip import Chip
from accelsim.spec.link import Link
from accelsim.workload.graph import Graph

if TYPE_CHECKING:
    from accelsim.program.repeated import Repeat

Spans = dict[str, tuple[float, float]]
"""Buffer -> capacities, bytes: from the first to below the second."""


@dataclass(repr=False)
class Program:
    """Commands in program order (queues keep that order), regions and steps, for ``chip`` as it was configured.

    ``cores`` cores run the graph side by side, each on its part of the batch (``graph`` is that of one core).
    ``presets``: region -> (tensor, core) that it holds from the start. ``results``: graph output -> the region in which
    it ends, per core. ``engines``: engine -> its type. ``needs``: off-chip memory -> what must be in it at one time.
    ``received``: inputs that other devices send. ``peers``: other device -> the links to it. ``repeat``: which commands
    are copies that are not written (``accelsim.program.repeated``). ``spans``: capacities
    of buffers with any of which the program is the same. ``short``: the program without copies, once made.
    """

    graph: Graph
    chip: Chip
    dtype: str
    commands: Sequence[Command]
    regions: list[Region]
    steps: list[Step]
    presets: dict[int, tuple[str, int]]
    results: dict[str, list[int]]
    engines: dict[str, str]
    cores: int = 1
    notes: list[str] = field(default_factory=list)
    needs: dict[str, MemoryNeed] = field(default_factory=dict)
    received: frozenset[str] = frozenset()
    peers: dict[str, tuple[Link, ...]] = field(default_factory=dict)
    repeat: Repeat | None = None
    spans: Spans = field(default_factory=dict)
    short: Program | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        """One line: what runs where, and how large it is."""
        size = f"{len(self.steps)} steps, {len(self.commands)} commands"
        return f"Program({self.graph.name} on {self.chip.name}, {self.dtype}: {size})"
