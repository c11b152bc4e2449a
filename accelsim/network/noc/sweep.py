"""Latency against load: simulation, formula and bound of one network and traffic pattern, for tables and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.errors import UsageError, nearest
from accelsim.network.noc.routes import bound, channel_load, estimate, mean_hops, zero_load_mean
from accelsim.network.noc.simulate import Outcome, simulate
from accelsim.network.noc.topology import TOPOLOGIES, Network, build
from accelsim.spec.network import SHAPES, Noc
from accelsim.spec.yaml.parts import load_part
from accelsim.types import Floats, Ints

LOADS = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98)
"""Shares of the bound at which a sweep simulates, unless loads are given."""

NODE_CLOCKS, LEAST_CLOCKS, PACKETS = 48_000, 600, 4_000
"""Length of a simulation where none is given: clocks of all nodes together, clocks at the least, and packets at the
least (so that the mean of a small load is not that of a few odd routes)."""

STEEP = 10
"""A sweep ends after the first load whose latency is so many times that of the empty network."""


@dataclass(frozen=True)
class Sweep:
    """Results of a network under one traffic pattern. Loads in flits per clock and node, latencies in clocks.

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
    traffic = named(pattern, network)
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


# Nodes are numbered row by row: node x + columns * y stands in column x of row y (of the square that they would form,
# where the topology has no rows). Patterns: Dally and Towles, "Principles and Practices of Interconnection Networks",
# 2004, Table 3.1.

HOT_SHARE = 0.2
"""Share of all packets that the hot node gets beyond its even share."""


def named(name: str, network: Network) -> Floats:
    """Return the matrix [nodes, nodes] of the pattern ``name``: row i gives the shares of node i's packets by
    destination.

    Raises UsageError when there is no such pattern, or the nodes form no square for a transpose.
    """
    if name not in TRAFFIC:
        raise UsageError(f"no traffic {name!r}", "", "one of " + ", ".join(TRAFFIC), nearest(name, TRAFFIC))
    return TRAFFIC[name](network)


def _permutation(destination: Ints) -> Floats:
    return np.eye(len(destination))[destination]


def _uniform(network: Network) -> Floats:
    """To every node alike, itself included."""
    return np.full((network.nodes, network.nodes), 1.0 / network.nodes)


def _transpose(network: Network) -> Floats:
    """From column x of row y to column y of row x."""
    columns, rows = network.grid
    if columns != rows:
        raise UsageError(f"transpose on {columns} x {rows} nodes", expected="as many rows as columns")
    node = np.arange(network.nodes)
    return _permutation(node % columns * columns + node // columns)


def _neighbour(network: Network) -> Floats:
    """To the next node of the same row, from the last to the first."""
    columns = network.grid[0]
    node = np.arange(network.nodes)
    return _permutation(node - node % columns + (node % columns + 1) % columns)


def _complement(network: Network) -> Floats:
    """From node i to node nodes - 1 - i: all bits of the number turned round."""
    return _permutation(network.nodes - 1 - np.arange(network.nodes))


def _hotspot(network: Network) -> Floats:
    """Uniform, but a share of all packets goes to the node in the middle."""
    columns, rows = network.grid
    traffic = _uniform(network) * (1 - HOT_SHARE)
    traffic[:, rows // 2 * columns + columns // 2] += HOT_SHARE
    return traffic


TRAFFIC: dict[str, Callable[[Network], Floats]] = {
    "uniform": _uniform,
    "transpose": _transpose,
    "neighbour": _neighbour,
    "hotspot": _hotspot,
    "bit-complement": _complement,
}
"""Pattern by name; a new one is a function and a line here."""


EXAMPLE = "mesh-4x4"
"""The network whose clock, flits, routers and wires a bare topology takes."""


def load_noc(name: str, shape: tuple[int, ...] = (), overrides: Sequence[str] = ()) -> Noc:
    """Load a network by name or file, or make a topology of a shape with the routers of ``EXAMPLE``.

    Raises SpecError, and UsageError for a shape that the name does not take.
    """
    if name not in TOPOLOGIES:
        if shape:
            raise UsageError(f"a size beside {name!r}", expected="a topology: " + ", ".join(TOPOLOGIES))
        return load_part(name, "networks", Noc, overrides)
    if len(shape) != len(SHAPES[name]):
        wanted = " and ".join(SHAPES[name])
        raise UsageError(f"{name} with {len(shape)} sizes", expected=wanted)
    chosen = (f"topology={name}", f"shape={list(shape)}")
    return load_part(EXAMPLE, "networks", Noc, (*chosen, *overrides))
