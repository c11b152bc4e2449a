"""The lines of the layer table: which line a step belongs to. Everything on the page refers to layers by their line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from accelsim.account.latency import OUT_OF_STEPS, Layer, layers, lines
from accelsim.account.spans import OUTSIDE
from accelsim.machine.run import Run, Slice
from accelsim.program.commands import Command
from accelsim.report.table import layer_names

NO_LINE = -1
"""The line of what belongs to none, such as a conversion that costs nothing."""


@dataclass
class Lines:
    """``shown``: the lines of the table of a run in its order, their ``names``, and ``of_step``: step -> its line."""

    run: Run
    shown: Sequence[Layer]
    names: Sequence[str]
    of_step: dict[int, int]

    @cached_property
    def commands(self) -> list[Command]:
        """All commands, those in laps that are written when somebody asks too: each is written once for the page."""
        return list(self.run.program.commands)

    @cached_property
    def pieces(self) -> list[Slice]:
        """Return the same of all slices; slice i is that of command i."""
        return list(self.run.slices)

    def of(self, step: int) -> int:
        """The line of a step, that of what no step causes for a negative one; ``NO_LINE`` where there is none."""
        return self.of_step.get(step, NO_LINE)


def lines_of(run: Run, rows: Sequence[Layer] | None = None) -> Lines:
    """The lines of a run; ``rows``: its layers, where they are at hand."""
    found = layers(run) if rows is None else rows
    shown = lines(found)
    place = {layer.index: line for line, layer in enumerate(shown)}
    ends = {layer.edge: line for line, layer in enumerate(shown) if layer.edge}
    of_step = {layer.index: ends.get(layer.edge, place.get(layer.index, NO_LINE)) for layer in found}
    return Lines(run, shown, layer_names(shown), of_step | {OUTSIDE: ends.get(OUT_OF_STEPS, NO_LINE)})
