"""Routes by their rule, against a table of all distances, and what a search costs in a large network."""

from __future__ import annotations

import random

import pytest

from accelsim.cluster.network.topology import Routes
from tests.helpers.effort import calls

Ends = list[tuple[int, int]]


def by_table(vertices: int, ends: Ends, rates: list[int], a: int, b: int) -> tuple[int, ...] | None:
    """The rule as it is stated, from the hops of every vertex to the target."""
    hops, far = {b: 0}, vertices
    for depth in range(1, vertices):
        nearer = {source for source, target in ends if hops.get(target) == depth - 1}
        hops.update({at: depth for at in nearer if at not in hops})
    if a not in hops:
        return None
    way: list[int] = []
    at = a
    while at != b:
        closer = [w for w, (x, y) in enumerate(ends) if x == at and hops.get(y, far) == hops[at] - 1]
        closer = [w for w in closer if not rates or rates[w] == max(rates[each] for each in closer)]
        way.append(closer[(a + b) % len(closer)])
        at = ends[way[-1]][1]
    return tuple(way)


@pytest.mark.parametrize("seed", range(25))
def test_the_rule_on_random_graphs(seed: int) -> None:
    draw = random.Random(seed)
    vertices = draw.randint(1, 12)
    ends = [(draw.randrange(vertices), draw.randrange(vertices)) for _ in range(draw.randint(0, 36))]
    ends += [(b, a) for a, b in ends] if seed % 2 else []
    rates = [draw.choice([1, 2, 2, 3]) for _ in ends] if seed % 3 else []
    routes = Routes(vertices, ends, rates)
    pairs = [(a, b) for a in range(vertices) for b in range(vertices)]
    assert [routes.path(*pair) for pair in pairs] == [by_table(vertices, ends, rates, *pair) for pair in pairs]


def leaves(count: int, each: int) -> tuple[int, Ends]:
    """Vertices and wires of devices at leaf switches, which one spine joins."""
    devices = count * each
    up = [(device, devices + device // each) for device in range(devices)]
    up += [(devices + leaf, devices + count) for leaf in range(count)]
    return devices + count + 1, [*up, *((b, a) for a, b in up)]


def test_a_route_costs_the_same_however_many_devices_there_are() -> None:
    """A table of distances per target would make it grow with their number."""

    def routed(count: int) -> int:
        routes = Routes(*leaves(count, 16))
        return calls(lambda: [routes.path(at * 16, (at * 16 + 16) % (count * 16)) for at in range(16)])

    assert routed(256) < 1.2 * routed(16)
