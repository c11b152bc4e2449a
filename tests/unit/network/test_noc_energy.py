"""Energy of packets: routers and millimetres by hand."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.network.noc import energy as e
from accelsim.network.noc.sweep import named as pattern
from accelsim.network.noc.topology import TOPOLOGIES, build, named
from accelsim.spec.network import Noc
from accelsim.spec.yaml.parts import load_part

MESH = load_part("mesh-4x4", "networks", Noc)
ROUTER_J_PER_B, WIRE_J_PER_B = 8 * 0.081e-12, 8 * 100e-15


def test_one_transfer_by_hand() -> None:
    """33 B are two flits of 32 B; node 0 to node 3 is three links of 1 mm and four routers."""
    found = e.transfer_energy(MESH, build(MESH), 0, 3, 33)
    assert (found.flits_B, found.routers, found.wire_mm) == (64, 4, 3.0)
    assert found.router_J == pytest.approx(64 * 4 * ROUTER_J_PER_B, rel=1e-9, abs=0)
    assert found.wire_J == pytest.approx(64 * 3 * WIRE_J_PER_B, rel=1e-9, abs=0)
    assert found.per_bit_J == pytest.approx(4 * 0.081e-12 + 3 * 100e-15, rel=1e-9, abs=0)
    assert e.transfer_energy(MESH, build(MESH), 5, 5, 1).routers == 1


def test_a_multicast_pays_each_link_once() -> None:
    network = build(MESH)
    tree = e.multicast_energy(MESH, network, 0, [1, 2, 3], 32)
    singly = [e.transfer_energy(MESH, network, 0, node, 32) for node in [1, 2, 3]]
    assert (tree.routers, tree.wire_mm) == (4, 3.0)
    assert sum(each.wire_mm for each in singly) == 6
    assert tree.total_J < sum(each.total_J for each in singly)


def test_lengths() -> None:
    assert set(e.LENGTHS) == set(TOPOLOGIES)
    for name, shape in (("bus", (6,)), ("ring", (6,)), ("mesh", (3, 3)), ("torus", (3, 3)), ("tree", (4, 2))):
        network = named(name, *shape)
        assert len(e.link_sides(network)) == len(network.links)
    assert set(e.link_sides(named("tree", 4, 3))) == {2.0, 4.0}  # half of the sides of 16 and 64 nodes
    assert e.transfer_energy(load_part("crossbar-16", "networks", Noc), named("crossbar", 16), 0, 1, 32).wire_mm == 4.0
    assert e.transfer_energy(load_part("bus-16", "networks", Noc), named("bus", 16), 0, 1, 32).wire_mm == 16.0


def test_mean_of_a_pattern() -> None:
    network = build(MESH)
    mean = e.traffic_J_per_bit(MESH, network, pattern("uniform", network))
    assert mean == pytest.approx(3.5 * 0.081e-12 + 2.5 * 100e-15, rel=1e-9, abs=0)
    no_wire = MESH.model_copy(update={"wire": None})
    assert e.traffic_J_per_bit(no_wire, network, np.eye(16)) == pytest.approx(0.081e-12, rel=1e-9, abs=0)
