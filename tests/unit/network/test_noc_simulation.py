"""Packets through a network: zero load exactly, waiting by hand, load against BookSim 2, overload within the bounds."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.errors import UsageError
from accelsim.network.noc import routes as r
from accelsim.network.noc import sweep as t
from accelsim.network.noc.routes import estimate, waits, zero_load, zero_load_mean
from accelsim.network.noc.simulate import Traffic, draw, replay, simulate
from accelsim.network.noc.sweep import sweep
from accelsim.network.noc.topology import named
from accelsim.spec.network import Noc, Router
from accelsim.spec.yaml.parts import load_part
from tests.validation.noc import LOAD, golden_rows, load_errors, setting, zero_load_differences

ROUTER = Router()


def packets(*rows: tuple[int, int, int]) -> Traffic:
    """(clock, source, destination) of each packet."""
    clock, source, destination = (np.array(column) for column in zip(*rows, strict=True))
    return Traffic(source, destination, clock, np.zeros_like(clock))


@pytest.mark.parametrize("topology", ["bus", "crossbar", "ring", "mesh", "torus", "tree", "fat-tree"])
@pytest.mark.parametrize("router", [ROUTER, Router(routing=2, traversal=2, link=3, injection=0, vc_allocation=0)])
def test_a_lone_packet_takes_the_time_of_the_formula(topology: str, router: Router) -> None:
    shape = {"mesh": (3, 3), "torus": (4, 3), "tree": (2, 3), "fat-tree": (2, 3)}.get(topology, (6,))
    network = named(topology, *shape)
    links = r.hops(network)
    for flits in (1, 5):
        for source, destination in ((0, 0), (0, network.nodes - 1), (network.nodes // 2, 1)):
            found = replay(network, router, packets((1, source, destination)), 0.1, flits, 2)
            assert found.latency == zero_load(router, links[source, destination], flits)
            assert found.hops == links[source, destination]


def test_zero_load_of_the_default_router() -> None:
    assert zero_load(ROUTER, 3, 4) == 2 + 5 * 4 + 3


def test_two_packets_that_meet_by_hand() -> None:
    """Both want node 2 of a line at once: one waits while the flits of the other pass the link."""
    line = named("mesh", 3, 1)
    alone = float(zero_load(ROUTER, 1, 4))
    found = replay(line, ROUTER, packets((1, 0, 2), (6, 1, 2)), 0.1, 4, 7)
    # the packet of node 0 is ready at router 1 at 1 + 1 + 3 + 2 + 3 = 10, that of node 1 at 6 + 1 + 3 = 10 too
    assert (found.least, found.most) == (alone + 4, zero_load(ROUTER, 2, 4)) == (19, 20)


def test_a_source_sends_one_flit_per_clock() -> None:
    bar = named("crossbar", 4)
    found = replay(bar, ROUTER, packets((1, 0, 1), (1, 0, 2)), 0.1, 3, 2)
    assert found.most - found.least == 3


@pytest.mark.parametrize("row", golden_rows(), ids=lambda row: "-".join([*row.values()][:1] + [*row.values()][1:5]))
def test_empty_networks_are_those_of_booksim(row: dict[str, str]) -> None:
    assert zero_load_differences(row) == []


@pytest.mark.parametrize(
    "row", [row for row in golden_rows() if row["k"] == "4" or row["packet_flits"] == "4"],
    ids=lambda row: "-".join([*row.values()][:5]),
)  # fmt: skip
def test_load_is_that_of_booksim(row: dict[str, str]) -> None:
    simulated, formula = load_errors(row)
    assert abs(simulated) < 0.03 and abs(formula) < 0.04


@pytest.mark.parametrize("index", [0, 1, 2, 3, 8, 9, 11])
def test_overload_stays_within_the_bound(index: int) -> None:
    """No channel above a flit per clock; uniform traffic below the bound; else the node that gets least is."""
    row = golden_rows()[index]
    network, traffic, flits = setting(row)
    clocks = 1200
    found = simulate(network, ROUTER, traffic, 1.0, flits, clocks)
    assert found.channel_load.max() <= 1 + flits / (0.75 * clocks)
    limit = r.bound(network, traffic)
    assert found.accepted.min() <= limit + 0.02
    if row["traffic"] == "uniform":
        assert found.accepted.mean() <= limit
        assert found.accepted.mean() == pytest.approx(float(row["accepted_overload_mean"]), rel=0.2)
    if row["topology"] == "mesh" and row["traffic"] == "transpose":
        assert found.accepted.mean() == pytest.approx(float(row["accepted_overload_mean"]), rel=0.05)
    assert found.latency == float("inf") or found.latency > 3 * zero_load_mean(network, ROUTER, traffic, flits)


def test_smaller_buffers_carry_less() -> None:
    network, traffic, _ = setting(golden_rows()[0])
    small = Router(virtual_channels=2, buffer_flits=1)
    few = simulate(network, small, traffic, 0.9, 1, 1000).accepted.mean()
    many = simulate(network, ROUTER, traffic, 0.9, 1, 1000).accepted.mean()
    assert few < 0.8 * many


def test_the_same_seed_gives_the_same_packets() -> None:
    network, traffic, _ = setting(golden_rows()[0])
    one, two, other = (simulate(network, ROUTER, traffic, 0.2, 1, 400, seed) for seed in (1, 1, 2))
    assert (one.latency, one.packets) == (two.latency, two.packets)
    assert one.latency != other.latency


def test_drawn_packets_follow_the_matrix() -> None:
    traffic = np.array([[0.0, 1.0], [0.5, 0.5]])
    drawn = draw(traffic, 0.5, 2, 20_000, 3)
    assert len(drawn.source) == pytest.approx(2 * 20_000 * 0.25, rel=0.03)
    assert (drawn.destination[drawn.source == 0] == 1).all()
    assert drawn.destination[drawn.source == 1].mean() == pytest.approx(0.5, abs=0.03)
    assert (np.diff(drawn.created) >= 0).all()


def test_waiting_is_that_of_the_queue() -> None:
    assert waits(np.array([0.0, 0.5, 1.0]), 4).tolist() == [0.0, 2.0, float("inf")]


@pytest.mark.parametrize("flits", [1, 4])
def test_formula_is_close_below_half_of_the_bound(flits: int) -> None:
    mesh = named("mesh", 4, 4)
    for name in ("uniform", "transpose", "hotspot"):
        traffic = t.named(name, mesh)
        limit = r.bound(mesh, traffic)
        for share in (0.1, 0.4):
            found = simulate(mesh, ROUTER, traffic, share * limit, flits, 2000 + 1000 * flits)
            assert estimate(mesh, ROUTER, traffic, share * limit, flits) == pytest.approx(found.latency, rel=0.06)
        assert estimate(mesh, ROUTER, traffic, limit * 1.001, flits) == float("inf")


def test_sweep_ends_when_the_network_is_full() -> None:
    found = sweep(load_part("mesh-4x4", "networks", Noc), "transpose", clocks=400)
    loads = [each.load for each in found.measured]
    assert loads == sorted(loads) and loads[-1] <= found.bound
    assert len(found.estimated) == len(loads)
    given = sweep(load_part("mesh-4x4", "networks", Noc), "uniform", 2, [0.3, 0.1], clocks=300)
    assert [each.load for each in given.measured] == [0.1, 0.3]


@pytest.mark.parametrize(("load", "flits"), [(0.0, 1), (1.5, 1), (0.5, 9), (0.5, 0)])
def test_impossible_simulations_are_refused(load: float, flits: int) -> None:
    mesh = named("mesh", 2, 2)
    with pytest.raises(UsageError):
        simulate(mesh, ROUTER, t.named("uniform", mesh), load, flits)


def test_the_load_of_the_golden_runs() -> None:
    assert LOAD == 0.1 and len(golden_rows()) == 16
