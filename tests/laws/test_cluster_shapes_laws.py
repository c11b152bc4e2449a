"""Laws of clusters for any sizes: all reach all, routes are chains, cuts grow with links, tori are minimal."""

from __future__ import annotations

from math import prod
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.building import build
from accelsim.cluster.shapes.facts import bisection_Bps
from accelsim.cluster.shapes.wiring import steps
from accelsim.spec.cluster import ClusterSpec
from accelsim.spec.laws.cluster import cluster_findings

Spec = dict[str, Any]


def link(rate: str = "1 GB/s") -> Spec:
    return {"kind": "wire", "bandwidth": rate, "latency": "1 us", "energy": "1 pJ/B"}


FABRICS: dict[str, Spec] = {
    "ring": {},
    "switch": {},
    "fully-connected": {},
    "pcie-tree": {"members": 2},
    "leaf-spine": {"members": 3, "spines": 2},
}
"""Shape -> fields with which any number of ends fits."""


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Nodes with a fabric, cards or none, a network."""
    each, inner, outer = (
        draw(st.integers(1, 6)),
        draw(st.sampled_from(list(FABRICS))),
        draw(st.sampled_from(list(FABRICS))),
    )
    node: Spec = {
        "count": draw(st.integers(1, 5)),
        "devices": {"d": {"chip": "edu-4x4", "count": each}},
        "fabrics": {"in": {"shape": inner, "link": link(), **FABRICS[inner]}},
    }
    cards = draw(st.sampled_from([None, *(n for n in range(1, each + 1) if each % n == 0), 2 * each]))
    if cards is not None:
        node["nics"] = {"count": cards, "pcie": link("3 GB/s")}
    networks = {"out": {"shape": outer, "link": link(), **FABRICS[outer]}}
    return {"name": "drawn", "title": "drawn", "nodes": {"n": node}, "networks": networks}


def made(spec: Spec) -> Topology:
    cluster = ClusterSpec.model_validate(spec)
    assert list(cluster_findings(cluster)) == []
    return build(cluster)


def ways(topology: Topology) -> list[tuple[int, int, tuple[int, ...]]]:
    return [(a, b, topology.route(a, b)) for a in range(topology.ranks) for b in range(topology.ranks) if a != b]


@settings(max_examples=40)
@given(specs())
def test_a_cluster_without_findings_is_connected_by_chains_without_loops(spec: Spec) -> None:
    topology = made(spec)
    assert topology.labels == tuple(dict.fromkeys(topology.labels))
    for a, b, way in ways(topology):
        passed = [a]
        for number in way:
            assert topology.wires[number].source == passed[-1]
            passed.append(topology.wires[number].target)
        assert passed[-1] == b and len(set(passed)) == len(passed)


@settings(max_examples=15)
@given(specs())
def test_a_faster_network_makes_no_cut_narrower(spec: Spec) -> None:
    slow = made(spec)
    spec["networks"]["out"]["link"] = link("2 GB/s")
    assert bisection_Bps(made(spec)) >= bisection_Bps(slow)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), st.data())
def test_ways_on_a_torus_are_as_long_back_as_forth_and_minimal(dims: list[int], data: st.DataObject) -> None:
    a, b = (data.draw(st.integers(0, prod(dims) - 1)) for _ in range(2))
    least = 0
    for index, size in enumerate(dims):
        apart = abs(a // prod(dims[:index]) % size - b // prod(dims[:index]) % size)
        least += min(apart, size - apart)
    assert len(list(steps(dims, a, b))) == len(list(steps(dims, b, a))) == least
