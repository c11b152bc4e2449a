"""Every cluster that ships: sound, sourced, connected, with the bandwidths that its source states."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest

from accelsim.cluster.shapes.building import build, devices, speeds
from accelsim.cluster.shapes.facts import bisection_Bps, facts
from accelsim.cluster.shapes.wiring import exact_Bps
from accelsim.spec.yaml import where
from accelsim.spec.yaml.clusters import clusters, load_cluster
from accelsim.spec.yaml.load import check
from accelsim.spec.yaml.parts import load_link

NAMES = clusters()
GB = 10**9

STATED: dict[str, tuple[float, float, float]] = {
    "dgx-a100": (300, 25, 0),
    "dgx-h100": (450, 50, 0),
    "dgx-h200": (450, 50, 0),
    "dgx-b200": (900, 50, 0),
    "dgx1-v100": (150, 6.25, 0),
    "p4d-cluster": (300, 6.25, 50),
    "hls1-gaudi": (87.5, 37.5, 200),
    "trn1-32xl": (206, 6.25, 412),
    "trn2-48xlarge": (512, 25, 1024),
    "trn2-ultraserver": (640, 25, 2048),
    "inf2-48xlarge": (103, 1.04, 103),
    "tpu-v3-pod": (328, 0, 0),
    "tpu-v4-pod": (300, 0, 24_000),
    "tpu-v5e-256": (200, 0, 1_600),
    "tpu-v6e-256": (400, 0, 3_200),
    "tpu-v7-64": (600, 0, 0),
    "4x-a100-nvlink": (300, 0, 400),
    "p100-roce": (15.75, 0.78125, 6.25),
}
"""Cluster -> GB/s of one direction: per device in its node, per device between nodes, across the middle; 0 where no
source says. As a rule the payload is less, by the headers of packets.

NVLink: 600, 900 and 300 GB/s both ways added (NVIDIA, on A100, H100, V100). Cards: 8 x 200, 8 x 400, 4 x 100 Gbit/s for
8 GPUs (ND96amsr_A100_v4, ND96isr_H100_v5; DGX-1 recalled); p4d.24xlarge 400, trn1.32xlarge 800 Gbit/s per node, two p4d
have 50 GB/s between them. Gaudi: 7 x 100 Gbit/s in the box and 3 out; four dies reach four over 16 links. Trainium: 384
GiB/s both ways added; 8 links cross the middle of 4 x 4. Trainium2: 1,024 GB/s both ways added and 256 in a rack; 3,200
Gbit/s for 16 chips. Inferentia2: 192 GiB/s. TPU v3: 4 x 656 Gbit/s; v4: 6 x 50 GB/s, bisection 24 TB/s (Google Cloud);
v5e, v6e, TPU7x: half of 400, 800, 1,200 GB/s, bisections 1.6 and 3.2 TB/s (Google Cloud). Four A100: 12 links of 25
GB/s, 4 pairs of 4 links across the middle. PCIe 3.0 x16: 15.75 GB/s; 25 Gbit/s for
four GPUs, two servers on each side.
"""
MOST_PROTOCOL = 0.17
"""Share of a stated rate that headers, or rounding in what is stated, may take: PCIe loses 16 %."""


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_cluster_is_right_and_says_where_it_is_from(name: str) -> None:
    assert check(where.names("clusters")[name]) == []
    cluster = load_cluster(name)
    assert cluster.name == name and cluster.source and cluster.as_of
    assert cluster.collectives.source or cluster.collectives.title.startswith("none")


@pytest.mark.parametrize("name", NAMES)
def test_every_device_reaches_every_other(name: str) -> None:
    """All pairs of a small one, some of a large one; a way leads over wires that meet."""
    topology = build(load_cluster(name))
    ranks = range(topology.ranks) if topology.ranks <= 16 else range(0, topology.ranks, topology.ranks // 7)
    for a, b in combinations(ranks, 2):
        for here, there in ((a, b), (b, a)):
            at = here
            for number in topology.route(here, there):
                assert topology.wires[number].source == at
                at = topology.wires[number].target
            assert at == there


@pytest.mark.parametrize("name", NAMES)
def test_no_way_leads_through_a_card_twice_on_one_side(name: str) -> None:
    """Between devices of a node with a fabric cards are passed by."""
    cluster = load_cluster(name)
    topology = build(cluster)
    for a, b in combinations(range(min(topology.ranks, 8)), 2):
        if topology.groups[a] == topology.groups[b] and next(iter(cluster.nodes.values())).fabrics:
            passed = [topology.labels[topology.wires[number].target] for number in topology.route(a, b)]
            assert not any(".nic" in label for label in passed)


@pytest.mark.parametrize("name", STATED)
def test_bandwidths_are_those_that_are_stated(name: str) -> None:
    found = facts(load_cluster(name))
    inside, between, cut = STATED[name]
    made = (found.inside_Bps, found.between_Bps)
    for stated, rate in zip((inside, between), made, strict=True):
        assert rate == 0 if not stated else (1 - MOST_PROTOCOL) * stated <= float(rate) / GB <= 1.001 * stated
    if cut:
        across = float(bisection_Bps(build(load_cluster(name)))) / GB
        assert (1 - MOST_PROTOCOL) * cut <= across <= 1.07 * cut


def test_bisection_of_a_tpu_v3_pod_is_below_what_is_stated() -> None:
    """6.4 TB/s are stated; 64 links of 82 GB/s cross the middle (see links/ici-v3)."""
    assert bisection_Bps(build(load_cluster("tpu-v3-pod"))) == 64 * 82 * GB


def test_rates_are_exact() -> None:
    """The payload of NVLink 3 is 256 of 272 B of 300 GB/s; ten RoCE ports each carry 4096 of 4178 B."""
    assert exact_Bps(load_link("nvlink-gen3")) == Fraction(300 * GB * 256, 272)
    up = next(wire for wire in build(load_cluster("dgx-a100")).wires if wire.source == 0)
    assert up.rate == Fraction(300 * GB * 16, 17) and up.latency_fs == 750_000_000
    assert exact_Bps(load_link("roce-100g")) == Fraction(12_500_000_000 * 4096, 4178)
    assert exact_Bps(load_link("edu-link")) == 100_000_000


def test_through_a_switch_a_message_takes_the_latency_of_its_link_once() -> None:
    """Half of it up and half down."""
    topology = build(load_cluster("4x-edu"))
    assert topology.message_fs(0, 3, 1000) == 1_000_000_000 + 10_000_000_000


def test_chips_of_a_cluster_are_loaded_once_each() -> None:
    chips = devices(load_cluster("edge-and-cloud"))
    assert [chip.name for chip in chips] == ["edu-4x4"] * 8 + ["a100-40-sxm"] * 4
    assert len({id(chip) for chip in chips}) == 2


def test_stragglers() -> None:
    cluster = load_cluster("4x-edu", ["speeds={node0.chip2: 0.5}", "chip.speed=2"])
    assert speeds(cluster) == (2.0, 2.0, 1.0, 2.0)


def test_hybrid_cube_mesh_uses_all_six_links_of_each_gpu() -> None:
    """Sixteen pairs, eight of them with two links; with the four links of a P100 each pair has one."""
    found = build(load_cluster("dgx1-v100"))
    link = exact_Bps(load_link("nvlink-gen2")) / 6
    for rank in range(8):
        assert sorted(wire.rate / link for wire in found.wires if wire.source == rank) == [1, 1, 2, 2]
    older = build(load_cluster("dgx1-v100", ["nvlink.link=links/nvlink-gen1"]))
    assert {wire.rate for wire in older.wires} == {exact_Bps(load_link("nvlink-gen1")) / 4}


def test_a_thousand_devices() -> None:
    """Node by node, seven full leaves and one spine, each uplink as fast as what hangs on its leaf."""
    topology = build(load_cluster("128x-dgx-a100"))
    assert topology.ranks == 1024 and topology.name == "128x-dgx-a100"
    assert topology.groups == tuple(rank // 8 for rank in range(1024))
    assert topology.labels[1023] == "node127.gpu7"
    up = [wire for wire in topology.wires if topology.labels[wire.target] == "infiniband.spine0"]
    assert len(up) == 7 and {wire.rate for wire in up} == {160 * exact_Bps(load_link("infiniband-hdr"))}
