"""PCI Express: payload per second of a stream of equal transfers, by the arithmetic of its packets.

The formulas are those of the model of Neugebauer et al., "Understanding PCIe performance for end host networking"
(SIGCOMM 2018): transaction packets share what acknowledgements, credits and skip sets leave of the raw rate; a write
is cut into packets of at most the maximum payload, a read into requests of at most the maximum read request, whose
data come back in completions. Headers are counted; latency only where tags run out.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.errors import Problem, UsageError
from accelsim.spec.link import Pcie
from accelsim.spec.status import Status


class Wire(NamedTuple):
    """Bytes of packets that a transfer puts on the wire, headers included: from the device, and to it."""

    from_device_B: int
    to_device_B: int


class Rates(NamedTuple):
    """Payload per second of transfers of one size, B/s: writes alone, reads alone, and each of both at once."""

    write_Bps: float
    read_Bps: float
    simultaneous_Bps: float


class EnergyPerBit(NamedTuple):
    """Energy of a bit over both ends, J, lowest and highest figure found, and how far it can be trusted."""

    low_J: float
    high_J: float
    status: Status
    source: str


_QUOTED = "table of sources of a public simulator of memory-side computing"
ENERGY: dict[int, EnergyPerBit] = {
    3: EnergyPerBit(4.0e-12, 4.0e-12, "secondary", _QUOTED),
    4: EnergyPerBit(1.93e-12, 6.0e-12, "secondary", f"{_QUOTED}; the lower figure is of a transmitter alone"),
    5: EnergyPerBit(7.6e-12, 11.4e-12, "secondary", _QUOTED),
}
"""Generation -> energy of a bit. Of the others no figure was found: 1 and 2 are taken as 3, 6 and 7 as 5."""


def energy_per_bit(generation: int) -> EnergyPerBit:
    """The row of ``ENERGY``, or of the nearest generation, then as a guess. UsageError for no generation."""
    if generation not in range(1, 8):
        raise UsageError(Problem(f"no PCIe generation {generation}", expected="1 to 7"))
    nearest = min(ENERGY, key=lambda known: abs(known - generation))
    row = ENERGY[nearest]
    if nearest == generation:
        return row
    return row._replace(status="guess", source=f"that of generation {nearest}: {row.source}")


def write_wire(link: Pcie, nbytes: int) -> Wire:
    """A write of ``nbytes`` to the far memory: packets of data, nothing comes back."""
    return Wire(nbytes + _parts(nbytes, link.max_payload) * link.write_header_B, 0)


def read_wire(link: Pcie, nbytes: int) -> Wire:
    """A read of ``nbytes``: requests go, completions with the data come. Aligned to the boundary of completions."""
    requests = _parts(nbytes, link.max_read_request) * link.read_header_B
    return Wire(requests, nbytes + _parts(nbytes, link.completion_B) * link.completion_header_B)


def rates(link: Pcie, nbytes: int) -> Rates:
    """Payload per second of back-to-back transfers of ``nbytes`` (1 or more), B/s.

    Simultaneous: as many bytes written as read; requests and written data share one direction. Reads are also bound
    by ``tags`` x bytes asked for / ``round_trip`` where the link states both. UsageError for less than a byte.
    """
    if nbytes < 1:
        raise UsageError(Problem(f"a transfer of {nbytes} B", expected="1 B or more"))
    write, read, tlp_Bps = write_wire(link, nbytes), read_wire(link, nbytes), link.tlp_Bps
    window = tag_bound_Bps(link, nbytes)
    both = max(read.to_device_B, write.from_device_B + read.from_device_B)
    return Rates(
        float(nbytes * tlp_Bps / write.from_device_B),
        min(window, float(nbytes * tlp_Bps / max(read))),
        min(window, float(nbytes * tlp_Bps / both)),
    )


def tag_bound_Bps(link: Pcie, nbytes: int) -> float:
    """Payload per second that the tags allow reads of ``nbytes``, B/s; infinite where tags or round trip are not
    stated (Little's law: bytes under way / time of a round trip).
    """
    if link.tags is None or not link.round_trip:
        return float("inf")
    return link.tags * min(nbytes, link.max_read_request) / link.round_trip


def _parts(nbytes: int, most_B: int) -> int:
    return -(-nbytes // most_B)
