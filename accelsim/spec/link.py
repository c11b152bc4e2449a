"""A link: what one may state of it, and how its bandwidth follows from its packets."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import Annotated, Literal, NamedTuple

from accelsim.spec.base import Model
from accelsim.spec.counts import Parts, Words
from accelsim.spec.declaring import AfterValidator, Field, model_validator
from accelsim.spec.quantity import Bytes, BytesPerSecond, JoulesPerByte, Seconds, Width
from accelsim.spec.status import Status

LANES = (1, 2, 4, 8, 16, 32)
PAYLOADS_B = (128, 256, 512, 1024, 2048, 4096)
"""Choices of maximum payload and maximum read request (PCI Express Base Specification)."""
BOUNDARIES_B = (64, 128, 256, 512)


class Framing(NamedTuple):
    """One direction of a link: rate on the wire, and what a packet adds to its payload.

    ``wire_Bps``: bytes of packets per second, headers included. ``payload_B``: most payload of a packet;
    payloads are padded to whole ``granule_B``. ``window_Bps``: payload per second that tags or credits allow,
    None where nothing but the wire limits.
    """

    wire_Bps: Fraction
    payload_B: int
    header_B: int
    granule_B: int = 1
    window_Bps: Fraction | None = None

    @property
    def payload_Bps(self) -> Fraction:
        """Most payload per second: full packets back to back, within the window."""
        packets = self.wire_Bps * Fraction(self.payload_B, self.payload_B + self.header_B)
        return packets if self.window_Bps is None else min(packets, self.window_Bps)


class Generation(NamedTuple):
    """One generation of PCIe: transfers per second and lane, useful share of the bits, delay of an acknowledgement.

    ``delay``: internal delay in symbol times of the acknowledgement latency (PCI Express Base Specification 5.0,
    tables 3-7 to 3-9); None in flit mode, where acknowledgements and credits have fixed bytes in each flit.
    """

    transfers_per_s: int
    coding: Fraction
    delay: int | None


_OLD, _NEW = Fraction(8, 10), Fraction(128, 130)
FLIT_B, FLIT_DATA_B, FLIT_TLP_B = 256, 242, 236
"""A flit of PCIe 6.0: 256 B, 242 without CRC and error correction, 236 of them transaction packets."""
GENERATIONS: dict[int, Generation] = {
    1: Generation(2_500_000_000, _OLD, 19),
    2: Generation(5_000_000_000, _OLD, 70),
    3: Generation(8_000_000_000, _NEW, 115),
    4: Generation(16_000_000_000, _NEW, 115),
    5: Generation(32_000_000_000, _NEW, 115),
    6: Generation(64_000_000_000, Fraction(FLIT_DATA_B, FLIT_B), None),
    7: Generation(128_000_000_000, Fraction(FLIT_DATA_B, FLIT_B), None),
}
"""8b/10b, 128b/130b, and flits (256 B, of which CRC and error correction take 14)."""

FRAMING_B, FLIT_FRAMING_B = 8, 0
"""Start, sequence number, link CRC and end around a transaction packet; in flit mode the flit has them."""
WRITE_HEADER_B, READ_HEADER_B = {32: 12, 64: 16}, {32: 12, 64: 16}
"""Header of a memory write and of a read request by address bits."""
COMPLETION_HEADER_B, DIGEST_B = 12, 4
"""Header of a completion with data; end-to-end CRC of any packet where it is on."""
CONTROL_B = 8
"""An acknowledgement, or an update of credits, on the wire."""
SKIP = Fraction(4, 1538)
"""Symbols of the ordered sets that make up for different clocks, per symbols between them."""
ACK_PAYLOAD_OVERHEAD_B = 28
ACK_FACTORS: dict[int, tuple[float, ...]] = {
    128: (1.4, 1.4, 1.4, 2.5, 3.0, 3.0),
    256: (1.4, 1.4, 1.4, 2.5, 3.0, 3.0),
    512: (1.0, 1.0, 1.0, 1.0, 2.0, 2.0),
    1024: (1.0, 1.0, 1.0, 1.0, 2.0, 2.0),
    2048: (1.0, 1.0, 1.0, 1.0, 2.0, 2.0),
    4096: (1.0, 1.0, 1.0, 1.0, 2.0, 2.0),
}
"""Packets that one acknowledgement may cover, by maximum payload and lanes (in the order of ``LANES``)."""


def _one_of(choices: tuple[int, ...], unit: str = "") -> object:
    """Refuses a number that is none of ``choices``."""

    def validate(value: int) -> int:
        if value not in choices:
            raise ValueError(f"{value}{unit} is not one of the choices; expected {', '.join(map(str, choices))}")
        return value

    return AfterValidator(validate)


Payload = Annotated[Bytes, _one_of(PAYLOADS_B, " B")]


class Pcie(Model):
    """PCI Express: the payload rate follows from generation, lanes and packet sizes."""

    generation: Annotated[int, _one_of(tuple(GENERATIONS))] = Field(description="1 to 7")
    lanes: Annotated[int, _one_of(LANES)] = Field(description="1, 2, 4, 8, 16 or 32")
    max_payload: Payload = Field(256, description="most data bytes of a packet")
    max_read_request: Payload = Field(512, description="most data bytes of a read")
    read_completion_boundary: Annotated[Bytes, _one_of(BOUNDARIES_B, " B")] = Field(
        64, description="completions end at its multiples"
    )
    split_completions: bool = Field(
        False, description="completions are one boundary long (old chipsets), not one payload"
    )
    address_bits: Annotated[int, _one_of((32, 64))] = Field(64, description="32 or 64")
    ecrc: bool = Field(False, description="packets carry an end-to-end CRC")
    tags: Parts | None = Field(None, description="reads under way; absent: enough")
    round_trip: Seconds | None = Field(
        None, description="read request to its data, in hardware; bounds reads with tags"
    )

    @property
    def flit_mode(self) -> bool:
        """Return whether packets travel in flits of fixed size."""
        return GENERATIONS[self.generation].delay is None

    @property
    def raw_Bps(self) -> Fraction:
        """All lanes of one direction after line coding (and in flit mode after CRC and error correction), B/s."""
        row = GENERATIONS[self.generation]
        return row.transfers_per_s * self.lanes * row.coding / 8

    @property
    def control_share(self) -> Fraction:
        """Share of the raw rate that acknowledgements, credits and skip sets take."""
        delay = GENERATIONS[self.generation].delay
        if delay is None:
            return Fraction(FLIT_DATA_B - FLIT_TLP_B, FLIT_DATA_B)
        factor = Fraction(str(ACK_FACTORS[self.max_payload][LANES.index(self.lanes)]))
        symbols = int((self.max_payload + ACK_PAYLOAD_OVERHEAD_B) * factor / self.lanes) + delay
        return 2 * Fraction(CONTROL_B, symbols) + SKIP

    @property
    def tlp_Bps(self) -> Fraction:
        """Return the rate that is left for transaction packets, B/s."""
        return self.raw_Bps * (1 - self.control_share)

    @property
    def write_header_B(self) -> int:
        """Bytes that a memory write adds to its data."""
        return self._framed_B(WRITE_HEADER_B[self.address_bits])

    @property
    def read_header_B(self) -> int:
        """Bytes of a read request."""
        return self._framed_B(READ_HEADER_B[self.address_bits])

    @property
    def completion_header_B(self) -> int:
        """Bytes that a completion adds to its data."""
        return self._framed_B(COMPLETION_HEADER_B)

    @property
    def completion_B(self) -> int:
        """Most data bytes of a completion."""
        return self.read_completion_boundary if self.split_completions else self.max_payload

    def _framed_B(self, header_B: int) -> int:
        framing_B = FLIT_FRAMING_B if self.flit_mode else FRAMING_B
        return header_B + framing_B + (DIGEST_B if self.ecrc else 0)

    def framing(self, write: bool) -> Framing:
        """Packets of a write of the device to the far memory, or the completions of its reads."""
        if write:
            return Framing(self.tlp_Bps, self.max_payload, self.write_header_B)
        window = None
        if self.tags is not None and self.round_trip:
            window = self.tags * self.max_read_request / Fraction(str(self.round_trip))
        return Framing(self.tlp_Bps, self.completion_B, self.completion_header_B, 1, window)


class Packets(Model):
    """Packets on parallel links: NVLink, Ethernet."""

    links: Parts = Field(1, description="parallel links, used evenly")
    rate: BytesPerSecond = Field(description="of one link and direction, after line coding")
    max_payload: Width = Field(description="most payload bytes of a packet")
    header: Width = Field(description="bytes around each payload: headers, checksums, preamble, gap")
    granule: Width = Field(1, description="payloads are padded to it (a flit)")
    window: Bytes | None = Field(None, description="payload bytes under way before credits return; absent: enough")
    round_trip: Seconds | None = Field(None, description="packet to its credits; bounds the rate with the window")

    def framing(self, write: bool) -> Framing:
        """Return the same framing for both directions."""
        window = None
        if self.window is not None and self.round_trip:
            window = Fraction(self.window) / Fraction(str(self.round_trip))
        wire = self.links * Fraction(str(self.rate))
        return Framing(wire, self.max_payload, self.header, self.granule, window)


Protocol = Pcie | Packets
"""A block that says how a link packs its bytes."""


RATE_TOLERANCE = 0.005
"""A stated bandwidth may differ this much from that of the packets (files round)."""


def payload_Bps(protocol: Protocol) -> float:
    """Most payload per second of the better direction, B/s: no transfer is faster (rounded up in the last bit)."""
    return nextafter(float(max(protocol.framing(write).payload_Bps for write in (False, True))), inf)


def agree(stated_Bps: float, derived_Bps: float) -> bool:
    """Return whether a stated bandwidth is that of the packets."""
    return abs(stated_Bps - derived_Bps) <= RATE_TOLERANCE * derived_Bps


_FROM_PACKETS: object = None


class Link(Model):
    """A link (PCIe, NVLink, Ethernet): its bandwidth, its packets, or both."""

    kind: Words = Field(description="pcie, nvlink, ...: names the row of tables and plots")
    bandwidth: BytesPerSecond = Field(
        _FROM_PACKETS, description="payload per direction, after protocol overhead; absent: by packets"
    )
    pcie: Pcie | None = Field(None, description="packets of PCI Express")
    packets: Packets | None = Field(None, description="packets of another protocol")
    latency: Seconds = Field(description="first byte sent to first byte received")
    duplex: Literal["full", "half"] = Field("full", description="half: both directions share the rate")
    energy: JoulesPerByte = Field(description="per payload byte, both ends")
    energy_status: Status | None = Field(None, description="how far to trust its energy; absent: a guess")

    @property
    def protocol(self) -> Protocol | None:
        """The block that says how bytes are packed; None where only a bandwidth is stated."""
        return self.pcie or self.packets

    @model_validator(mode="after")
    def _rate_of_packets(self) -> Link:
        """A bandwidth that is not stated, or stated with fewer digits, becomes that of the packets."""
        if self.protocol is None:
            if self.bandwidth is None:
                raise ValueError("has no bandwidth; expected bandwidth: or pcie: or packets:")
            return self
        exact = payload_Bps(self.protocol)
        if self.bandwidth is None or agree(self.bandwidth, exact):
            self.__dict__["bandwidth"] = exact  # the model is frozen for its users
        return self

    @property
    def full_duplex(self) -> bool:
        """Return whether each direction has a rate of its own."""
        return self.duplex == "full"

    def channel(self, name: str, way: str) -> str:
        """Return the channel for the direction ``way`` of the link ``name``; half duplex has one for both."""
        return f"{name} {way}" if self.full_duplex else name


def link_name(link: Link | None) -> str:
    """A link by its own name: 'pcie-gen3-x16', 'ethernet'; '' for none."""
    if link is None or link.pcie is None:
        return link.kind if link is not None else ""
    return f"{link.kind}-gen{link.pcie.generation}-x{link.pcie.lanes}"
