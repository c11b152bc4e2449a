"""Transfers over any link: latency, packets with their headers, and the window that tags or credits leave.

A transfer of n bytes occupies its direction for max(bytes on the wire / wire rate, n / window rate) and arrives one
latency later. A link that only states a bandwidth is one whose packets have no headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from accelsim.errors import UsageError
from accelsim.spec.link import Framing, Link
from accelsim.time import FS_PER_S


class Lane(NamedTuple):
    """One direction of a link as a port sees it.

    ``bandwidth_Bps``: bytes per second of payload and headers; a transfer of n bytes has ceil(n / ``packet_B``) packets
    with ``header_B`` each (``packet_B`` 0: none), payloads padded to whole ``granule_B``. A window is part of the rate.
    """

    bandwidth_Bps: float
    latency_s: float
    packet_B: int
    header_B: int
    granule_B: int

    def wire_B(self, nbytes: int) -> int:
        """Return the bytes on the wire of a transfer of ``nbytes``."""
        if not self.packet_B:
            return nbytes
        whole, rest = divmod(nbytes, self.packet_B)
        tail = -(-rest // self.granule_B) * self.granule_B + self.header_B if rest else 0
        return whole * (self.packet_B + self.header_B) + tail

    def occupancy_fs(self, nbytes: int) -> int:
        """Return the time for which a transfer of ``nbytes`` occupies the direction, whole fs."""
        rate, per = float(self.bandwidth_Bps).as_integer_ratio()
        return self.wire_B(nbytes) * FS_PER_S * per // rate


@dataclass(frozen=True)
class LinkTime:
    """One transfer: payload, bytes on the wire, how long it occupies the link, and the latency on top, fs."""

    payload_B: int
    wire_B: int
    occupancy_fs: int
    latency_fs: int

    @property
    def total_fs(self) -> int:
        """Time from its start to its last byte, when the link is free, fs."""
        return self.latency_fs + self.occupancy_fs

    @property
    def efficiency(self) -> float:
        """Payload per byte on the wire."""
        return self.payload_B / self.wire_B


def framing(link: Link, write: bool) -> Framing:
    """Return the packets of one direction; without headers where the link only states a bandwidth."""
    if link.protocol is None:
        return Framing(Fraction(str(link.bandwidth)), 1, 0)
    return link.protocol.framing(write)


def lane(link: Link, write: bool) -> Lane:
    """Return one direction of ``link`` as a port sees it. ``write``: towards the far memory."""
    if link.protocol is None:
        return Lane(link.bandwidth, link.latency, 0, 0, 1)
    row = link.protocol.framing(write)
    packet_B = row.payload_B + row.header_B
    rate = row.wire_Bps
    if row.window_Bps is not None:
        rate = min(rate, row.window_Bps * packet_B / row.payload_B)
    return Lane(float(rate), link.latency, row.payload_B, row.header_B, row.granule_B)


def transfer(link: Link, nbytes: int, write: bool) -> LinkTime:
    """Return the times of a transfer of ``nbytes`` (1 or more) over ``link``. Raises UsageError for less than a
    byte."""
    if nbytes < 1:
        raise UsageError(f"a transfer of {nbytes} B", expected="1 B or more")
    way = lane(link, write)
    return LinkTime(nbytes, way.wire_B(nbytes), way.occupancy_fs(nbytes), int(link.latency * FS_PER_S))


def effective_Bps(link: Link, nbytes: int, write: bool, alone: bool = False) -> float:
    """Return payload per second of transfers of ``nbytes``, B/s: back to back, or ``alone``, each after the one before
    has arrived, so that the latency counts."""
    time = transfer(link, nbytes, write)
    return nbytes * FS_PER_S / max(1, time.total_fs if alone else time.occupancy_fs)


def half_size_B(link: Link, write: bool) -> int:
    """Return the size from which a transfer alone reaches half of the link's best rate, B (n_1/2 of Hockney)."""
    row = framing(link, write)
    return int(Fraction(str(link.latency)) * row.payload_Bps)
