"""What ASTRA-sim is told of a network and of the system; ``conventions`` says what it makes of that."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

SHAPES = ("Ring", "FullyConnected", "Switch")
ALGORITHMS = ("ring", "direct", "halvingDoubling", "doubleBinaryTree")
NS = 10**6
"""Femtoseconds of a nanosecond."""
NO_MEMORY = 100_000_000.0
"""GB/s of a local memory that costs nothing."""


@dataclass(frozen=True)
class Dimension:
    """One dimension of a network: its shape, devices along it, link bandwidth (GB/s of 2^30 bytes) and latency, and the
    algorithm that is used along it."""

    shape: str
    devices: int
    GBps: float
    latency_ns: float
    algorithm: str

    def message_ns(self, nbytes: int, hops: int) -> int:
        """A message over so many hops, unaware of congestion."""
        return int(hops * Fraction(self.latency_ns) + self.moving_ns(nbytes))

    def moving_ns(self, nbytes: int) -> Fraction:
        """Bytes over the bandwidth, exact."""
        return Fraction(nbytes * 10**9) / (Fraction(self.GBps) * 2**30)

    def hops(self, distance: int) -> int:
        """Links between two devices so many places apart."""
        if self.shape == "Ring":
            return min(distance, self.devices - distance)
        return 2 if self.shape == "Switch" else 1


@dataclass(frozen=True)
class Settings:
    """What ASTRA-sim is told of the system: delay of a step, local memory, splits of the data, how many at once."""

    endpoint_ns: int = 1
    memory_GBps: float = NO_MEMORY
    splits: int = 1
    active: int = 1
    aware: bool = False
    baseline: bool = False

    def adding_ns(self, nbytes: int) -> int:
        """Time of one step that adds so many bytes, in the local memory."""
        return 3 * int(Fraction(nbytes) / Fraction(self.memory_GBps))
