"""The parts of the PE-level model: buses with their clocks, the global buffer with its banks, PEs with their pads.

Each part counts its own accesses when they happen. Nothing here knows a closed form.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from accelsim.engines.row_stationary.shape import Geometry
from accelsim.errors import HazardError
from accelsim.types import Array, Ints

Values = Array
Index = Ints


class Bus:
    """The network of one operand: so many words a clock, one transfer after the other."""

    def __init__(self, words_per_clock: int) -> None:
        self.words_per_clock, self.free = words_per_clock, 0

    def send(self, words: int, clock: int) -> int:
        """Clock at which the last of ``words`` has arrived that may leave from ``clock`` on."""
        if words == 0:
            return clock
        self.free = max(self.free, clock) - (-words // self.words_per_clock)
        return self.free


class GlobalBuffer:
    """ifmap rows, psums and filters, each in an array; ``seen`` counts words.

    Raises HazardError when banks or bytes for filters do not suffice, and when a psum is read that was not written.
    """

    def __init__(self, array: Geometry, seen: Counter[str]) -> None:
        self.array, self.seen = array, seen
        self.ifmap: Values = np.zeros((0, 0, 0, 0))
        self.psums: Values = np.zeros((0, 0, 0, 0))
        self.written = np.zeros((0, 0, 0, 0), dtype=bool)

    def _banks(self, words: int) -> int:
        return -(-words * self.array.word_B // self.array.glb_bank_B)

    def open_tile(self, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        """Room for the psums of an output tile [n, m, e, F], all of them unwritten."""
        self.psums, self.written = np.zeros(shape, dtype=kind), np.zeros(shape, dtype=bool)

    def fill(self, rows: Values) -> None:
        """Take ifmap rows [n, channels, rows, W] from DRAM, in place of those before."""
        self.ifmap = rows
        if self._banks(rows.size) + self._banks(self.psums.size) > self.array.glb_banks:
            raise HazardError("a load of ifmap rows", "banks of the global buffer", "psums")
        self.seen["dram_ifmap_reads"] += rows.size
        self.seen["glb_ifmap_writes"] += rows.size

    def filters(self, filters: Values) -> None:
        """Filters of a pass from DRAM, and on to the array."""
        if filters.size * self.array.word_B > self.array.glb_filter_B:
            raise HazardError("a load of filters", "the filter buffer", "the filters of the pass")
        for name in ("dram_filter_reads", "glb_filter_writes", "glb_filter_reads"):
            self.seen[name] += filters.size

    def read_psums(self, image: int, filters: slice, column: int) -> Values:
        """Psums [f, e] of one column of the ofmap."""
        if not self.written[image, filters, :, column].all():
            raise HazardError("a step", f"psums of column {column}", "no pass")
        found: Values = self.psums[image, filters, :, column]
        self.seen["glb_psum_reads"] += found.size
        return found.copy()

    def write_psums(self, image: int, filters: slice, column: int, values: Values) -> None:
        """The same, the other way."""
        self.psums[image, filters, :, column] = values
        self.written[image, filters, :, column] = True
        self.seen["glb_psum_writes"] += values.size

    def close_tile(self) -> Values:
        """Finished psums, on their way to DRAM."""
        self.seen["glb_ofmap_reads"] += self.psums.size
        self.seen["dram_ofmap_writes"] += self.psums.size
        return self.psums


class Pads:
    """The scratch pads of all PEs, one row of words per PE, and the clock at which each PE is free."""

    def __init__(self, array: Geometry, kind: np.dtype[Any]) -> None:
        pes = array.rows * array.cols
        self.ifmap = np.zeros((pes, array.ifmap_pad), dtype=kind)
        self.filter = np.zeros((pes, array.filter_pad), dtype=kind)
        self.psum = np.zeros((pes, array.psum_pad), dtype=kind)
        self.free = np.zeros(pes, dtype=np.int64)


def chains(array: Geometry, sets: int, e: int, length: int) -> Index:
    """Which PE stands where: [sets, e, length], the foot of a chain first; a chain runs up one column of the array.

    Raises HazardError where the array has no place left.
    """
    lane = np.arange(sets * e)
    band, column = lane // array.cols, lane % array.cols
    row = band[:, None] * length + np.arange(length)
    if row.max() >= array.rows:
        raise HazardError("a pass", "PEs of the array", "the chains placed before")
    pes: Index = (row * array.cols + column[:, None]).reshape(sets, e, length)
    return pes
