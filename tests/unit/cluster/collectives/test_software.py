"""What a communication library makes of a collective: closed forms, choices, legal input, rings on topologies."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from accelsim.cluster.collectives.reach import reach
from accelsim.cluster.collectives.software import KINDS, Estimate, estimate, estimates, serving
from accelsim.cluster.network.topology import Topology
from accelsim.cluster.shapes.building import build
from accelsim.errors import UsageError
from accelsim.spec.collectives import Collectives, Planned, Protocol
from accelsim.spec.yaml.clusters import load_cluster

SAID = {"title": "a library", "source": "a test", "as_of": "2026-11"}
SIZES = [8, 1024, 2**20, 2**24, 2**26]


def software(**protocols: Protocol) -> Collectives:
    return Collectives(launch="1 us", protocols=protocols, **SAID)


def simple(**asked: object) -> Protocol:
    return Protocol(**{"share": 0.5, "base": "2 us", "inside": "3 us", "between": "7 us", **asked})


@pytest.mark.parametrize(
    "kind, ranks, steps, passes",
    [
        ("all_reduce", 8, 14, 14 / 8), ("all_reduce", 2, 2, 1), ("reduce_scatter", 4, 3, 3 / 4),
        ("all_gather", 8, 7, 7 / 8), ("broadcast", 4, 3, 1), ("send_recv", 2, 1, 1), ("all_to_all", 8, 7, 7 / 8),
    ],
)  # fmt: skip
def test_a_ring_on_one_switch_is_its_closed_form(kind: str, ranks: int, steps: int, passes: float) -> None:
    topology, nbytes = build(load_cluster("dgx-a100")), 2**20
    rate = float(topology.wires[0].rate) * 0.5
    found = estimate(topology, software(simple=simple()), kind, nbytes, range(ranks))
    assert found.time_s == pytest.approx(1e-6 + 2e-6 + steps * 3e-6 + nbytes * passes / rate, rel=1e-12, abs=0)
    assert found.bus_Bps == pytest.approx(nbytes * passes / found.time_s, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    "algorithm, steps, passes", [("one-shot", 7, 7), ("two-shot", 7, 14 / 8), ("switch", 2, 9 / 8)]
)
def test_all_reduces_that_are_no_ring(algorithm: str, steps: int, passes: float) -> None:
    topology, nbytes = build(load_cluster("dgx-h100")), 2**20
    rate = float(topology.wires[0].rate) * 0.5
    library = software(one=simple(algorithm=algorithm))
    found = estimate(topology, library, "all_reduce", nbytes, range(8))
    assert found.algorithm == algorithm
    assert found.time_s == pytest.approx(3e-6 + steps * 3e-6 + nbytes * passes / rate, rel=1e-12, abs=0)
    with pytest.raises(UsageError, match="a library has no protocol for all_gather among 8"):
        estimate(topology, library, "all_gather", nbytes, range(8))


def test_only_a_switch_that_adds_up_and_formats_that_it_knows() -> None:
    """On an A100's NVSwitch, over nodes, and in int8 rings are left."""
    library = software(ring=simple(), nvls=simple(algorithm="switch", formats=["fp16"], base="0 s", share=1))
    h100, two, a100 = (build(load_cluster(name)) for name in ("dgx-h100", "2x-dgx-h100", "dgx-a100"))
    for topology, dtype, algorithm in (
        (h100, "fp16", "switch"), (h100, "", "switch"), (h100, "int8", "ring"), (two, "fp16", "ring"), (a100, "fp16", "ring"),
    ):  # fmt: skip
        found = estimates(topology, library, "all_reduce", 2**28, dtype=dtype)
        assert found[0].algorithm == algorithm, (topology.name, dtype)


def test_lanes_bind_what_is_sent_directly() -> None:
    topology = build(load_cluster("dgx-h100"))
    library = software(one=simple(lane="1 GB/s", base="0 s", inside="0 s"))
    assert estimate(topology, library, "all_to_all", 2**30).time_s == pytest.approx(1e-6 + 2**30 / 8e9)
    assert estimate(topology, library, "send_recv", 2**30, (0, 1)).time_s == pytest.approx(1e-6 + 2**30 / 1e9)
    assert estimate(topology, library, "all_gather", 2**30).time_s < 0.01


def test_an_exchange_over_nodes_takes_what_cards_carry() -> None:
    """Each of 16 devices sends 8 of its 16 parts through its own card."""
    topology = build(load_cluster("2x-dgx-a100"))
    card = min(float(wire.rate) for wire in topology.wires if wire.link == "infiniband")
    found = estimate(topology, software(simple=simple(share_between=0.8)), "all_to_all", 2**30)
    assert found.time_s - found.latency_s == pytest.approx(2**29 / card / 0.8, rel=1e-9)


def test_fill_counts_one_piece_more_and_no_more_than_a_chunk() -> None:
    topology = build(load_cluster("dgx-a100"))
    rate = float(topology.wires[0].rate) * 0.5
    plain, filled, cut = (
        estimate(topology, software(simple=simple(**more)), "all_reduce", 2**23).time_s
        for more in ({}, {"fill": 0.5}, {"fill": 0.5, "chunk": "1 KiB"})
    )
    assert filled - plain == pytest.approx(0.5 * 2**20 / rate, rel=1e-9)
    assert cut - plain == pytest.approx(0.5 * 2**10 / rate, rel=1e-6)


def by_algorithm(topology: Topology, library: Collectives, kind: str, nbytes: int) -> dict[str, Estimate]:
    """Return the fastest estimate of each algorithm."""
    return {each.algorithm: each for each in reversed(estimates(topology, library, kind, nbytes))}


def test_between_nodes_two_steps_of_a_ring_cross_and_every_member_has_its_card() -> None:
    topology = build(load_cluster("2x-dgx-a100"))
    rings = reach(topology, tuple(range(16)))
    card = min(float(wire.rate) for wire in topology.wires if wire.link != "nvlink")
    assert (rings.ranks, rings.nodes, rings.members) == (16, 2, 8)
    assert rings.between_Bps == pytest.approx(8 * card)
    found = by_algorithm(topology, software(simple=simple()), "all_reduce", 64)["ring"]
    assert found.latency_s == pytest.approx(1e-6 + 2e-6 + 28 * 3e-6 + 2 * 7e-6)


def test_flow_binds_rings_and_tree_flow_trees() -> None:
    topology, nbytes = build(load_cluster("2x-dgx-a100")), 2**30
    library = software(simple=simple(flow="1 GB/s", tree_flow="2 GB/s"))
    found = by_algorithm(topology, library, "all_reduce", nbytes)
    ring, tree = found["ring"], found["tree"]
    assert ring.time_s - ring.latency_s == pytest.approx(nbytes * 30 / 16 / 1e9, rel=1e-9)
    assert tree.time_s - tree.latency_s == pytest.approx(2 * nbytes / 16e9, rel=1e-9)


def test_a_plan_takes_what_it_expects_to_be_faster_though_it_is_not() -> None:
    topology = build(load_cluster("2x-dgx-a100"))
    library = software(simple=simple(flow="1 GB/s", tree_flow="2 GB/s"))
    wrong = library.model_copy(update={"plan": Planned(rings="100 GB/s", trees="1 GB/s")})
    assert estimates(topology, library, "all_reduce", 2**30)[0].algorithm == "tree"
    assert estimates(topology, wrong, "all_reduce", 2**30)[0].algorithm == "ring"


def test_devices_that_are_wired_to_each_other_use_all_their_links() -> None:
    topology = build(load_cluster("4x-a100-nvlink"))
    single = float(topology.wires[0].rate)
    assert reach(topology, (0, 1, 2, 3)).inside_Bps == pytest.approx(3 * single)
    assert reach(topology, (0, 3)).inside_Bps == pytest.approx(single)


def test_protocols_are_those_that_name_the_kind_up_to_their_largest() -> None:
    library = software(small=simple(largest="1 KiB"), big=simple(), sent=simple(kinds=["send_recv"], largest="4 KiB"))
    assert [name for name, _ in serving(library, "all_reduce", 8)] == ["small", "big"]
    assert [name for name, _ in serving(library, "all_reduce", 2048)] == ["big"]
    assert [name for name, _ in serving(library, "send_recv", 2**30)] == ["sent"]


@pytest.mark.parametrize("name", ["dgx-a100", "2x-dgx-h100", "2x-a100-200g", "4x-a100-nvlink", "4x-a100-pairwise"])
@pytest.mark.parametrize("kind", KINDS)
def test_more_bytes_are_never_faster_by_one_way(name: str, kind: str) -> None:
    cluster = load_cluster(name)
    topology, group = build(cluster), (0, 1) if kind == "send_recv" else None
    for algorithm in {each.algorithm for each in estimates(topology, cluster.collectives, kind, 8, group)}:
        times = [
            min(
                each.time_s
                for each in estimates(topology, cluster.collectives, kind, nbytes, group)
                if each.algorithm == algorithm
            )
            for nbytes in SIZES
        ]
        assert all(a <= b for a, b in pairwise(times)), (algorithm, times)


def test_no_library_passes_more_than_its_links_carry() -> None:
    for name in ("dgx-a100", "dgx-h100", "4x-a100-nvlink"):
        cluster = load_cluster(name)
        topology = build(cluster)
        rings = reach(topology, tuple(range(topology.ranks)))
        n = rings.ranks
        most = rings.inside_Bps * (2 * (n - 1) / (n + 1) if rings.sums else 1)
        assert estimate(topology, cluster.collectives, "all_reduce", 2**36).bus_Bps <= most


@pytest.mark.parametrize(
    "kind, group, words",
    [
        ("all_reduse", (0, 1), "all_reduse.*did you mean 'all_reduce'"),
        ("all_reduce", (0, 0), "two devices or more"), ("all_reduce", (0,), "two devices or more"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told(kind: str, group: tuple[int, ...], words: str) -> None:
    topology = build(load_cluster("dgx-a100"))
    with pytest.raises(UsageError, match=f"(?s){words}"):
        estimate(topology, software(simple=simple()), kind, 64, group)


@pytest.mark.parametrize(
    "name, kind, group, degree, steps, passes",
    [
        ("tpu-v6e-256", "all_reduce", range(256), 4, 2 * 30, 2 * 255 / 256),  # a ring of 16 along each of two dimensions
        ("tpu-v5e-16", "all_gather", range(16), 2, 6, 15 / 16),  # a corner of the slice has two links
        ("tpu-v7-64", "all_gather", (0, 1, 4, 5), 2, 2, 3 / 4),  # 2 x 2 of a cube
        ("tpu-v4-64", "all_to_all", range(32), 3, 7, 31 / 32 * (0.5 + 1.25 + 1.25)),  # by mean hops
    ],
)  # fmt: skip
def test_a_grid_of_a_torus_has_rings_along_each_dimension(
    name: str, kind: str, group: Sequence[int], degree: int, steps: int, passes: float
) -> None:
    cluster, nbytes = load_cluster(name), 2**28
    topology = build(cluster)
    rate = degree * float(topology.wires[0].rate) * 0.9
    found = estimate(topology, cluster.collectives, kind, nbytes, tuple(group))
    assert found.time_s == pytest.approx(10e-6 + steps * 1e-6 + nbytes * passes / rate, rel=1e-9, abs=0)
