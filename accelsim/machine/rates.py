"""Memory models that know how many bytes move and not which: no time at all, or a latency and a constant rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelsim.engines.device import Asked, Served
from accelsim.spec.memory import Attachment
from accelsim.time import FS_PER_S, transfer_fs

if TYPE_CHECKING:
    from accelsim.network import link


class Ideal:
    """Data at the instant of acceptance: what is left is the time of the chip alone."""

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """No time."""
        return Served(at_fs, at_fs, at_fs)

    def serve_lines(self, lines: Sequence[int], line_B: int, asked: Asked, at_fs: int) -> Served:
        """Serve these lines at the time of ``serve``, wherever they are."""
        return self.serve(asked, at_fs)


@dataclass(frozen=True)
class Lane:
    """A port: rate and beat of its memory, latency with the link before it, and (read, write) lanes of that link."""

    bandwidth_Bps: float
    beat_B: int
    latency_fs: int
    pipelined: bool
    ways: tuple[link.Lane, link.Lane] | None = None

    def occupancy_fs(self, nbytes: int, write: bool) -> tuple[int, bool]:
        """Return how long a transfer keeps the port: whole beats, or their packets on the link where that is slower.

        The second figure says whether it is.
        """
        memory_fs = transfer_fs(nbytes, self.beat_B, self.bandwidth_Bps)
        if self.ways is None:
            return memory_fs, False
        link_fs = self.ways[write].occupancy_fs(-(-nbytes // self.beat_B) * self.beat_B)
        return max(memory_fs, link_fs), link_fs > memory_fs


class Bandwidth:
    """Latency, then whole beats at a constant rate, or packets where a link is slower; transfers never interleave."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._free_fs = 0  # last data beat so far
        self._occupied: dict[tuple[int, bool], tuple[int, bool]] = {}  # (bytes, write) -> see ``Lane``

    def serve(self, asked: Asked, at_fs: int) -> Served:
        """Data begin after the latency, behind the data of the transfer before."""
        lane = self._lane
        if lane.pipelined:
            start = max(at_fs + lane.latency_fs, self._free_fs)
        else:
            start = max(at_fs, self._free_fs) + lane.latency_fs
        kind = asked.nbytes, asked.write
        if kind not in self._occupied:
            self._occupied[kind] = lane.occupancy_fs(*kind)
        occupied_fs, by_link = self._occupied[kind]
        self._free_fs = start + occupied_fs
        return Served(at_fs, start, self._free_fs, by_link)

    def serve_lines(self, lines: Sequence[int], line_B: int, asked: Asked, at_fs: int) -> Served:
        """Serve these lines at the time of ``serve``, wherever they are."""
        return self.serve(asked, at_fs)


def lane_of(attached: Attachment) -> Lane:
    """The lane of a memory with the link before it, by the figures of 'bandwidth'."""
    from accelsim.network import link

    memory, before, ways = attached.memory, attached.link, None
    latency = memory.latency
    if before is not None:
        latency, ways = latency + before.latency, (link.lane(before, False), link.lane(before, True))
    return Lane(memory.rate_Bps, memory.beats_B, int(latency * FS_PER_S), memory.pipelined, ways)
