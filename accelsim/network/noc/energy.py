"""Energy of packets: routers that they cross, and wires by their length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accelsim.network.noc.routes import multicast
from accelsim.network.noc.topology import Network
from accelsim.spec.network import Noc
from accelsim.types import Floats


@dataclass(frozen=True)
class NocEnergy:
    """Energy of one transfer: bytes of whole flits, routers and wire that they cross, joules of either."""

    flits_B: int
    routers: int
    wire_mm: float
    router_J: float
    wire_J: float

    @property
    def total_J(self) -> float:
        """Routers and wires, J."""
        return self.router_J + self.wire_J

    @property
    def per_bit_J(self) -> float:
        """Joules for each bit of the flits."""
        return self.total_J / (8 * self.flits_B)


def link_sides(network: Network) -> Floats:
    """Return the length of each link in sides of a node.

    Mesh: 1. Ring and torus: 2, because they are folded so that no link spans the chip (Dally, Towles, 2004, section
    5.3). Bus: all nodes. Tree and fat tree: half the side of the square that the subtree of the upper end covers.
    """
    return LENGTHS[network.name](network)


def _level_lengths(network: Network) -> Floats:
    level = network.places[network.links, 1].max(1)
    side: Floats = np.sqrt(float(network.shape[0]) ** (level + 1)) / 2
    return side


LENGTHS: dict[str, Callable[[Network], Floats]] = {
    "bus": lambda network: np.full(len(network.links), float(network.nodes)),
    "crossbar": lambda network: np.zeros(0),
    "ring": lambda network: np.full(len(network.links), 2.0),
    "mesh": lambda network: np.ones(len(network.links)),
    "torus": lambda network: np.full(len(network.links), 2.0),
    "tree": _level_lengths,
    "fat-tree": _level_lengths,
}
"""Topology -> length of each link in sides of a node."""


def end_sides(network: Network) -> float:
    """Return the wire from a node to its router and from the last router to a node, together, in sides of a node: half
    the chip each way where one crossbar serves all, else 0."""
    return network.nodes**0.5 if network.name == "crossbar" else 0.0


def multicast_energy(noc: Noc, network: Network, source: int, destinations: Sequence[int], nbytes: int) -> NocEnergy:
    """Return the energy of ``nbytes`` from one node to one or many: each link and router of the tree once."""
    tree = multicast(network, source, destinations)
    flits_B = -(-nbytes // noc.flit) * noc.flit
    ends = {int(network.home[node]) for node in (source, *destinations)}
    routers = len(ends | {int(router) for router in network.links[tree].ravel() if router >= 0})
    sides = float(link_sides(network)[tree].sum()) + end_sides(network) * (1 + len(set(destinations))) / 2
    length_mm = sides * noc.wire.length_mm if noc.wire else 0.0
    wire_J = flits_B * length_mm * noc.wire.energy_per_mm if noc.wire else 0.0
    return NocEnergy(flits_B, routers, length_mm, flits_B * routers * noc.router.energy, wire_J)


def transfer_energy(noc: Noc, network: Network, source: int, destination: int, nbytes: int) -> NocEnergy:
    """Return the energy of ``nbytes`` from one node to another."""
    return multicast_energy(noc, network, source, [destination], nbytes)


def traffic_J_per_bit(noc: Noc, network: Network, traffic: Floats) -> float:
    """Return the mean energy of a bit under ``traffic`` [nodes, nodes], J."""
    source, destination = np.nonzero(traffic)
    total = sum(
        float(traffic[i, j]) * transfer_energy(noc, network, i, j, noc.flit).per_bit_J
        for i, j in zip(source.tolist(), destination.tolist(), strict=True)
    )
    return total / float(traffic.sum())
