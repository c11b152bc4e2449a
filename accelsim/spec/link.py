"""A link: what one may state of it, and how its bandwidth follows from its packets."""

from __future__ import annotations

from typing import Any, Literal

from accelsim.spec.base import Model
from accelsim.spec.counts import Words
from accelsim.spec.declaring import Field, model_validator
from accelsim.spec.protocol import Packets, Pcie, Protocol, agree, payload_Bps
from accelsim.spec.quantity import BytesPerSecond, JoulesPerByte, Seconds
from accelsim.spec.status import Status

_FROM_PACKETS: Any = None


class Link(Model):
    """A link (PCIe, NVLink, Ethernet): its bandwidth, its packets, or both."""

    kind: Words = Field(description="pcie, nvlink, ...: names the row of tables and plots")
    bandwidth: BytesPerSecond = Field(
        _FROM_PACKETS,
        description="payload per direction, after protocol overhead; absent: by packets",
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
        """Return what carries the direction ``way`` of the link called ``name``; half duplex: one channel for both."""
        return f"{name} {way}" if self.full_duplex else name


def link_name(link: Link | None) -> str:
    """A link by its own name: 'pcie-gen3-x16', 'ethernet'; '' for none."""
    if link is None or link.pcie is None:
        return link.kind if link is not None else ""
    return f"{link.kind}-gen{link.pcie.generation}-x{link.pcie.lanes}"
