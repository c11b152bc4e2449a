"""Result of every DRAM model: when it was done, and what it did."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.types import Array

COUNTS = ("act", "pre", "rd", "wr", "ref", "refpb", "hits", "misses", "conflicts")
"""Commands issued, and bursts by what they found: an open row, a closed bank, another open row."""


@dataclass
class Served:
    """A batch of bursts.

    ``begin``: clock from which they were offered. ``first``: clock of the last data of the burst that was done first.
    ``end``: clock of the last data on the bus. ``counts``: see COUNTS, all channels together. ``open_clocks``: clocks
    in which any bank of a rank was open, added up over ranks and channels, of ``elapsed`` x ranks x channels.
    ``bus_clocks``: clocks of data on all buses. ``arrived``, ``done``: int64 arrays, for each burst in the order of the
    request, clock of acceptance and of its last data (None unless asked for). ``commands``: int64 array of shape
    (n, 4), rows of (clock, Command, flat bank, row) in order of clocks (None unless asked for); the flat bank is
    ((channel * ranks + rank) * groups + group) * banks + bank. ``marks``: int64 array, for each request that was
    marked a row of (request that came next, clock, counts until then), None of a model that keeps none.
    """

    begin: int
    end: int
    counts: dict[str, int]
    open_clocks: int
    bus_clocks: int
    arrived: Array | None = None
    done: Array | None = None
    commands: Array | None = None
    first: int = 0
    marks: Array | None = None

    @property
    def elapsed(self) -> int:
        """Clocks from begin to end."""
        return self.end - self.begin
