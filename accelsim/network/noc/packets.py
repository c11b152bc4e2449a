"""Packets of a simulation and what it measures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.network.noc.topology import COINS
from accelsim.seeds import generator
from accelsim.types import Floats, Ints


@dataclass(frozen=True)
class Traffic:
    """Packets in order of creation: source, destination, clock, and which way round where both are equally long."""

    source: Ints
    destination: Ints
    created: Ints
    coin: Ints


@dataclass(frozen=True)
class Outcome:
    """What a simulation measured. Loads and throughput in flits per clock and node, latency in clocks.

    ``latency``: mean of the packets created while it was measured, infinite when they did not get through, NaN when
    there were none; ``accepted`` [nodes]: flits that arrived per clock by the node that sent them; ``channel_load``:
    flits per clock of each channel; ``least``, ``most``: extremes of the latency; ``hops``: mean links of a packet.
    """

    load: float
    packets: int
    latency: float
    least: float
    most: float
    hops: float
    accepted: Floats
    channel_load: Floats


def draw(traffic: Floats, load: float, packet_flits: int, clocks: int, seed: int) -> Traffic:
    """Random packets: each node starts one with probability ``load`` / ``packet_flits`` per clock, to a destination
    drawn from its row of ``traffic``. The same seed gives the same packets.
    """
    rng = generator(seed)
    nodes = len(traffic)
    started = rng.random((clocks, nodes)) < load / packet_flits
    created, source = np.nonzero(started)
    edges = np.cumsum(traffic, 1) / traffic.sum(1, keepdims=True)
    edges[:, -1] = 1.0
    lot = rng.random(len(source))
    destination = np.zeros(len(source), np.int64)
    for node in range(nodes):
        mine = source == node
        destination[mine] = np.searchsorted(edges[node], lot[mine], side="right")
    return Traffic(source, destination, created, rng.integers(0, COINS, len(source)))
