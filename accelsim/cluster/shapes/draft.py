"""A topology in the making: vertices, wires between them, tori whose routes follow the dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from accelsim.cluster.network.topology import Wire
from accelsim.spec.cluster import bundled
from accelsim.spec.link import Link
from accelsim.spec.protocol import payload_Bps
from accelsim.time import FS_PER_S


class End(NamedTuple):
    """What a fabric wires: a vertex, its label, how many ports stand for one wire, and a link of its own or None."""

    vertex: int
    label: str
    ports: int = 1
    link: Link | None = None


class Built(NamedTuple):
    """What a shape has made besides wires: ``hubs``, the switches that a wide-area link may be joined to;
    ``torus``, the wires of a grid by (end, dimension, direction), {} of other shapes."""

    hubs: tuple[int, ...] = ()
    torus: dict[tuple[int, int, int], int] = {}  # noqa: RUF012 (a default that nobody writes to)


@dataclass
class Draft:
    """Labels of vertices, devices first, wires so far, and the switches that add up."""

    labels: list[str] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    summing: list[int] = field(default_factory=list)
    _rates: dict[tuple[int, int], Fraction] = field(default_factory=dict)
    _links: list[Link] = field(default_factory=list)

    def vertex(self, label: str) -> int:
        """A new vertex."""
        self.labels.append(label)
        return len(self.labels) - 1

    def join(self, a: int, b: int, name: str, link: Link, *, rate: Fraction | None = None,
             latency_fs: int | None = None) -> tuple[int, int]:  # fmt: skip
        """A wire in each direction; ``rate`` and ``latency_fs`` where they are not those of the link. Their numbers."""
        Bps = self.rate(link) if rate is None else rate
        delay_fs = latency_of(link) if latency_fs is None else latency_fs
        first = len(self.wires)
        self.wires.append(Wire(a, b, delay_fs, Bps, float(link.energy), name))
        self.wires.append(Wire(b, a, delay_fs, Bps, float(link.energy), name))
        return first, first + 1

    def rate(self, link: Link, links: int | None = None) -> Fraction:
        """Payload bytes per second of ``links`` of those that a link bundles, of all of them by default."""
        key = id(link), bundled(link) if links is None else links
        if key not in self._rates:
            self._links.append(link)  # an id is that of the link only while it lives
            self._rates[key] = exact_Bps(link) * Fraction(key[1], bundled(link))
        return self._rates[key]


def exact_Bps(link: Link) -> Fraction:
    """Payload bytes per second of one direction: that of the packets, exactly, or as it is stated."""
    protocol = link.protocol
    if protocol is not None and link.bandwidth == payload_Bps(protocol):
        return max(protocol.framing(write).payload_Bps for write in (False, True))
    return Fraction(str(link.bandwidth))


@cache
def fs_of(seconds: float) -> int:
    """A time of a spec, fs, rounded down."""
    return int(Fraction(str(seconds)) * FS_PER_S)


def latency_of(link: Link) -> int:
    """Latency of a link, fs."""
    return fs_of(link.latency)
