"""Shapes of fabrics: a registry that fits the specs, wires that are those of the shape."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import prod
from pathlib import Path

import pytest

from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.building import build
from accelsim.cluster.shapes.facts import bisection_Bps
from accelsim.cluster.shapes.wiring import SHAPES
from accelsim.spec import cluster as spec
from accelsim.spec.cluster import Fabric
from accelsim.spec.yaml.clusters import balanced, load_cluster

LINK = "{kind: wire, bandwidth: 1 GB/s, latency: 1 us, energy: 1 pJ/B}"
RATE = 10**9
Make = Callable[..., Topology]


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """The topology of one node of some devices with one fabric, by its fields."""

    def make(count: int, fabric: str, *more: str) -> Topology:
        path = tmp_path / "mine.yaml"
        path.write_text(
            f"name: mine\ntitle: mine\nnodes: {{n: {{devices: {{d: {{chip: edu-4x4, count: {count}}}}}, "
            f"fabrics: {{f: {{link: {LINK}, {fabric}}}}}}}}}\nsource: a test\nas_of: 2026-11\n",
            encoding="utf-8",
        )
        return build(load_cluster(path, more))

    return make


def joined(topology: Topology) -> set[tuple[str, str]]:
    """Labels that a wire leads from and to, without the node."""
    short = [label.removeprefix("n0.") for label in topology.labels]
    return {(short[wire.source], short[wire.target]) for wire in topology.wires}


def test_every_shape_of_the_specs_has_a_module_and_the_other_way_round() -> None:
    assert set(SHAPES) == set(spec.SHAPES) == set(Fabric.model_fields["shape"].annotation.__args__)  # type: ignore[union-attr]


FULL: dict[str, tuple[int, str, int, int]] = {
    "fully-connected": (5, "", 20, 6),
    "switch": (5, "", 10, 2),
    "ring": (5, "", 10, 2),
    "pairs": (6, "", 6, 1),
    "hybrid-cube-mesh": (8, "", 32, 4),
    "torus": (12, ", dims: [3, 4]", 48, 6),
    "pcie-tree": (8, f", members: 2, roots: 2, root_link: {LINK}", 26, 1),
    "leaf-spine": (6, ", members: 2, spines: 2", 24, 3),
    "list": (3, ", wires: [{ends: [d0, d1]}, {ends: [d1, d2]}]", 4, 1),
}
"""Shape -> devices, fields, wires that it has, links across the middle."""


@pytest.mark.parametrize("shape", spec.SHAPES)
def test_wires_and_bisection_of_a_shape(shape: str, made: Make) -> None:
    count, fields, wires, across = FULL[shape]
    if shape == "pairs":
        fields += "}, g: {link: " + LINK + ", shape: ring"
    topology = made(count, f"shape: {shape}{fields}")
    extra = 2 * count if shape == "pairs" else 0
    assert len(topology.wires) == wires + extra
    assert {(b, a) for a, b in joined(topology)} == joined(topology)
    if shape != "pairs":
        assert bisection_Bps(topology) == across * RATE


def test_oversubscription_divides_the_uplinks(made: Make) -> None:
    fields = "shape: leaf-spine, members: 4, spines: 2, oversubscription: 2.5"
    topology = made(8, fields)
    up = {
        wire.rate
        for wire in topology.wires
        if "leaf" in topology.labels[wire.source] and "spine" in topology.labels[wire.target]
    }
    assert up == {Fraction(4 * RATE * 2, 5) / 2}
    assert bisection_Bps(topology) == Fraction(4 * RATE * 2, 5)


def test_a_single_leaf_needs_no_spine(made: Make) -> None:
    assert not any("spine" in label for label in made(4, "shape: leaf-spine, members: 8").labels)


def test_pairs_of_leaves_are_spread_over_the_spines(made: Make) -> None:
    topology = made(8, "shape: leaf-spine, members: 4, spines: 4")
    over = {topology.labels[topology.wires[topology.route(0, b)[1]].target] for b in range(4, 8)}
    assert over == {f"n0.f.spine{index}" for index in range(4)}


@pytest.mark.parametrize("dims", [[5], [2, 3], [4, 4], [1, 4], [3, 4, 5], [2, 2, 2], [16, 1, 2]])
def test_routes_of_a_torus_are_minimal_and_follow_the_dimensions(dims: list[int], made: Make) -> None:
    topology = made(prod(dims), f"shape: torus, dims: {dims}")

    def place(rank: int) -> list[int]:
        return [rank // prod(dims[:index]) % size for index, size in enumerate(dims)]

    for a in range(0, topology.ranks, 3):
        for b in range(topology.ranks):
            way = [topology.wires[number] for number in topology.route(a, b)]
            apart = [abs(x - y) for x, y in zip(place(a), place(b), strict=True)]
            assert len(way) == sum(min(x, size - x) for x, size in zip(apart, dims, strict=True))
            turned = [
                next(index for index, (x, y) in enumerate(zip(place(wire.source), place(wire.target), strict=True)) if x != y)
                for wire in way
            ]  # fmt: skip
            assert turned == sorted(turned)


def test_routes_over_open_dimensions_do_not_pass_an_edge(made: Make) -> None:
    topology = made(8, "shape: torus, dims: [4, 2], open: [0]")
    assert len(topology.wires) == 2 * (3 * 2 + 4) and len(topology.route(0, 3)) == 3 and len(topology.route(7, 0)) == 4


def test_of_two_ways_round_of_the_same_length_even_places_go_forth(made: Make) -> None:
    topology = made(4, "shape: torus, dims: [4]")
    over = [topology.wires[topology.route(a, (a + 2) % 4)[0]].target for a in range(4)]
    assert over == [1, 0, 3, 2]


def test_groups_of_a_torus_alone_are_its_rows_else_nodes(made: Make) -> None:
    assert made(6, "shape: torus, dims: [3, 2]").groups == (0, 0, 0, 1, 1, 1)
    assert set(made(6, "shape: ring").groups) == {0}


def test_listed_wires_may_have_links_and_switches_of_their_own(made: Make) -> None:
    slow = LINK.replace("1 GB/s", "1 MB/s")
    topology = made(2, f"shape: list, switches: [s], wires: [{{ends: [d0, s]}}, {{ends: [s, d1], link: {slow}}}]")
    assert joined(topology) == {("d0", "f.s"), ("f.s", "d0"), ("f.s", "d1"), ("d1", "f.s")}
    assert [wire.rate for wire in topology.wires] == [RATE, RATE, 10**6, 10**6]


def test_parts_of_a_bundle(made: Make) -> None:
    """Four of the twelve links of NVLink 3 to each of three others."""
    wire = made(4, "shape: fully-connected, links: 4", "f.link=links/nvlink-gen3").wires[0]
    assert wire.rate == Fraction(100 * RATE * 16, 17)


@pytest.mark.parametrize(
    ("count", "dimensions", "expected"),
    [(16, 2, [4, 4]), (16, 3, [2, 2, 4]), (64, 3, [4, 4, 4]), (12, 2, [3, 4]), (7, 2, [1, 7]), (4096, 3, [16, 16, 16]), (1, 3, [1, 1, 1]), (8, 1, [8])],
)  # fmt: skip
def test_a_number_before_the_name_of_a_torus_makes_a_grid(count: int, dimensions: int, expected: list[int]) -> None:
    assert balanced(count, dimensions) == expected
