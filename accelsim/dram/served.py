"""Result of every DRAM model: when it was done, and what it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from accelsim.dram.traces import Trace
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


def in_batches(serve: Callable[[Array, Array, int], Served], trace: Trace) -> Served:
    """Serve a trace at once; where it has clocks, what is offered at one clock after the other, as one result."""
    if trace.at is None or not len(trace.at):
        return serve(trace.addresses, trace.writes, 0)
    order = np.argsort(trace.at, kind="stable")
    at, addresses, writes = trace.at[order], trace.addresses[order], trace.writes[order]
    edges = [0, *(np.flatnonzero(np.diff(at)) + 1).tolist(), len(at)]
    return _joined([serve(addresses[a:b], writes[a:b], int(at[a])) for a, b in pairwise(edges)])


def _joined(parts: Sequence[Served]) -> Served:
    """One batch after the other as one."""

    def whole(name: str) -> Array | None:
        arrays = [getattr(part, name) for part in parts]
        return None if any(each is None for each in arrays) else np.concatenate(arrays)

    commands = whole("commands")
    if commands is not None:
        commands = commands[np.argsort(commands[:, 0], kind="stable")]
    return Served(
        begin=parts[0].begin,
        end=max(part.end for part in parts),
        counts={name: sum(part.counts[name] for part in parts) for name in COUNTS},
        open_clocks=sum(part.open_clocks for part in parts),
        bus_clocks=sum(part.bus_clocks for part in parts),
        arrived=whole("arrived"),
        done=whole("done"),
        commands=commands,
    )
