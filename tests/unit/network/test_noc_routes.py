"""Topologies: connected, minimal, with the loads and bounds of the textbook."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.network.noc import routes as r
from accelsim.network.noc import sweep as t
from accelsim.network.noc.topology import COINS, TOPOLOGIES, Network, build, named
from accelsim.spec.network import SHAPES, Noc, Topology
from accelsim.spec.yaml import where
from accelsim.spec.yaml.parts import load_part

SIZES = [
    ("bus", (5,)), ("crossbar", (6,)), ("ring", (7,)), ("ring", (8,)), ("mesh", (4, 3)), ("mesh", (1, 5)),
    ("torus", (4, 4)), ("torus", (5, 3)), ("torus", (2, 6)), ("tree", (2, 3)), ("tree", (3, 2)), ("tree", (4, 1)),
    ("fat-tree", (2, 3)), ("fat-tree", (3, 2)), ("fat-tree", (4, 1)),
]  # fmt: skip
networks = pytest.mark.parametrize(
    "network", [named(name, *shape) for name, shape in SIZES], ids=lambda n: f"{n.name}{n.shape}"
)


def distances(network: Network) -> np.ndarray:
    """Links between routers by breadth-first search, without the routing."""
    away = np.where(np.eye(network.routers, dtype=bool), 0, 10**6)
    for _ in range(network.routers):
        for start, end in network.links:
            away[:, end] = np.minimum(away[:, end], away[:, start] + 1)
    return away


def test_registry_is_that_of_the_spec() -> None:
    assert set(TOPOLOGIES) == set(SHAPES) == set(Topology.__args__)  # type: ignore[attr-defined]


@networks
def test_routes_arrive_by_links_that_follow_each_other(network: Network) -> None:
    pairs = np.arange(network.nodes**2)
    source, destination = pairs // network.nodes, pairs % network.nodes
    for coin in range(COINS):
        way = r.routes(network, source, destination, np.full_like(source, coin))
        for links, start, end in zip(way, source, destination, strict=True):
            at = network.home[start]
            for link in links[links >= 0]:
                begin, goal = network.links[link]
                assert begin in (at, -1)
                at = network.home[end] if goal < 0 else goal
            assert at == network.home[end]


@networks
def test_routes_are_minimal(network: Network) -> None:
    if network.name == "bus":
        assert (r.hops(network) == 1 - np.eye(network.nodes)).all()
        return
    assert (r.hops(network) == distances(network)[np.ix_(network.home, network.home)]).all()


@networks
def test_load_is_hops(network: Network) -> None:
    """Flits on links are flits x links crossed; injection and ejection carry the rows and columns of the matrix."""
    traffic = np.random.default_rng(1).random((network.nodes, network.nodes))
    load = r.channel_load(network, traffic)
    nodes = network.nodes
    assert load[2 * nodes :].sum() == pytest.approx((traffic * r.hops(network)).sum())
    assert load[:nodes] == pytest.approx(traffic.sum(1)) and load[nodes : 2 * nodes] == pytest.approx(traffic.sum(0))


@pytest.mark.parametrize("k", [2, 4, 6, 8, 16])
def test_uniform_closed_forms(k: int) -> None:
    """Mean links 2 (k^2 - 1) / 3k and k / 2; bounds min(1, 4 / k) and min(1, 8 / k)."""
    mesh, torus = named("mesh", k, k), named("torus", k, k)
    even = t.named("uniform", mesh)
    assert r.mean_hops(mesh, even) == pytest.approx(2 * (k * k - 1) / (3 * k))
    assert r.mean_hops(torus, even) == pytest.approx(k / 2)
    assert r.bound(mesh, even) == pytest.approx(min(1, 4 / k))
    assert r.bound(torus, even) == pytest.approx(min(1, 8 / k))
    if k > 2:
        assert r.bound(mesh, t.named("transpose", mesh)) == pytest.approx(1 / (k - 1))


def test_bounds_of_the_others() -> None:
    uniform = {name: r.bound(n, t.named("uniform", n)) for name, n in
               {"bus": named("bus", 8), "crossbar": named("crossbar", 8), "tree": named("tree", 4, 2),
                "fat": named("fat-tree", 4, 2), "fat3": named("fat-tree", 2, 4)}.items()}  # fmt: skip
    assert uniform["bus"] == pytest.approx(1 / 7)  # 8 nodes, 7/8 of the packets use the one medium
    assert uniform["crossbar"] == 1
    assert uniform["tree"] == pytest.approx(1 / 3)  # 4 nodes share a link, 3/4 of their packets go up
    assert uniform["fat"] == uniform["fat3"] == 1


def test_odd_torus_and_unused_dimension() -> None:
    torus = named("torus", 5, 5)
    assert r.bound(torus, t.named("uniform", torus)) == pytest.approx(min(1, 8 * 5 / 24))
    assert len(named("torus", 1, 4).links) == 8
    assert named("mesh", 1, 1).channels == 2


def test_patterns() -> None:
    mesh = named("mesh", 4, 4)
    for name in t.TRAFFIC:
        traffic = t.named(name, mesh)
        assert traffic.sum(1) == pytest.approx(np.ones(16)) and (traffic >= 0).all()
    assert t.named("transpose", mesh)[1].argmax() == 4
    assert t.named("bit-complement", mesh)[3].argmax() == 12
    assert t.named("neighbour", mesh)[7].argmax() == 4
    hot = t.named("hotspot", mesh).sum(0)
    assert hot.argmax() == 10 and hot.max() == pytest.approx(16 * 0.2 + 0.8)
    with pytest.raises(UsageError, match="did you mean 'transpose'"):
        t.named("transposed", mesh)
    with pytest.raises(UsageError, match="as many rows"):
        t.named("transpose", named("mesh", 4, 2))


def test_multicast_counts_each_link_once() -> None:
    mesh = named("mesh", 4, 4)
    assert len(r.multicast(mesh, 5, [4, 6, 7])) == len(r.multicast(mesh, 5, [1, 9, 13])) == 3
    everybody = r.multicast(mesh, 5, range(16))
    assert len(everybody) == 15  # a spanning tree
    unicast = sum(r.hops(mesh)[5])
    assert unicast > 15
    assert len(r.multicast(mesh, 5, [5])) == 0


def test_rivals_are_packets_from_elsewhere() -> None:
    """In a line all packets of a link came through the link before or the node: two sources of known weight."""
    line = named("mesh", 3, 1)
    traffic = np.zeros((3, 3))
    traffic[0, 2], traffic[1, 2] = 0.3, 0.1
    found = r.rivals(line, traffic)
    last = 2 * 3 + next(i for i, link in enumerate(line.links.tolist()) if link == [1, 2])
    assert found[last] == pytest.approx(1 - (0.75**2 + 0.25**2))
    assert (found[:3] == 0).all() and found[3 + 2] == pytest.approx(0)


def test_wrong_names_and_shapes() -> None:
    with pytest.raises(UsageError, match="did you mean 'torus'"):
        named("toros", 4, 4)
    with pytest.raises(UsageError, match="columns and rows"):
        named("mesh", 4)
    with pytest.raises(UsageError, match="4 x 4 of numbers"):
        r.channel_load(named("ring", 4), np.ones((3, 3)))
    for wrong in ({"shape": [4]}, {"topology": "ring", "shape": [4], "router": {"virtual_channels": 1}}):
        with pytest.raises(ValueError, match=r"does not fit|deadlock"):
            Noc.model_validate({"topology": "mesh", "clock": "1 GHz", "flit": "16 B", **wrong})


@pytest.mark.parametrize("name", where.names("networks"))
def test_shipped_networks_are_built(name: str) -> None:
    noc = load_part(name, "networks", Noc)
    network = build(noc)
    assert name.startswith(network.name) and noc.flit * float(noc.clock) == 32e9
    assert r.hops(network).max() >= (0 if network.name == "crossbar" else 1)
