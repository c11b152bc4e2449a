"""Ways through a network, and how long a message takes that meets no other."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from accelsim.cluster.network.topology import Topology, Wire
from accelsim.errors import UsageError
from tests.helpers.cluster_networks import NS, full, nodes, ring, switch, topology
from tests.helpers.effort import calls

GB = 10**9


def test_fewest_hops() -> None:
    net = ring(8)
    assert [len(net.route(0, b)) for b in range(8)] == [0, 1, 2, 3, 4, 3, 2, 1]
    assert [len(nodes(2, 2).route(0, b)) for b in range(4)] == [0, 2, 4, 4]


def test_a_way_begins_and_ends_where_it_should() -> None:
    net = nodes(3, 2)
    for a in range(6):
        for b in range(6):
            way = [net.wires[wire] for wire in net.route(a, b)]
            assert [a, *(wire.target for wire in way)] == [*(wire.source for wire in way), b]


def test_ties_are_spread_by_the_sum_of_both_ends() -> None:
    """Two devices each on two switches: even sums go over the first, odd ones over the second."""
    ends = [(d, s) for d in range(4) for s in (4, 5)] + [(s, d) for s in (4, 5) for d in range(4)]
    net = topology("two-switches", 4, ends)
    passed = {(a, b): net.wires[net.route(a, b)[0]].target for a in range(4) for b in range(4) if a != b}
    assert all(switch == 4 + (a + b) % 2 for (a, b), switch in passed.items())


def test_of_equally_short_ways_the_fastest() -> None:
    ends = [(0, 2), (2, 1), (0, 3), (3, 1)]
    net = topology("slow-and-fast", 2, ends, rate=[GB, GB, 9 * GB, 9 * GB])
    assert net.route(0, 1) == (2, 3)


def test_a_router_of_ones_own() -> None:
    net = replace(ring(4), router=lambda a, b: [a * 2] * 2)
    assert net.route(1, 3) == (2, 2)
    assert net.route(1, 1) == ()


def test_no_way_names_both_ends() -> None:
    net = topology("apart", 3, [(0, 1), (1, 0)])
    with pytest.raises(UsageError, match="apart: no way leads from gpu0 to gpu2"):
        net.route(0, 2)


def test_no_such_devices_are_told_at_once() -> None:
    with pytest.raises(UsageError) as told:
        ring(4).route(7, 9)
    assert [problem.what for problem in told.value.problems] == ["no device 7", "no device 9"]


def test_occupancy_is_exact_and_rounded_down() -> None:
    net = Topology("one", 2, ("a", "b"), (Wire(0, 1, 0, Fraction(3), 0.0, "slow"),), (0, 0))
    assert net.occupancy_fs(0, 1) == 333_333_333_333_333
    assert net.occupancy_fs(0, 3_000_000_000_000) == 10**27


@pytest.mark.parametrize(("forwarding", "times"), [("cut-through", 1), ("store-and-forward", 2)])
def test_a_message_over_a_switch(forwarding: str, times: int) -> None:
    net = switch(4, forwarding=forwarding, overhead_fs=7)
    busy = 10**15 * 1000 // (50 * GB)
    assert net.message_fs(0, 3, 1000) == 7 + 2 * 500 * NS + times * busy
    assert net.message_fs(2, 2, 1000) == 0


def test_the_slowest_wire_sets_the_pace_of_cut_through() -> None:
    net = nodes(2, 2)
    assert net.message_fs(0, 2, 10**6) == 11_000 * NS + 10**15 * 10**6 // (10 * GB)


def test_equal_networks_are_one_key() -> None:
    assert full(3) == full(3)
    assert len({full(3), full(3), full(4)}) == 2


@pytest.mark.parametrize("rates", [(GB, GB), (2 * GB, 3 * GB), (3 * GB, GB)])
def test_a_faster_link_has_the_routes_of_a_network_with_it(rates: tuple[int, int]) -> None:
    """Two links compete for each route: twice as fast, the second wins where it did not."""
    ends = [(0, 2), (2, 1), (0, 3), (3, 1)]
    net = topology("two-links", 2, ends, rate=[rates[0], rates[0], rates[1], rates[1]])
    named = [wire._replace(link=name) for wire, name in zip(net.wires, "aabb", strict=True)]
    net = replace(net, wires=tuple(named))
    net.route(0, 1)
    faster = net.with_faster("b", 2)
    assert [wire.rate for wire in faster.wires[2:]] == [2 * rates[1]] * 2
    assert faster.route(0, 1) == ((2, 3) if 2 * rates[1] > rates[0] else (0, 1))


def test_a_faster_link_keeps_routes_that_nothing_competed_for() -> None:
    net = nodes(2, 2)
    known = net.route(0, 3)
    faster = net.with_faster(net.wires[known[0]].link, 2)
    assert calls(faster.route, 0, 3) < 10 < calls(replace(faster).route, 0, 3)
    assert faster.route(0, 3) == known
