"""Latency against load: simulation, formula and bound of one network and traffic, for tables and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from accelsim.network.noc import traffic as patterns
from accelsim.network.noc.latency import estimate, zero_load_mean
from accelsim.network.noc.packets import Outcome
from accelsim.network.noc.routes import bound, channel_load, mean_hops
from accelsim.network.noc.simulate import simulate
from accelsim.network.noc.topology import Network, build
from accelsim.spec.network import Noc
from accelsim.types import Floats

LOADS = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98)
"""Shares of the bound at which a sweep simulates, unless loads are given."""

NODE_CLOCKS, LEAST_CLOCKS, PACKETS = 48_000, 600, 4_000
"""Length of a simulation where none is given: clocks of all nodes together, clocks at the least, and packets at the
least (so that the mean of a small load is not that of a few odd ways)."""

STEEP = 10
"""A sweep ends behind the first load whose latency is so many times that of the empty network."""


@dataclass(frozen=True)
class Sweep:
    """What is known of a network under one traffic pattern. Loads in flits per clock and node, latencies in clocks.

    ``load_of_one`` [channels]: flits per clock of each channel at a load of 1; ``measured`` and ``estimated`` (clocks)
    are of the loads that were simulated.
    """

    noc: Noc
    network: Network
    pattern: str
    packet_flits: int
    traffic: Floats
    load_of_one: Floats
    mean_hops: float
    zero_load: float
    bound: float
    measured: tuple[Outcome, ...]
    estimated: tuple[float, ...]


def sweep(
    noc: Noc,
    pattern: str,
    packet_flits: int = 1,
    loads: Sequence[float] = (),
    clocks: int | None = None,
    seed: int = 1,
    told: Callable[[float], None] = lambda share: None,
) -> Sweep:
    """Simulate ``noc`` under a traffic pattern at ``loads`` (absent: ``LOADS`` x the bound), until it is saturated.

    ``clocks``: length of each simulation (absent: see ``NODE_CLOCKS``). ``told`` hears the share that is done. Raises
    UsageError for an unknown pattern, a load that is not in (0, 1], or packets longer than a buffer.
    """
    network = build(noc)
    traffic = patterns.named(pattern, network)
    limit, empty = bound(network, traffic), zero_load_mean(network, noc.router, traffic, packet_flits)
    wanted = sorted(loads) or [min(1.0, round(share * limit, 6)) for share in LOADS]
    found: list[Outcome] = []
    for index, load in enumerate(dict.fromkeys(wanted)):
        told(index / len(wanted))
        length = clocks or _clocks(network.nodes, load, packet_flits)
        found.append(simulate(network, noc.router, traffic, load, packet_flits, length, seed))
        if not loads and found[-1].latency > STEEP * empty:
            break
    estimated = [estimate(network, noc.router, traffic, each.load, packet_flits) for each in found]
    return Sweep(
        noc, network, pattern, packet_flits, traffic, channel_load(network, traffic), mean_hops(network, traffic),
        empty, limit, tuple(found), tuple(estimated),
    )  # fmt: skip


def _clocks(nodes: int, load: float, packet_flits: int) -> int:
    """Length of a simulation at one load."""
    enough = int(PACKETS * packet_flits / (nodes * load)) if load > 0 else 0
    return max(LEAST_CLOCKS, NODE_CLOCKS // nodes, enough)
