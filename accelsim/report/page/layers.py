"""The layer table of the page, whose lines all pictures refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from accelsim.account.latency import OUT_OF_STEPS, Layer, layers, lines
from accelsim.account.spans import OUTSIDE
from accelsim.machine.run import Run, Slice
from accelsim.program.commands import Command
from accelsim.report.page.form import Table
from accelsim.report.table import LAYER_COLUMNS, layer_cells, layer_names
from accelsim.report.text import percent, seconds, si

LEAST_BLOCK = 4
"""Layers of a block that is folded."""
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
        """Slices of all commands; slice i belongs to command i."""
        return list(self.run.slices)

    def line_of(self, step: int) -> int:
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


HOW_TO_READ = (
    ("#", "layer number, the same everywhere"),
    ("layer", "name in the model, or a description: 'conv3_2 3x3 128->128 @28x28' is the second convolution at the "
              "third image size"),
    ("operator", "'conv 3x3/2 64->128 @28x28': 3 x 3 kernel, stride 2, 64 to 128 channels, 28 x 28 image; "
                 "'linear 768->3072 x128': weights times 128 rows; 'matmul 128x64x128 x12': twelve products M x K x N "
                 "of two activations"),
    ("MACs", "the algorithm's multiply-accumulates, without padding"),
    ("time, cycles", "time that the layer adds to the latency, on the critical path, and in chip clocks; adds up to "
                     "the latency"),
    ("of run", "time as a share of the latency"),
    ("bound by", "largest part of that time; 'hidden': the layer adds none"),
    ("of peak", "MACs divided by the peak over the added time; for a partly hidden layer, over the longest time that "
                "the array or one memory works for it"),
    ("DRAM", "bytes to and from all off-chip memories"),
    ("energy", "joules of all its actions, plus static power during its time"),
)  # fmt: skip
"""Column of the layer table -> what it means. The page and the glossary of columns in the documentation show it."""


def layer_lines(run: Run, lines: Lines) -> tuple[Table, list[list[str]]]:
    """Return the layer table (times in fs, energies in J), and what is told of each of its lines."""
    total_fs = sum(layer.added_fs for layer in lines.shown)
    cells = [layer_cells(layer, name, total_fs) for layer, name in zip(lines.shown, lines.names, strict=True)]
    kept = [i for i, column in enumerate(LAYER_COLUMNS) if not column.rank or any(row[i] for row in cells)]
    table: Table = {
        "columns": [(LAYER_COLUMNS[i].title, LAYER_COLUMNS[i].rank, LAYER_COLUMNS[i].right) for i in kept],
        "cells": [[row[i] for i in kept] for row in cells],
        "values": [_values(layer, kept) for layer in lines.shown],
        "keys": _keys(lines),
        "blocks": blocks(lines.names),
        "names": list(lines.names),
        "titles": [layer.title for layer in lines.shown],
        "bound": [layer.bound for layer in lines.shown],
        "time_fs": [layer.added_fs for layer in lines.shown],
        "energy_J": [layer.energy_J for layer in lines.shown],
    }
    return table, [list(_told(layer, name, total_fs)) for layer, name in zip(lines.shown, lines.names, strict=True)]


def _told(layer: Layer, name: str, total_fs: int) -> Iterator[str]:
    """Yield what the page says of a layer wherever it is pointed at."""
    yield from [layer.title] * (layer.title != name)
    yield f"{seconds(layer.added_fs)} ({percent(layer.added_fs / total_fs if total_fs else 0.0)} of the run)"
    yield si(layer.energy_J, "J")
    yield f"bound by {layer.bound}"


def blocks(names: Sequence[str]) -> list[tuple[int, int, int]]:
    """Return (first line, lines of a block, blocks) wherever blocks of alike names follow each other: of a language
    model, not of single layers that are only numbered."""
    alike = [re.sub(r"[0-9]+", "#", name) for name in names]
    found, at = [], 0
    while at < len(alike):
        length = next((n for n in range(1, len(alike) // 2 + 1) if alike[at : at + n] == alike[at + n : at + 2 * n]), 0)
        count = 1
        while length and alike[at : at + length] == alike[at + count * length : at + (count + 1) * length]:
            count += 1
        if length >= LEAST_BLOCK:
            found.append((at, length, count))
        at += max(1, length * count)
    return found


def _keys(lines: Lines) -> list[str]:
    """Return what lines of several runs are matched by: the name in the model, with a number from the second of a name
    on."""
    seen: dict[str, int] = {}
    found = []
    for layer in lines.shown:
        seen[layer.name] = seen.get(layer.name, 0) + 1
        found.append(layer.name if seen[layer.name] == 1 else f"{layer.name} ({seen[layer.name]})")
    return found


def _values(layer: Layer, kept: list[int]) -> list[float | None]:
    values = {
        "#": layer.number,
        "MACs": layer.macs,
        "cycles": layer.cycles,
        "time": layer.added_fs,
        "of run": layer.added_fs,
        "of peak": layer.utilisation or 0.0,
        "DRAM": layer.dram_B,
        "energy": layer.energy_J,
    }
    return [values.get(LAYER_COLUMNS[i].title) for i in kept]
